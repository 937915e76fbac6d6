"""
JWS Compact for Attribution-Records and lifecycle events (companion section 5.1, RFC 7515).

Written narrow and read narrow: the algorithm is the key's own, never the
header's choice; the key is found by exact ``kid`` in the caller's table; a
header member that is not written here is refused, so ``jwk``, ``jku``,
``x5u`` and ``crit`` have nothing to work with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode as decode_part
from agtphost.identity.encoding import encode as encode_part
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain

__all__ = [
    "JWSError",
    "Parts",
    "Signer",
    "append_signature",
    "build_signing_input",
    "compact",
    "parse",
    "parse_unverified",
    "protected_header",
    "sign_compact",
    "signer",
    "verify",
    "verify_covering",
]

RECORD_TYPE = "JWT"
"""``typ`` of records and lifecycle events, as deployed implementations write it."""

MANIFEST_TYPE = "agtp-manifest"
"""``typ`` of a server manifest's signature (companion section 3.3)."""

MAX_LENGTH = 131_072
"""Characters: sixteen times the longest header line that carries a record."""


class JWSError(ValueError):
    """
    A JWS that is not to be believed.

    :param reason: ``malformed``, ``header``, ``unsigned``, ``unknown-key`` or ``signature``.
    """

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A JWS taken apart, nothing about it verified."""

    header: dict[str, Any]
    payload: dict[str, Any]
    signing_input: bytes
    """ASCII of the first two parts and the dot between them."""

    signature: bytes
    """Empty where the JWS is unsigned."""


def protected_header(signer: Signer | None, typ: str = RECORD_TYPE) -> bytes:
    """Return the encoded header of all that ``signer`` signs; None for unsigned records. Build it once."""
    if signer is None:
        return encode_part(canonical({"alg": "none", "typ": typ}))
    return encode_part(canonical({"alg": "EdDSA", "kid": signer.kid, "typ": typ}))


def compact(protected: bytes, payload: bytes, signer: Signer | None) -> str:
    """
    Sign ``payload`` as a JWS in compact form.

    :param protected: what :func:`protected_header` returned for the same signer.
    :param payload: the JSON text, signed without changes.
    :param signer: None leaves the third part empty: the text then ends in a dot.
    """
    return sign_compact(protected, payload, signer).decode("ascii")


def sign_compact(protected: bytes, payload: bytes, signer: Signer | None) -> bytes:
    """Sign ``payload`` as :func:`compact` does, and return ASCII octets."""
    signing_input = build_signing_input(protected, payload)
    return _append_signature(signing_input, b"" if signer is None else signer.sign(signing_input))


def build_signing_input(protected: bytes, payload: bytes) -> bytes:
    """Return the JWS Signing Input, which a signature covers (RFC 7515 section 5.1)."""
    return b"%b.%b" % (protected, encode_part(payload))


def append_signature(signing_input: bytes, signature: bytes) -> str:
    """Return the JWS of a signing input and its signature."""
    return _append_signature(signing_input, signature).decode("ascii")


def _append_signature(signing_input: bytes, signature: bytes) -> bytes:
    return b"%b.%b" % (signing_input, encode_part(signature))


def _decode(part: str, what: str) -> bytes:
    try:
        return decode_part(part)
    except ValueError as error:
        raise JWSError("malformed", f"the {what} is not canonical base64url: {explain(error)}") from error


def _object(octets: bytes, what: str) -> dict[str, Any]:
    try:
        value = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise JWSError("malformed", f"the {what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise JWSError("malformed", f"the {what} is not a JSON object")
    return value


def parse(jws: str) -> Parts:
    """
    Take a JWS Compact apart.

    :raises JWSError: ``malformed``.
    """
    if len(jws) > MAX_LENGTH:
        raise JWSError("malformed", f"the JWS is longer than {MAX_LENGTH} characters")
    parts = jws.split(".")
    if len(parts) != 3:
        raise JWSError("malformed", f"a JWS Compact has three parts, this has {len(parts)}")
    header, payload, signature = (
        _decode(part, what) for part, what in zip(parts, ("header", "payload", "signature"), strict=True)
    )
    return Parts(
        header=_object(header, "header"),
        payload=_object(payload, "payload"),
        signing_input=jws[: jws.rindex(".")].encode("ascii"),
        signature=signature,
    )


def parse_unverified(jws: str | bytes) -> dict[str, Any]:
    """
    Return the payload of a record whose signature was checked elsewhere, or is not what matters.

    :raises JWSError: ``malformed``.
    """
    try:
        text = jws if isinstance(jws, str) else jws.decode("ascii")
    except UnicodeDecodeError:
        raise JWSError("malformed", "the JWS is not ASCII") from None
    return parse(text).payload


def verify(
    jws: str, keys: Mapping[str, VerifyingKey], *, allow_unsigned: bool = False, typ: str = RECORD_TYPE
) -> dict[str, Any]:
    """
    Check a JWS and return its payload.

    :param keys: the keys that may have signed it, by ``kid``.
    :param allow_unsigned: whether ``alg`` ``none`` with an empty signature passes; it proves nothing.
    :raises JWSError: for everything but a record signed by one of ``keys``.
    """
    return verify_parts(parse(jws), keys, allow_unsigned=allow_unsigned, typ=typ)


def verify_covering(jws: str, payload: bytes, keys: Mapping[str, VerifyingKey], *, typ: str) -> dict[str, Any] | None:
    """
    Check a JWS whose payload is at hand; because the payload is compared and never decoded, its size does not matter.

    :param payload: the octets that it should cover.
    :return: None where it covers other octets, which says nothing about its signature.
    :raises JWSError: as :func:`verify` does.
    """
    protected, _, rest = jws.partition(".")
    encoded, _, signature = rest.partition(".")
    if len(protected) > MAX_LENGTH or encoded.encode("utf-8", "surrogatepass") != encode_part(payload):
        return None
    parts = Parts(
        header=_object(_decode(protected, "header"), "header"),
        payload={},
        signing_input=f"{protected}.{encoded}".encode("ascii"),
        signature=_decode(signature, "signature"),
    )
    verify_parts(parts, keys, allow_unsigned=False, typ=typ)
    return parts.header


def verify_parts(
    parts: Parts, keys: Mapping[str, VerifyingKey], *, allow_unsigned: bool = False, typ: str = RECORD_TYPE
) -> dict[str, Any]:
    """Check a JWS that was taken apart, as :func:`verify` does."""
    header = parts.header
    if header.get("typ") != typ:
        raise JWSError("header", f"the typ is not {typ!r}")
    if header.get("alg") == "none":
        return _read_unsigned(parts, allow_unsigned)
    if header.get("alg") != "EdDSA":
        raise JWSError("header", "the alg is not EdDSA")
    if header.keys() != {"alg", "kid", "typ"}:
        raise JWSError("header", "the header has other members than alg, kid and typ")
    kid = header["kid"]
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise JWSError("unknown-key", "the kid names no key known here")
    if not key.verify(parts.signature, parts.signing_input):
        raise JWSError("signature", "the signature does not match")
    return parts.payload


def _read_unsigned(parts: Parts, allowed: bool) -> dict[str, Any]:
    if not allowed:
        raise JWSError("unsigned", "the record is not signed")
    if parts.header.keys() != {"alg", "typ"}:
        raise JWSError("header", "the header has other members than alg and typ")
    if parts.signature:
        raise JWSError("signature", "an unsigned record has a signature")
    return parts.payload


def signer(jws: str) -> str:
    """Return the ``kid`` of a JWS that was verified; empty where it is unsigned."""
    return _kid_of(jws.partition(".")[0])


@lru_cache(maxsize=64)
def _kid_of(protected: str) -> str:
    """Return the ``kid`` of a protected header; cached, because a key always signs under the same header."""
    return str(_object(_decode(protected, "header"), "header").get("kid", ""))
