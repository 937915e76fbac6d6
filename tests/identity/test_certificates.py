"""Certificates: AGTP extensions both ways, critical extensions, real TLS handshakes."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agtphost.identity import certificates, extensions
from agtphost.identity.certificates import (
    CertificateError,
    parse_peer_certificate,
    refused_critical_extensions,
)
from agtphost.identity.extensions import Extension, ExtensionError
from agtphost.identity.keys import SigningKey
from tests.identity.samples import NOW, key_of
from tests.rows import each_row

AUTHORITY = certificates.create_authority(now=NOW)
KEY = key_of("certificates key")
AGENT_ID = "ab" * 32
SCOPES = ("mcp:tools:execute", "booking:*", "documents:query")
IGNORE_CRITICAL = 0x10


def der_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def agent_certificate(**changes: Any) -> x509.Certificate:
    arguments: dict[str, Any] = {
        "label": "demo",
        "organization": "acme",
        "agent_id": AGENT_ID,
        "principal_id": "acme.tld",
        "commitment": SCOPES,
        "zone": "zone:acme",
        "trust_tier": 2,
        "archetype": "executor",
        "activation": "cd" * 32,
        "now": NOW,
    }
    return certificates.issue_agent_certificate(AUTHORITY, KEY.public, **{**arguments, **changes})


def with_extensions(*added: tuple[str, bytes, bool], key: Any = None) -> bytes:
    """The DER of a client certificate with any extensions at all."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
        .issuer_name(AUTHORITY.certificate.subject)
        .public_key(key or KEY.public.public_key)
        .serial_number(255)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
    )
    for dotted, octets, critical in added:
        builder = builder.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier(dotted), octets), critical=critical
        )
    return der_of(builder.sign(AUTHORITY.key, hashes.SHA256()))


IDENTITY = (Extension.SUBJECT_AGENT_ID.value, AGENT_ID.encode(), True)


def test_identifiers_follow_their_derivation() -> None:
    """Companion section 9.1: 2.25 and the UUIDv5 of the extension's short name."""
    for kind in Extension:
        name = f"agtp-cert-ext.{kind.label}.nomotic.ai"
        assert kind.value == f"2.25.{uuid5(NAMESPACE_DNS, name).int}", kind
        assert kind.oid.dotted_string == kind.value
    assert [kind.label for kind in Extension if kind.critical] == [
        "subject-agent-id",
        "principal-id",
        "authority-scope-commitment",
    ]


def test_a_peer_certificate_says_what_was_issued() -> None:
    """The round trip: every AGTP value and every plain one."""
    certificate = agent_certificate()
    peer = parse_peer_certificate(der_of(certificate))
    assert peer.malformed == ""
    assert (peer.agent_id, peer.principal_id) == (AGENT_ID, "acme.tld")
    assert peer.commitment == set(SCOPES)
    assert (peer.governance_zone, peer.trust_tier, peer.archetype) == ("zone:acme", 2, "executor")
    assert peer.activation_certificate_id == "cd" * 32
    assert peer.fingerprint == KEY.public.fingerprint
    assert peer.sha256 == hashlib.sha256(der_of(certificate)).hexdigest()
    assert int(peer.serial, 16) == certificate.serial_number
    assert peer.subject == "OU=zone:acme,O=acme,CN=demo"
    assert peer.not_before < NOW < peer.not_after
    assert peer.not_after - peer.not_before == timedelta(days=90)


def test_values_are_raw_octets() -> None:
    """Companion section 9.1: no further ASN.1 string; the commitment sorted, the tier a DER INTEGER."""
    found = {item.oid.dotted_string: item for item in agent_certificate().extensions}
    for kind, octets in {
        Extension.SUBJECT_AGENT_ID: AGENT_ID.encode(),
        Extension.AUTHORITY_SCOPE_COMMITMENT: b"booking:*,documents:query,mcp:tools:execute",
        Extension.TRUST_TIER: b"\x02\x01\x02",
    }.items():
        item = found[kind.value]
        assert item.value.value == octets
        assert item.critical is kind.critical


def test_an_empty_commitment_commits_to_nothing() -> None:
    """Empty is not absent: nothing may be claimed over this certificate."""
    assert parse_peer_certificate(der_of(agent_certificate(commitment=()))).commitment == frozenset()
    assert parse_peer_certificate(with_extensions(IDENTITY)).commitment is None


def test_a_certificate_without_extensions_is_plain_tls() -> None:
    """Companion section 9.2: valid, no agent, its key still good for issuer and operator comparison."""
    certificate = certificates.issue_client_certificate(
        AUTHORITY, KEY.public, label="registrar", organization="acme", now=NOW
    )
    peer = parse_peer_certificate(der_of(certificate))
    assert (peer.agent_id, peer.commitment, peer.malformed) == (None, None, "")
    assert peer.fingerprint == KEY.public.fingerprint


@pytest.mark.parametrize(
    "make",
    [lambda: ec.generate_private_key(ec.SECP256R1()), lambda: rsa.generate_private_key(65537, 2048)],
    ids=["P-256", "RSA"],
)
def test_other_keys_have_no_fingerprint(make: Callable[[], Any]) -> None:
    """Companion section 9.2: any key type is good for transport; only Ed25519 authorizes by fingerprint."""
    peer = parse_peer_certificate(with_extensions(IDENTITY, key=make().public_key()))
    assert (peer.fingerprint, peer.agent_id) == ("", AGENT_ID)


MALFORMED: dict[str, tuple[tuple[str, bytes, bool], ...]] = {
    "agent id upper case": ((Extension.SUBJECT_AGENT_ID.value, b"AB" * 32, True),),
    "agent id short": ((Extension.SUBJECT_AGENT_ID.value, b"ab" * 31, True),),
    "agent id with a line feed": ((Extension.SUBJECT_AGENT_ID.value, b"ab" * 32 + b"\n", True),),
    "agent id empty": ((Extension.SUBJECT_AGENT_ID.value, b"", True),),
    "agent id in an ASN.1 string": ((Extension.SUBJECT_AGENT_ID.value, b"\x0c\x40" + b"ab" * 32, True),),
    "agent id in other digits": ((Extension.SUBJECT_AGENT_ID.value, ("１" * 64).encode(), True),),
    "agent id not critical": ((Extension.SUBJECT_AGENT_ID.value, b"ab" * 32, False),),
    "principal empty": (IDENTITY, (Extension.PRINCIPAL_ID.value, b"", True)),
    "principal too long": (IDENTITY, (Extension.PRINCIPAL_ID.value, b"a" * 257, True)),
    "principal not UTF-8": (IDENTITY, (Extension.PRINCIPAL_ID.value, b"\xff", True)),
    "principal with CR LF": (IDENTITY, (Extension.PRINCIPAL_ID.value, b"a\r\nb", True)),
    "principal not critical": (IDENTITY, (Extension.PRINCIPAL_ID.value, b"a", False)),
    "commitment unsorted": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"b:a,a:b", True)),
    "commitment twice": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"a:b,a:b", True)),
    "commitment with spaces": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"a:b, b:a", True)),
    "commitment with a hole": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"a:b,,b:a", True)),
    "commitment upper case": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"A:b", True)),
    "commitment not critical": (IDENTITY, (Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"a:b", False)),
    "commitment without agent": ((Extension.AUTHORITY_SCOPE_COMMITMENT.value, b"a:b", True),),
    "zone without prefix": (IDENTITY, (Extension.GOVERNANCE_ZONE.value, b"acme", False)),
    "zone empty": (IDENTITY, (Extension.GOVERNANCE_ZONE.value, b"zone:", False)),
    "tier 0": (IDENTITY, (Extension.TRUST_TIER.value, b"\x02\x01\x00", False)),
    "tier 4": (IDENTITY, (Extension.TRUST_TIER.value, b"\x02\x01\x04", False)),
    "tier in two octets": (IDENTITY, (Extension.TRUST_TIER.value, b"\x02\x02\x00\x02", False)),
    "tier as text": (IDENTITY, (Extension.TRUST_TIER.value, b"2", False)),
    "archetype unknown": (IDENTITY, (Extension.ARCHETYPE.value, b"wizard", False)),
    "activation short": (IDENTITY, (Extension.ACTIVATION_CERTIFICATE_ID.value, b"ab", False)),
    "a broken standard extension": (IDENTITY, ("2.5.29.15", b"\xff", False)),
}


@each_row("name", MALFORMED)
def test_malformed_extensions_take_the_identity_away(name: str) -> None:
    """Companion section 9.2: what breaks its definition is named and grants no identity (T-ID)."""
    peer = parse_peer_certificate(with_extensions(*MALFORMED[name]))
    assert peer.malformed
    assert (peer.agent_id, peer.principal_id, peer.commitment) == (None, None, None)


def test_an_extension_twice_is_malformed() -> None:
    """Two values for one identity: the certificate builder refuses it, so its DER is made by substitution."""
    spare = "2.25.268315605531543067570885820853135175301"
    der = with_extensions(IDENTITY, (spare, AGENT_ID.encode(), True))
    own = x509.UnrecognizedExtension(Extension.SUBJECT_AGENT_ID.oid, b"").oid
    old = x509.ObjectIdentifier(spare)
    twice = der.replace(_oid_der(old), _oid_der(own))
    assert twice != der
    assert "extensions cannot be read" in parse_peer_certificate(twice).malformed
    assert refused_critical_extensions(twice) == (certificates.UNREADABLE,)


def _oid_der(oid: x509.ObjectIdentifier) -> bytes:
    """The DER of an object identifier, tag included."""
    first, second, *rest = (int(arc) for arc in oid.dotted_string.split("."))
    octets = b""
    for arc in (first * 40 + second, *rest):
        group = [arc & 0x7F]
        while arc := arc >> 7:
            group.append(arc & 0x7F | 0x80)
        octets += bytes(reversed(group))
    return bytes((6, len(octets))) + octets


@each_row("der", [b"", b"\x30\x00", b"garbage", b"\x30\x82\xff\xff"])
def test_what_is_no_certificate(der: bytes) -> None:
    """Other octets raise CertificateError, and pass no vetting."""
    with pytest.raises(CertificateError):
        parse_peer_certificate(der)
    assert refused_critical_extensions(der) == (certificates.UNREADABLE,)


def test_only_known_critical_extensions_pass() -> None:
    """Design decision 3: AGTP's and those that OpenSSL verifies pass, every other critical one is named."""
    assert refused_critical_extensions(der_of(agent_certificate())) == ()
    assert refused_critical_extensions(der_of(AUTHORITY.certificate)) == ()
    assert refused_critical_extensions(with_extensions(("1.2.3.4", b"", False))) == ()
    assert refused_critical_extensions(with_extensions(("1.2.3.4", b"", True))) == ("1.2.3.4",)
    near = "2.25.268315605531543067570885820853135175301"
    renamed = "2.25.270589222713521482848242912882674957013"  # agent-id, of a later draft.
    der = with_extensions(IDENTITY, (near, b"", True), (renamed, b"", True))
    assert set(refused_critical_extensions(der)) == {near, renamed}


@each_row(
    ("changes", "error"),
    [
        ({"days": 91}, CertificateError),
        ({"days": 0}, CertificateError),
        ({"agent_id": "AB" * 32}, ExtensionError),
        ({"principal_id": ""}, ExtensionError),
        ({"commitment": ["Bad"]}, ExtensionError),
        ({"trust_tier": 4}, ExtensionError),
        ({"archetype": "wizard"}, ExtensionError),
        ({"zone": "acme"}, ExtensionError),
    ],
)
def test_nothing_malformed_is_issued(changes: dict[str, Any], error: type[Exception]) -> None:
    """What would be refused is not issued, nor what lives longer than 90 days."""
    with pytest.raises(error):
        agent_certificate(**changes)


def test_the_servers_names() -> None:
    """Interface section 1: localhost, both loopback addresses, and the server id where it is a host name."""
    key = certificates.new_tls_key().public_key()

    def names(server_id: str) -> list[str]:
        certificate = certificates.issue_server_certificate(AUTHORITY, key, server_id=server_id, now=NOW)
        values = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [str(name.value) for name in values]

    loopback = ["localhost", "127.0.0.1", "::1"]
    assert names("Host.Example") == [*loopback, "host.example"]
    assert names("192.0.2.7") == [*loopback, "192.0.2.7"]
    assert names("localhost") == loopback
    assert names("my host!") == names("-x") == names("a..b") == loopback


def test_purposes_and_lives() -> None:
    """Servers are servers, clients are clients, and the authority issues no authorities."""
    server = certificates.issue_server_certificate(
        AUTHORITY, certificates.new_tls_key().public_key(), server_id="x", now=NOW
    )
    for certificate, purpose in (
        (server, ExtendedKeyUsageOID.SERVER_AUTH),
        (agent_certificate(), ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [purpose]
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        certificate.verify_directly_issued_by(AUTHORITY.certificate)
    constraints = AUTHORITY.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)
    assert isinstance(AUTHORITY.key.curve, ec.SECP256R1)


def test_an_authority_reads_its_own_files(tmp_path: Path) -> None:
    """PEM out, PEM in; other files are refused by name."""
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
    (tmp_path / "ca.key").write_bytes(AUTHORITY.key_pem)
    loaded = certificates.Authority.load(tmp_path / "ca.pem", tmp_path / "ca.key")
    assert loaded.certificate == AUTHORITY.certificate
    KEY.save(tmp_path / "other.key")
    with pytest.raises(CertificateError, match=r"other\.key"):
        certificates.load_tls_key(tmp_path / "other.key")
    with pytest.raises(CertificateError, match=r"ca\.pem"):
        certificates.load_tls_key(tmp_path / "ca.pem")
    with pytest.raises(CertificateError, match=r"ca\.key"):
        certificates.load_certificate(tmp_path / "ca.key")


# TLS


class Material:
    """A chain on disk, made now, as TLS compares with the real clock."""

    def __init__(self, directory: Path, server_id: str = "host.example") -> None:
        now = datetime.now(UTC)
        self.directory = directory
        authority = certificates.create_authority(now=now)
        key = certificates.new_tls_key()
        client = SigningKey.generate()
        server = certificates.issue_server_certificate(authority, key.public_key(), server_id=server_id, now=now)
        agent = certificates.issue_agent_certificate(
            authority,
            client.public,
            label="demo",
            organization="acme",
            agent_id=AGENT_ID,
            principal_id="acme.tld",
            commitment=SCOPES,
            now=now,
        )
        for name, octets in {
            "ca.pem": authority.certificate_pem,
            "server.pem": certificates.pem_of(server),
            "server.key": certificates.key_pem_of(key),
            "agent.pem": certificates.pem_of(agent),
            "agent.key": client.pem,
        }.items():
            (directory / name).write_bytes(octets)

    def path(self, name: str) -> str:
        return str(self.directory / name)


def handshake(material: Material, *, flags: int, server_name: str = "localhost") -> ssl.SSLObject:
    """Join a TLS 1.3 client and server in memory; the server's end."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.minimum_version = ssl.TLSVersion.TLSv1_3
    server_context.load_cert_chain(material.path("server.pem"), material.path("server.key"))
    server_context.load_verify_locations(material.path("ca.pem"))
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.verify_flags |= ssl.VerifyFlags(flags)
    client_context = ssl.create_default_context(cafile=material.path("ca.pem"))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    client_context.load_cert_chain(material.path("agent.pem"), material.path("agent.key"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=server_name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    finished = set()
    for _ in range(10):
        for end in (client, server):
            try:
                end.do_handshake()
                finished.add(end)
            except ssl.SSLWantReadError:
                continue
        if len(finished) == 2:
            return server
    raise AssertionError("the handshake did not end")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "host.example"])
def test_a_strict_tls_client_accepts_the_chain(tmp_path: Path, name: str) -> None:
    """OpenSSL with VERIFY_X509_STRICT takes the server's chain for each of its names, and mTLS succeeds."""
    server = handshake(Material(tmp_path), flags=IGNORE_CRITICAL, server_name=name)
    assert server.version() == "TLSv1.3"
    der = server.getpeercert(binary_form=True)
    assert der is not None
    assert parse_peer_certificate(der).agent_id == AGENT_ID
    assert refused_critical_extensions(der) == ()


def test_the_extensions_really_are_critical(tmp_path: Path) -> None:
    """The control: without the flag that leaves criticality to us, OpenSSL refuses the client."""
    with pytest.raises(ssl.SSLCertVerificationError, match="unhandled critical extension"):
        handshake(Material(tmp_path), flags=0)


def test_another_name_is_refused(tmp_path: Path) -> None:
    """The server's certificate is for its names alone."""
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(Material(tmp_path), flags=IGNORE_CRITICAL, server_name="other.example")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")
def test_the_openssl_command_verifies_the_chain(tmp_path: Path) -> None:
    """``openssl verify -x509_strict`` takes the server; the client too once criticality is ignored."""
    material = Material(tmp_path)
    for name, purpose, extra in (
        ("server.pem", "sslserver", []),
        ("agent.pem", "sslclient", ["-ignore_critical"]),
    ):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, *extra]
        done = subprocess.run(
            [*command, "-CAfile", material.path("ca.pem"), material.path(name)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_extension_readers_cover_every_deciding_extension() -> None:
    """Only the log receipt, which never decides anything, has no reader."""
    assert set(Extension) - set(extensions.READERS) == {Extension.CTL_SCT}
    der = with_extensions(IDENTITY, (Extension.CTL_SCT.value, b"\xff\x00", False))
    assert parse_peer_certificate(der).malformed == ""
