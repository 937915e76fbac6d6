"""
COSE_Sign1 for lifecycle events (companion section 6.2, RFC 9052).

As narrow as :mod:`agtphost.identity.jws`: Ed25519 only, the key found by exact
``kid``, one protected header, an empty unprotected one, and the one encoding
that RFC 8949 section 4.2 allows, so that an event has one Audit-ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from agtphost import extras
from agtphost.identity.jws import MAX_LENGTH, JWSError
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary import jsontext

TAG = 18
"""COSE_Sign1."""

CONTENT_TYPE = "application/agtp-lifecycle+json"

_ALG, _KID, _TYPE = 1, 4, 16
_EDDSA = -8


class COSEError(JWSError):
    """A COSE message that is not to be believed; ``reason`` as for a JWS."""


def _cbor() -> Any:
    try:
        import cbor2
    except ImportError:
        raise COSEError("unsupported", extras.missing("cbor2")) from None
    return cbor2


def sign1(payload: bytes, signer: Signer) -> bytes:
    """
    Sign ``payload`` as COSE_Sign1.

    :param payload: JSON text, signed without changes.
    """
    protected = _encode({_ALG: _EDDSA, _KID: signer.kid.encode(), _TYPE: CONTENT_TYPE})
    signature = signer.sign(_signature_structure(protected, payload))
    return _encode(_cbor().CBORTag(TAG, [protected, {}, payload, signature]))


def verify1(message: bytes, keys: Mapping[str, VerifyingKey]) -> dict[str, Any]:
    """
    Check a COSE_Sign1 message and return its payload.

    :param keys: the keys that may have signed it, by ``kid``.
    :raises COSEError: for everything but an event signed by one of ``keys``.
    """
    protected, header, payload, signature = _parts(message)
    if header.get(_ALG) != _EDDSA or header.get(_TYPE) != CONTENT_TYPE or header.keys() != {_ALG, _KID, _TYPE}:
        raise COSEError("header", "the protected header is not that of a lifecycle event")
    key = keys.get(_key_id(header[_KID]))
    if key is None:
        raise COSEError("unknown-key", "the kid names no key known here")
    if not key.verify(signature, _signature_structure(protected, payload)):
        raise COSEError("signature", "the signature does not match")
    return _object(payload)


def signer(message: bytes) -> str:
    """Return the ``kid`` of a message that was verified."""
    return _key_id(_parts(message)[1].get(_KID))


def parse_unverified(message: bytes) -> dict[str, Any]:
    """
    Return the payload of an event whose signature was checked elsewhere, or is not what matters.

    :raises COSEError: ``malformed``.
    """
    return _object(_parts(message)[2])


def _encode(value: Any) -> bytes:
    encoded: bytes = _cbor().dumps(value, canonical=True)
    return encoded


def _signature_structure(protected: bytes, payload: bytes) -> bytes:
    """Return the Sig_structure of RFC 9052 section 4.4."""
    return _encode(["Signature1", protected, b"", payload])


def _key_id(kid: object) -> str:
    """Return the key's name: octets by RFC 9052, text in what deployed implementations write."""
    if isinstance(kid, str):
        return kid
    try:
        return kid.decode("ascii") if isinstance(kid, bytes) else ""
    except UnicodeDecodeError:
        return ""


def _parts(message: bytes) -> tuple[bytes, dict[Any, Any], bytes, bytes]:
    """Return the protected header encoded and decoded, the payload, the signature."""
    if len(message) > MAX_LENGTH:
        raise COSEError("malformed", f"the message is longer than {MAX_LENGTH} octets")
    tagged = _decode_deterministic(message, "message")
    if not isinstance(tagged, _cbor().CBORTag) or tagged.tag != TAG:
        raise COSEError("malformed", "the message is not a COSE_Sign1")
    parts = tagged.value
    if not isinstance(parts, (list, tuple)) or len(parts) != 4:
        raise COSEError("malformed", "a COSE_Sign1 has four parts")
    protected, unprotected, payload, signature = parts
    if unprotected != {} or not all(isinstance(part, bytes) for part in (protected, payload, signature)):
        raise COSEError("malformed", "a part of the COSE_Sign1 has the wrong type, or the unprotected header a member")
    header = _decode_deterministic(protected, "protected header")
    if not isinstance(header, dict):
        raise COSEError("malformed", "the protected header is not a map")
    return protected, header, payload, signature


def _decode_deterministic(octets: bytes, what: str) -> Any:
    """Decode CBOR and require the deterministic encoding: a second encoding of one event would have another hash."""
    stream, cbor = BytesIO(octets), _cbor()
    try:
        value = cbor.load(stream)
        again = _encode(value)
    except Exception as error:
        # The library raises many kinds of errors for octets that are not CBOR, recursion among them.
        raise COSEError("malformed", f"the {what} is not CBOR, or is cut off") from error
    if again != octets:
        raise COSEError("malformed", f"the {what} is not in the deterministic encoding")
    return value


def _object(payload: bytes) -> dict[str, Any]:
    try:
        value = jsontext.decode(payload, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise COSEError("malformed", f"the payload is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise COSEError("malformed", "the payload is not a JSON object")
    return value
