"""base64url without padding, the form of keys, signatures and JWS: companion section 1.7."""

from __future__ import annotations

import binascii
import re

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


def encode(octets: bytes) -> bytes:
    """Return octets in base64url: ASCII, without padding."""
    return binascii.b2a_base64(octets, newline=False).rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")


def decode(text: str) -> bytes:
    """
    Read the one base64url form that :func:`encode` writes.

    A second text for the same octets would give one record two Audit-IDs, so
    padding and non-zero trailing bits are refused.

    :raises ValueError: for every other text.
    """
    if _ALPHABET.fullmatch(text) is None or len(text) % 4 == 1:
        raise ValueError("it is not base64url without padding")
    octets = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
    if encode(octets) != text.encode("ascii"):
        raise ValueError("its last character has bits that belong to nothing")
    return octets


def decode_padded(text: str) -> bytes:
    """
    Read base64url whose padding may be there or not, as documents of others have it.

    :raises ValueError: for everything else.
    """
    bare = text.rstrip("=")
    if bare != text and len(text) % 4:
        raise ValueError("its padding is wrong")
    return decode(bare)
