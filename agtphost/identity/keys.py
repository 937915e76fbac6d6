"""
Ed25519 keys: one for records, one for each issuer and agent (companion section 1).

A key is identified by its fingerprint, the SHA-256 of the 32 raw octets of its
public half; its ``kid`` is ``ed25519-`` and the first 16 hex digits of that.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from agtphost.identity import encoding, files
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.remembered_files import read_named

_SMALL_ORDER = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
"""Points of small order, sign bit cleared: under such a key anybody can make signatures."""


class KeyFormatError(ValueError):
    """A key that cannot be read; the message names its file, if any, and never shows key material."""


class Signer(Protocol):
    """A key that signs records, with its name."""

    @property
    def kid(self) -> str:
        """The key identifier that goes into the protected header."""

    def sign(self, octets: bytes) -> bytes:
        """Return the 64 octets of a detached Ed25519 signature over ``octets``."""


@dataclass(frozen=True)
class VerifyingKey:
    """
    The public half of an Ed25519 key; equal and hashed by its octets.

    :raises KeyFormatError: when built from octets that are not a usable key.
    """

    raw: bytes
    """The 32 octets of RFC 8032."""

    _key: Ed25519PublicKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise KeyFormatError("an Ed25519 public key has 32 octets")
        if self.raw[:31] + bytes([self.raw[31] & 0x7F]) in _SMALL_ORDER:
            raise KeyFormatError("the Ed25519 public key is a point of small order")
        object.__setattr__(self, "_key", Ed25519PublicKey.from_public_bytes(self.raw))

    @classmethod
    def from_public_key(cls, key: object) -> VerifyingKey:
        """
        Wrap a public key of the cryptography library.

        :raises KeyFormatError: if it is not Ed25519.
        """
        if not isinstance(key, Ed25519PublicKey):
            raise KeyFormatError("the key is not an Ed25519 key")
        return cls(key.public_bytes_raw())

    @classmethod
    def from_text(cls, text: str) -> VerifyingKey:
        """
        Read a key as base64url (padded or not), or as PEM, which deployed implementations write.

        :raises KeyFormatError: for anything else.
        """
        if "-----BEGIN" in text:
            return cls._from_pem(text)
        try:
            raw = encoding.decode_padded(text.strip(" \t\r\n"))
        except ValueError:
            raise KeyFormatError("the key is neither 32 octets in base64url nor PEM") from None
        return cls(raw)

    @classmethod
    def _from_pem(cls, text: str) -> VerifyingKey:
        if "PRIVATE KEY" in text:
            raise KeyFormatError("this is a private key where a public one belongs")
        try:
            octets = text.encode("ascii")
            if "-----BEGIN CERTIFICATE" in text:
                return cls.from_public_key(x509.load_pem_x509_certificate(octets).public_key())
            return cls.from_public_key(serialization.load_pem_public_key(octets))
        except KeyFormatError:
            raise
        except (ValueError, UnsupportedAlgorithm):
            raise KeyFormatError("the PEM text holds no Ed25519 public key") from None

    @classmethod
    def load(cls, path: Path) -> VerifyingKey:
        """
        Read a public key file: PEM (a key or a certificate) or base64url.

        :raises KeyFormatError: naming the file.
        :raises OSError: if it cannot be opened.
        """
        try:
            return cls.from_text(read_named(path).decode("ascii"))
        except ValueError as error:
            raise KeyFormatError(f"{path}: {explain(error)}") from error

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of :attr:`raw`, hex: what an issuer is recognised by (core v08 section 6.5.2)."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def kid(self) -> str:
        """The default JWS key identifier."""
        return f"ed25519-{self.fingerprint[:16]}"

    @property
    def text(self) -> str:
        """base64url without padding: the form that documents carry."""
        return encoding.encode(self.raw).decode("ascii")

    @property
    def pem(self) -> bytes:
        """SubjectPublicKeyInfo as PEM, for files; documents never carry it."""
        return self._key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The key as the cryptography library has it, for certificates."""
        return self._key

    def verify(self, signature: bytes, octets: bytes) -> bool:
        """Return whether ``signature`` is this key's over ``octets``."""
        try:
            self._key.verify(signature, octets)
        except InvalidSignature:
            return False
        return True

    def save(self, path: Path) -> None:
        """
        Write a new PEM file.

        :raises FileExistsError: if there is one already.
        """
        files.write_once(path, self.pem, files.PUBLIC)


class SigningKey:
    """An Ed25519 key pair, itself a :class:`Signer`. Never shows its private half."""

    __slots__ = ("_key", "kid", "public", "sign")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = VerifyingKey(key.public_key().public_bytes_raw())
        self.kid = self.public.kid
        self.sign = key.sign

    def __repr__(self) -> str:
        return f"<SigningKey {self.kid}>"

    @classmethod
    def generate(cls) -> SigningKey:
        """Create a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """
        Read a private key file: PEM, PKCS#8, without a passphrase.

        :raises KeyFormatError: naming the file.
        :raises OSError: if it cannot be opened.
        """
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise KeyFormatError(f"{path}: it holds no unencrypted PKCS#8 private key in PEM") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFormatError(f"{path}: the key is not an Ed25519 key")
        return cls(key)

    def snapshot(self) -> SigningKey:
        """Return the key pair of this moment: a host's key changes, in any thread, when another one follows it."""
        return SigningKey(self._key)

    @property
    def pem(self) -> bytes:
        """PKCS#8 as PEM, without a passphrase."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def seed(self) -> bytes:
        """The 32 secret octets of RFC 8032, for another implementation of the same algorithm."""
        return self._key.private_bytes_raw()

    def derive(self, label: str) -> bytes:
        """
        Return 32 secret octets for another purpose than signing, the same in every process that has this key.

        :param label: names the purpose; octets of different labels say nothing about each other (HKDF).
        """
        info = f"agtphost {label}".encode()
        return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(self.seed)

    def save(self, path: Path) -> None:
        """
        Write a new PEM file that only the owner can read.

        :raises FileExistsError: if there is one already.
        """
        files.write_once(path, self.pem, files.PRIVATE)


class _SodiumSigner:
    """The same key in libsodium: two thirds of the time per signature."""

    __slots__ = ("_secret", "_sign", "kid")

    def __init__(self, key: SigningKey, bindings: Any) -> None:
        self.kid = key.kid
        self._sign = bindings.crypto_sign
        self._secret = bindings.crypto_sign_seed_keypair(key.seed)[1]

    def sign(self, octets: bytes) -> bytes:
        signed: bytes = self._sign(octets, self._secret)
        return signed[:64]


def fastest_signer(key: SigningKey) -> Signer:
    """Return the quickest :class:`Signer` of a key as it is now: libsodium through PyNaCl if installed."""
    try:
        bindings = importlib.import_module("nacl.bindings")
    except ImportError:
        return key.snapshot()
    return _SodiumSigner(key, bindings)


def is_exposed(path: Path) -> bool:
    """Return whether other users than the owner may read or change the key file ``path``."""
    return path.stat().st_mode & 0o077 != 0
