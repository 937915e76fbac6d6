"""
Signed records in either envelope: JWS Compact or COSE_Sign1 (companion section 6.2).

In text, a COSE message is ``cose:`` and its base64url; a JWS is written as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.identity import cose, jws
from agtphost.identity.encoding import decode, encode
from agtphost.identity.keys import VerifyingKey

JWS = "jws"
COSE = "cose"
COSE_PREFIX = "cose:"


def to_text(form: str, signed: bytes) -> str:
    """Signed octets as they are shown and exported."""
    return COSE_PREFIX + encode(signed).decode("ascii") if form == COSE else signed.decode("ascii")


def from_text(form: str, text: str) -> bytes:
    """
    Return the signed octets that :func:`to_text` showed.

    :raises agtphost.identity.jws.JWSError: it is not that form's text.
    """
    try:
        if form == COSE and text.startswith(COSE_PREFIX):
            return decode(text.removeprefix(COSE_PREFIX))
        if form == JWS:
            return text.encode("ascii")
    except ValueError as error:
        raise jws.JWSError("malformed", f"the signed octets cannot be read: {error}") from None
    raise jws.JWSError("malformed", f"the text is not a record in the format {form!r}")


def parse_unverified(form: str, signed: bytes) -> dict[str, Any]:
    """
    Read the payload of a record without checking its signature.

    :raises agtphost.identity.jws.JWSError: ``malformed``.
    """
    return cose.parse_unverified(signed) if form == COSE else jws.parse_unverified(signed)


def verify(
    form: str, signed: bytes, keys: Mapping[str, VerifyingKey], *, allow_unsigned: bool = False
) -> dict[str, Any]:
    """
    Check a record and return what it says.

    :param form: ``jws`` or ``cose``.
    :param allow_unsigned: whether a JWS with ``alg`` ``none`` passes; COSE has nothing of the kind.
    :raises agtphost.identity.jws.JWSError: for everything but a record signed by one of ``keys``.
    """
    if form == COSE:
        return cose.verify1(signed, keys)
    if form != JWS:
        raise jws.JWSError("malformed", f"the format {form!r} is not known")
    try:
        text = signed.decode("ascii")
    except UnicodeDecodeError:
        raise jws.JWSError("malformed", "the JWS is not ASCII") from None
    return jws.verify(text, keys, allow_unsigned=allow_unsigned)


def signer(form: str, signed: bytes) -> str:
    """Return the ``kid`` in the header of a record that was verified; empty where it is unsigned."""
    return cose.signer(signed) if form == COSE else jws.signer(signed.decode("ascii"))
