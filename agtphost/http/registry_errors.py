"""
Encode errors for the registry's clients: HAIDIP-035, ``{"error": {"code", "message"}}``.

One table maps AGTP to HTTP. The original status is in ``AGTP-Status``, the original reason in ``error.reason``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agtphost.http.refusals import TurnedAway
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Response

INVALID = "InvalidInput"
UNAUTHORIZED = "Unauthorized"
FORBIDDEN = "Forbidden"
NOT_FOUND = "NotFound"
APPROVAL = "ApprovalRequired"
CONFLICT = "Conflict"
CHANGED = "PreconditionFailed"
LIMITED = "RateLimited"
AGENT_ERROR = "AgentError"
AGENT_TIMEOUT = "AgentTimeout"
UNAVAILABLE = "Unavailable"

CODES = (
    *(INVALID, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, APPROVAL, CONFLICT, CHANGED, LIMITED),
    *(AGENT_ERROR, AGENT_TIMEOUT, UNAVAILABLE),
)

BY_STATUS: Mapping[int, tuple[int, str]] = MappingProxyType(
    {
        202: (202, APPROVAL),
        **dict.fromkeys((400, 422, 459, 460), (400, INVALID)),
        401: (401, UNAUTHORIZED),
        **dict.fromkeys((262, 403, 455, 456, 457, 458), (403, FORBIDDEN)),
        **dict.fromkeys((404, 405, 410, 461, 463, 464), (404, NOT_FOUND)),
        408: (504, AGENT_TIMEOUT),
        409: (409, CONFLICT),
        429: (429, LIMITED),
        501: (502, AGENT_ERROR),
        503: (503, UNAVAILABLE),
        **dict.fromkeys((550, 551), (502, AGENT_ERROR)),
    }
)
"""HTTP status and code of each AGTP status that is not a success; all others are 500."""

UPSTREAM_REASONS = frozenset(
    {
        Reason.INVALID_OUTPUT,
        Reason.TOOL_FAILED,
        Reason.UPSTREAM_ANSWER_REFUSED,
        Reason.UPSTREAM_ANSWER_TOO_LONG,
        Reason.UPSTREAM_FAILED,
    }
)
"""Failures of upstreams, for which this host is a gateway: 502 where all others are 500."""

_INPUT_REASONS = frozenset(
    {
        Reason.INVALID_INPUT,
        Reason.INVALID_PARAMETER,
        Reason.MISSING_PARAMETER,
        Reason.UNKNOWN_PARAMETER,
        Reason.MALFORMED_BODY,
        Reason.VALUE_TOO_COSTLY,
    }
)

_MISSING = re.compile(r"has (?:no property|undeclared members:) '(.*?)'(?:,.*| and .*)?", re.DOTALL)
"""Matches messages about an input that lacks a member or has an undeclared one."""

RETRY_SECONDS = 5
"""Seconds, if no better time for a retry is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFault:
    """A failure in the form of the registry."""

    status: int
    code: str
    message: str
    field: str = ""
    """The wrong member, as a path of names; empty for none in particular."""

    reason: str = ""
    """The reason token of AGTP."""

    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further members: ``remedy``, ``retry_after``, the approval it waits for."""

    @property
    def document(self) -> dict[str, Any]:
        """Return the error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.field:
            error["field"] = self.field
        if self.reason:
            error["reason"] = self.reason
        return {"error": {**error, **self.more}}

    @property
    def octets(self) -> bytes:
        """Return the error object as a body."""
        return jsontext.encode(self.document)

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return the header fields that belong to it."""
        if self.status == 401:
            return (("WWW-Authenticate", 'Bearer realm="registry"'),)
        if "retry_after" in self.more:
            return (("Retry-After", str(self.more["retry_after"])),)
        return ()


CODES_OF_REFUSALS: Mapping[int, str] = MappingProxyType(
    {401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 421: FORBIDDEN, 429: LIMITED, 503: UNAVAILABLE}
)
"""Codes by HTTP status of requests refused before any call; all others are :data:`INVALID`."""


def refusal_form(turned: TurnedAway) -> tuple[bytes, str]:
    """Encode a refusal before any call for the registry's clients."""
    more = {"remedy": turned.remedy} if turned.remedy else {}
    if turned.audit_id:
        more["audit_id"] = turned.audit_id
    told = RegistryFault(
        status=turned.status,
        code=CODES_OF_REFUSALS.get(turned.status, INVALID),
        message=turned.explanation,
        field=str(turned.details.get("parameter", "")),
        reason=str(turned.reason),
        more=more,
    )
    return told.octets, media_types.JSON


def is_success(response: Response) -> bool:
    """Return whether a call was made and succeeded."""
    if not 200 <= response.status < 300 or response.status == 262:
        return False
    return response.status != 202 or _document(response).get("reason") != Reason.APPROVAL_REQUIRED


def fault_of(response: Response) -> RegistryFault:
    """Return the failure in a response."""
    headers = response.headers
    return build_fault(
        response.status, _document(response), headers.get("retry-after") or "", headers.get("audit-id") or ""
    )


def build_fault(agtp: int, body: Mapping[str, Any], again: str = "", audit_id: str = "") -> RegistryFault:
    """
    Return the failure in a refusal.

    :param agtp: its status.
    :param body: its members.
    :param again: seconds until a retry makes sense, as text; empty if unknown.
    """
    reason = str(body.get("reason", ""))
    status, code = BY_STATUS.get(agtp, (500, AGENT_ERROR))
    if agtp == 500 and reason in UPSTREAM_REASONS:
        status = 502
    elif agtp == 409 and reason == "card-changed":
        status, code = 412, CHANGED
    elif agtp == 422 and reason not in _INPUT_REASONS and not _is_own_reason(reason):
        # The endpoint declares this error, so its input was understood.
        code, status = AGENT_ERROR, 422
    return RegistryFault(
        status=status,
        code=code,
        message=str(body.get("explanation", "")) or "The request failed.",
        field=_wrong_member(body) if code == INVALID else "",
        reason=reason,
        more=_more_members(status, body, again, audit_id),
    )


def _is_own_reason(reason: str) -> bool:
    """Return whether a reason is one of the host's own."""
    try:
        Reason(reason)  # type: ignore[call-arg]
    except ValueError:
        return False
    return True


def _more_members(status: int, body: Mapping[str, Any], again: str, audit_id: str) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if isinstance(body.get("remedy"), str):
        more["remedy"] = body["remedy"]
    if isinstance(body.get("faults"), list) and status == 400:
        more["faults"] = body["faults"]
    if (status == 422 or body.get("reason") == Reason.TOOL_FAILED) and isinstance(body.get("details"), dict):
        more["details"] = body["details"]
    if status == 202:
        more.update({name: body[name] for name in ("approval_id", "expires_at", "digest") if name in body})
    if status in (202, 429, 503):
        more["retry_after"] = int(again) if again.isdecimal() and len(again) < 7 else RETRY_SECONDS
    if audit_id:
        more["audit_id"] = audit_id
    return more


def _wrong_member(body: Mapping[str, Any]) -> str:
    """Return the first wrong member."""
    named = body.get("parameter")
    faults = body.get("faults")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        pointer = str(faults[0].get("path", "")).lstrip("/")
        missing = _MISSING.fullmatch(str(faults[0].get("message", "")))
        whole = "/".join(part for part in (pointer, missing[1] if missing else "") if part)
        if whole:
            return whole.replace("~1", "/").replace("~0", "~")
    return named if isinstance(named, str) else ""


def _document(response: Response) -> Mapping[str, Any]:
    if not response.body:
        return {}
    try:
        body = jsontext.decode(response.body)
    except jsontext.JSONTextError:
        return {}
    return body if isinstance(body, dict) else {}
