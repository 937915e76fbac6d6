"""Certificates as people make them for their browsers: ECDSA, issued by nobody but themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agtphost.identity.certificates import Authority


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """One, with its key."""

    key: Any
    made: x509.Certificate
    file: Path
    """PEM, the key and the certificate."""

    @property
    def digest(self) -> str:
        """What ``[admin] browsers`` lists."""
        return sha256(self.made.public_bytes(Encoding.DER)).hexdigest()


def certificate(
    folder: Path,
    name: str,
    *,
    key: Any = None,
    seconds: float = 86_400.0,
    serial: int | None = None,
    authority: Authority | None = None,
) -> Certificate:
    """
    A certificate for one browser, self-signed unless an authority issues it.

    :param key: P-256 where None.
    :param seconds: from now on, for which it is valid.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number() if serial is None else serial)
        .not_valid_before(ends - timedelta(days=30))
        .not_valid_after(ends)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key if authority is None else authority.key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(plain + made.public_bytes(Encoding.PEM))
    return Certificate(key=key, made=made, file=file)


def rsa_key() -> rsa.RSAPrivateKey:
    """Of a kind that is not taken."""
    return rsa.generate_private_key(65_537, 2_048)
