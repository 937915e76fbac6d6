"""Warnings of ``agtp check`` about a listener for QUIC."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.config.quic_warnings import LONGEST_CHAIN, quic_warnings
from agtphost.identity import certificates, files
from tests.host.test_expiry_watch import load_without_checks

TOML = """
[host]
server_id = "host.test"
profile = "development"
[listen]
address = "{address}"
[tls]
certificate = "server.pem"
key = "server.key"
client_ca = "server.pem"
[quic]
enabled = {enabled}
"""


@pytest.mark.parametrize(
    ("enabled", "address", "length", "told"),
    [
        ("true", "127.0.0.1", 2, []),
        ("true", "0.0.0.0", 2, ["[quic]: at 0.0.0.0"]),
        ("true", "::", 12, ["[quic]: at ::", "[tls] certificate: a chain of"]),
        ("false", "0.0.0.0", 12, []),
    ],
)
def test_what_slows_quic_is_named(tmp_path: Path, enabled: str, address: str, length: int, told: list[str]) -> None:
    """A wildcard address and a chain that is too long for the first answer, where QUIC is enabled."""
    authority = certificates.create_authority(now=datetime.now(UTC))
    files.write_once(tmp_path / "server.pem", authority.certificate_pem * length, files.PUBLIC)
    files.write_once(tmp_path / "server.key", certificates.key_pem_of(certificates.new_tls_key()), files.PRIVATE)
    (tmp_path / "host.toml").write_text(TOML.format(address=address, enabled=enabled))
    found = list(quic_warnings(load_without_checks(tmp_path)))
    assert [line[: len(want)] for line, want in zip(found, told, strict=True)] == told


@pytest.mark.parametrize("more", [0, 1])
def test_chain_of_each_name_is_measured(tmp_path: Path, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain is too long from the first octet that does not fit, be it of the host's own name or of another."""
    authority = certificates.create_authority(now=datetime.now(UTC))
    octets = len(x509.load_pem_x509_certificate(authority.certificate_pem).public_bytes(Encoding.DER))
    assert LONGEST_CHAIN == 3_000
    monkeypatch.setattr("agtphost.config.quic_warnings.LONGEST_CHAIN", 2 * octets - more)
    for name, length in (("server", 1), ("other", 2)):
        files.write_once(tmp_path / f"{name}.pem", authority.certificate_pem * length, files.PUBLIC)
        key = certificates.key_pem_of(certificates.new_tls_key())
        files.write_once(tmp_path / f"{name}.key", key, files.PRIVATE)
    other = '[[tls.server]]\nname = "other.test"\ncertificate = "other.pem"\nkey = "other.key"\n'
    (tmp_path / "host.toml").write_text(TOML.format(address="127.0.0.1", enabled="true") + other)
    found = list(quic_warnings(load_without_checks(tmp_path)))
    assert [line.partition(" certificate:")[0] for line in found] == ["[[tls.server]] other.test"] * more
