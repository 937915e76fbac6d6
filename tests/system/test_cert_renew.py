"""``agtp cert renew``: a running host presents the new certificate from its next connection on."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity import certificates
from tests.system.hosting import Host, agtp, running, sample


def _presented(host: Host) -> x509.Certificate:
    """The certificate that the host shows now."""
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", host.port)).encode())


def _answer(request: Path, names: x509.SubjectAlternativeName | None = None, *, days: int = 30) -> bytes:
    """What an authority elsewhere sends for a request."""
    asked = x509.load_pem_x509_csr(request.read_bytes())
    authority = certificates.create_authority(now=datetime.now(UTC), organization="Another", kind="CA")
    begin = datetime.now(UTC) - timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(asked.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(
            names or asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, critical=False
        )
        .sign(authority.key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM) + authority.certificate_pem


def test_a_running_host_presents_its_renewed_certificate(tmp_path: Path) -> None:
    """The key and the names stay, the serial number changes, and no restart is needed; the record says who did it."""
    with running(sample(tmp_path)) as host:
        old = _presented(host)
        [renewed] = host.agtp_json("cert", "renew", "--days", "90")["certificates"]
        new = _presented(host)
        assert f"{new.serial_number:x}" == renewed["serial"] != f"{old.serial_number:x}"
        assert new.public_key() == old.public_key()
        assert certificates.server_names(new) == certificates.server_names(old)
        assert (new.not_valid_after_utc - new.not_valid_before_utc).days == 90
        assert host.agtp("tools", "ls").returncode == 0, "the clients of this directory trust it as before"


def test_another_authority_is_sent_a_request_and_its_answer_installed(tmp_path: Path) -> None:
    """The answer must be for the host's key, have all its names, and be valid; else nothing changes."""
    config = sample(tmp_path)
    request, answer = tmp_path / "request.pem", tmp_path / "answer.pem"
    with running(config) as host:
        old = _presented(host)
        assert host.agtp("cert", "renew", "localhost", "--csr", str(request)).returncode == 0
        assert host.agtp("cert", "renew", "localhost", "--csr", str(request)).returncode == 2, "it is never overwritten"

        refused = {
            "lacks names": _answer(request, x509.SubjectAlternativeName([x509.DNSName("localhost")])),
            "not now": _answer(request, days=1),
            "not for the key": certificates.create_authority(now=datetime.now(UTC)).certificate_pem,
            "no PEM certificate": b"nothing",
        }
        for why, octets in refused.items():
            answer.write_bytes(octets)
            done = host.agtp("cert", "renew", "localhost", "--install", str(answer))
            assert done.returncode == 2 and why in done.stderr, (why, done.stderr)
        assert _presented(host) == old

        answer.write_bytes(_answer(request))
        done = host.agtp("cert", "renew", "localhost", "--install", str(answer))
        assert done.returncode == 0, done.stderr
        assert "Another" in _presented(host).issuer.rfc4514_string()

        done = host.agtp("cert", "renew", "--cacert", str(answer))
        assert done.returncode == 2 and "another authority" in done.stderr and "--csr" in done.stderr


def test_names_and_options_that_do_not_fit(tmp_path: Path) -> None:
    """A wrong name lists the right ones, and the two steps with another authority exclude each other."""
    config = str(sample(tmp_path))
    with running(Path(config)):
        pass
    unknown = agtp("cert", "renew", "nowhere.example", "--config", config)
    assert unknown.returncode == 2 and "Choose one of: localhost" in unknown.stderr
    both = agtp("cert", "renew", "--config", config, "--csr", "a", "--install", "b")
    assert both.returncode == 2 and "exclude each other" in both.stderr
    stopped = agtp("cert", "renew", "--config", config)
    assert stopped.returncode == 0 and "next start" in stopped.stderr
