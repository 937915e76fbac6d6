"""Parse Attribution-Records without the code that makes them (core v08 section 10)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.conformance.expectations import require_header
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.signatures import decode_base64url, signed_by
from agtphost.conformance.verdict import Failure, Inapplicable, expect

ZEROS = "0" * 64


@dataclass(frozen=True, kw_only=True)
class AttributionRecord:
    """The parts of an Attribution-Record, which is a JWS in compact form."""

    text: str
    header: Mapping[str, Any]
    payload: Mapping[str, Any]
    signature: bytes

    @property
    def audit_id(self) -> str:
        """The SHA-256 of the whole text, in hexadecimal."""
        return sha256(self.text.encode("ascii")).hexdigest()

    @property
    def is_signed(self) -> bool:
        return self.header.get("alg") != "none"

    def is_signed_by(self, keys: Mapping[str, Ed25519PublicKey]) -> bool:
        """Return whether one of the keys signed the record."""
        octets = self.text[: self.text.rindex(".")].encode("ascii")
        kid = self.header.get("kid")
        tried = [keys[kid]] if isinstance(kid, str) and kid in keys else list(keys.values())
        return any(signed_by(key, self.signature, octets) for key in tried)


def record_of(answer: RawAnswer) -> AttributionRecord:
    """
    Return the record that an answer carries.

    :raises Failure: the answer has no record, or one that is not a JWS.
    """
    text = answer.header("Attribution-Record")
    if text is None:
        raise Failure(f"{answer} carries no Attribution-Record", "no Attribution-Record")
    return read(text)


def audit_id_of(answer: RawAnswer) -> str:
    """
    Return the Audit-ID of an answer whose record can be read back.

    :raises Inapplicable: the answer was summed up with others, so it is signed but its record is in no chain.
    :raises Failure: the answer has no Audit-ID.
    """
    if answer.header("Audit-Summary") is not None:
        raise Inapplicable("an answer with a separate record; this one was summed up with others")
    return require_header(answer, "Audit-ID")


def read(text: str) -> AttributionRecord:
    """
    Parse an Attribution-Record.

    :raises Failure: ``text`` is not a JWS in compact form.
    """
    parts = text.split(".")
    expect(len(parts) == 3 and parts[0] and parts[1], "the Attribution-Record does not have three parts")
    try:
        header, payload = (json.loads(decode_base64url(part)) for part in parts[:2])
    except ValueError:
        raise Failure("the Attribution-Record does not hold JSON") from None
    expect(isinstance(header, dict) and isinstance(payload, dict), "the Attribution-Record does not hold objects")
    return AttributionRecord(text=text, header=header, payload=payload, signature=decode_base64url(parts[2]))


def request_hash(octets: bytes) -> str:
    """Return the SHA-256 of the request line with its CRLF and of the body, without the fields."""
    head, _, body = octets.partition(b"\r\n\r\n")
    return sha256(head.partition(b"\r\n")[0] + b"\r\n" + body).hexdigest()
