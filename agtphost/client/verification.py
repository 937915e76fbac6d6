"""
Whether an Attribution-Record is genuine and is the record of the exchange it came with: companion section 5.

Every check is made and reported, also after one failed: a reader wants to
know what else does not fit.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.client.errors import VerificationFailed
from agtphost.client.terminal import escape
from agtphost.identity import jws
from agtphost.identity.canonical import CanonicalError
from agtphost.identity.key_history import moment_of
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.identity.manifest_signature import verify_manifest
from agtphost.wire.headers import Headers

_SHOWN = 80
"""Characters of a foreign value in a detail."""

_GIVE_KEY = "Give the server's signing.pub as a file."


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one check."""

    name: str
    """``record``, ``audit-id``, ``signature``, ``result-hash`` ...: stable."""

    ok: bool
    detail: str
    """One sentence, safe to print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The outcome of all checks of one reply, or of what else was verified."""

    checks: tuple[Check, ...]
    """In the order made; never empty."""

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.ok)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """An exchange, as this side saw it."""

    status: int | None
    """None where it is unknown; then it is not compared, like other members that can be None."""

    headers: Headers
    body: bytes | None
    request_line: bytes | None
    request_body: bytes
    agent_id: str | None


def verify(evidence: Evidence, keys: Mapping[str, VerifyingKey], *, require_signature: bool) -> Verification:
    """
    Put an exchange to every check.

    :param keys: who may have signed the record, by ``kid``; of a :class:`KeyRing` the ends of their use count.
    :param require_signature: False lets an unsigned record pass; it proves nothing.
    """
    record = evidence.headers.get("attribution-record")
    if record is None:
        missing = Check(name="record", ok=False, detail="The response carries no Attribution-Record.")
        return Verification(checks=(missing,))
    checks = [_audit_id(record, evidence.headers.get("audit-id"))]
    signature, payload = _signature(record, keys, require_signature)
    checks.append(signature)
    if payload is not None:
        checks.extend(_matches(payload, evidence))
    return Verification(checks=tuple(checks))


def _audit_id(record: str, header: str | None) -> Check:
    digest = hashlib.sha256(record.encode("ascii", "replace")).hexdigest()
    if header is None:
        return Check(name="audit-id", ok=False, detail="The response has no Audit-ID.")
    return _equal("audit-id", "Audit-ID", header, digest, "the record's SHA-256")


def _signature(record: str, keys: Mapping[str, VerifyingKey], required: bool) -> tuple[Check, dict[str, Any] | None]:
    """Check the signature; return the check, and the payload as long as it can be read, also after a failure."""
    parts: jws.Parts | None = None
    try:
        parts = jws.parse(record)
        payload = jws.verify_parts(parts, keys, allow_unsigned=not required)
    except jws.JWSError as error:
        why = f"The record does not verify: {escape(str(error))}."
        return Check(name="signature", ok=False, detail=why), None if parts is None else parts.payload
    header = parts.header
    if header["alg"] == "none":
        return Check(name="signature", ok=True, detail="The record is unsigned and proves nothing."), payload
    kid = escape(str(header["kid"])[:_SHOWN])
    if isinstance(keys, KeyRing) and keys.has_ended(str(header["kid"]), payload.get("issued_at")):
        why = f"Signed by {kid}, whose use ended at {escape(keys.until[str(header['kid'])])}: before this record."
        return Check(name="signature", ok=False, detail=why), payload
    return Check(name="signature", ok=True, detail=f"Signed by {kid}."), payload


def _matches(payload: Mapping[str, Any], evidence: Evidence) -> list[Check]:
    headers = evidence.headers
    expected: list[tuple[str, object, str]] = []
    if evidence.body is not None:
        expected.append(("result_hash", hashlib.sha256(evidence.body).hexdigest(), "the body's SHA-256"))
    if evidence.request_line is not None:
        request = hashlib.sha256(evidence.request_line + evidence.request_body).hexdigest()
        expected.append(("request_hash", request, "the request's SHA-256"))
    if evidence.status is not None:
        expected += (
            ("status", evidence.status, "the response's status"),
            ("server_id", headers.get("server-id"), "Server-ID"),
            ("response_id", headers.get("response-id"), "Response-ID"),
        )
    checks = [
        _equal(name.replace("_", "-"), name, payload.get(name), wanted, source) for name, wanted, source in expected
    ]
    answered = payload.get("agent_id")
    if evidence.agent_id is not None and answered != "":
        checks.append(_equal("agent-id", "agent_id", answered, evidence.agent_id, "the Agent-ID of the URI"))
    return checks


def _equal(name: str, what: str, found: object, wanted: object, source: str) -> Check:
    if _same(found, wanted):
        return Check(name=name, ok=True, detail=f"{what} is {source}.")
    shown = escape(repr(found)[:_SHOWN])
    return Check(name=name, ok=False, detail=f"{what} is {shown}, and not {source}.")


def _same(found: object, wanted: object) -> bool:
    """Equal values of one type: in JSON, ``true`` is not 1."""
    if isinstance(found, str) and isinstance(wanted, str):
        return hmac.compare_digest(found.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))
    return type(found) is type(wanted) and found is not None and found == wanted


# The server's manifest


def signing_keys_of(manifest: Mapping[str, Any]) -> KeyRing:
    """
    Return the record-signing keys that a manifest publishes: ``server.signing_keys``.

    What makes them trustworthy is the connection they came over; nothing in the manifest does.

    :return: by ``kid``, with the end of each earlier key's use (``not_after``); keys of other algorithms are left out.
    :raises VerificationFailed: if there is none, or one is malformed.
    """
    server = manifest.get("server")
    listed = server.get("signing_keys") if isinstance(server, dict) else None
    if not isinstance(listed, list) or not listed:
        raise VerificationFailed("The server's manifest publishes no signing keys.", _GIVE_KEY)
    keys = KeyRing()
    for entry in listed:
        if isinstance(entry, dict) and entry.get("alg") != "EdDSA":
            continue
        kid, key = _key_of(entry)
        if kid in keys and keys[kid] != key:
            raise VerificationFailed(f"The manifest has two signing keys named {escape(kid[:_SHOWN])}.", _GIVE_KEY)
        keys[kid] = key
        if "not_after" in entry:
            if moment_of(entry["not_after"]) is None:
                raise VerificationFailed(
                    f"not_after of the manifest's signing key {escape(kid[:_SHOWN])} is not a time.", _GIVE_KEY
                )
            keys.until[kid] = entry["not_after"]
    if not keys:
        raise VerificationFailed("The server's manifest publishes no Ed25519 signing key.", _GIVE_KEY)
    return keys


def _key_of(entry: object) -> tuple[str, VerifyingKey]:
    if isinstance(entry, dict):
        kid, text = entry.get("kid"), entry.get("key")
        if isinstance(kid, str) and isinstance(text, str):
            try:
                return kid, VerifyingKey.from_text(text)
            except KeyFormatError as error:
                raise VerificationFailed(
                    f"The manifest's signing key {escape(kid[:_SHOWN])} is malformed: {error}.", _GIVE_KEY
                ) from None
    raise VerificationFailed("The server's manifest has a malformed entry among its signing keys.", _GIVE_KEY)


def check_manifest(manifest: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> Check:
    """
    Check a manifest's own signature: AGTP-API section 8.8.

    A failure is a reason to warn and none to reject the manifest (API-081, API-082).
    """
    try:
        verify_manifest(manifest, keys)
    except (jws.JWSError, CanonicalError) as error:
        why = f"The manifest's signature fails: {escape(str(error))}."
        return Check(name="manifest", ok=False, detail=why)
    return Check(name="manifest", ok=True, detail="The manifest's signature is good.")
