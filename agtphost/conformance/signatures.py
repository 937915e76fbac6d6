"""
Canonical forms, digests and signatures, computed only with ``json`` and ``cryptography``.

A target may be this project's own host. The code that signs and hashes there does not verify here, because an error
in it would then go unnoticed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from agtphost.conformance.verdict import Failure, Inapplicable


def decode_base64url(part: object) -> bytes:
    """
    Decode base64url, padded or not.

    :raises Failure: the value is anything else.
    """
    try:
        if not isinstance(part, str):
            raise ValueError("no text")
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Failure(f"{str(part)[:20]!r} is not base64url") from None


def public_key(text: object) -> Ed25519PublicKey:
    """
    Load a key as documents have it: base64url, or PEM as in deployed implementations.

    :raises Failure: the value is anything else.
    """
    try:
        if isinstance(text, str) and text.startswith("-----BEGIN"):
            found = load_pem_public_key(text.encode())
            if isinstance(found, Ed25519PublicKey):
                return found
            raise ValueError("another kind of key")
        return Ed25519PublicKey.from_public_bytes(decode_base64url(text))
    except (ValueError, UnsupportedAlgorithm):
        raise Failure(f"{str(text)[:20]!r} is not an Ed25519 public key") from None


def signed_by(key: Ed25519PublicKey, signature: bytes, octets: bytes) -> bool:
    """Return whether a key made a signature over these bytes."""
    try:
        key.verify(signature, octets)
    except InvalidSignature:
        return False
    return True


def canonical(value: object) -> bytes:
    """
    Return the canonical form of RFC 8785.

    :raises Inapplicable: a number is so large or small that ``json`` writes it differently.
    """
    return json.dumps(_sort_members(value), separators=(",", ":"), ensure_ascii=False).encode()


def signed_forms(members: Mapping[str, Any], *omitted: str) -> Iterator[bytes]:
    """Yield the bytes that a signature may cover: the canonical form, and ASCII as in deployed implementations."""
    covered = {name: value for name, value in members.items() if name not in omitted}
    yield canonical(covered)
    yield json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()


def _sort_members(value: Any) -> Any:
    if isinstance(value, dict):
        # Names in ASCII, as most are, have the same order by characters.
        names = sorted(value) if "".join(value).isascii() else sorted(value, key=lambda name: name.encode("utf-16-be"))
        return {name: _sort_members(value[name]) for name in names}
    if isinstance(value, list):
        return [_sort_members(item) for item in value]
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e21:
            return int(value)
        if not 1e-6 <= abs(value) < 1e16:
            raise Inapplicable("a document without very large or very small numbers")
    return value
