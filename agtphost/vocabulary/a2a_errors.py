"""Errors (A2A 1.0 section 5.4): codes in JSON-RPC, statuses in HTTP+JSON, reasons in an ErrorInfo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
DOMAIN = "a2a-protocol.org"
"""Whose reasons these are; a reason of another domain says nothing about A2A."""

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NOT_JSON = -32700
TASK_NOT_FOUND = -32001
TASK_NOT_CANCELABLE = -32002
PUSH_UNSUPPORTED = -32003
UNSUPPORTED_OPERATION = -32004
CONTENT_TYPE_UNSUPPORTED = -32005
INVALID_AGENT_RESPONSE = -32006
NO_EXTENDED_CARD = -32007
EXTENSION_REQUIRED = -32008
VERSION_UNSUPPORTED = -32009


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error of A2A, with its status in each binding."""

    http: int
    status: str
    """As google.rpc.Code calls it."""

    reason: str


KINDS: Mapping[int, Kind] = {
    TASK_NOT_FOUND: Kind(404, "NOT_FOUND", "TASK_NOT_FOUND"),
    TASK_NOT_CANCELABLE: Kind(400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    PUSH_UNSUPPORTED: Kind(400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    UNSUPPORTED_OPERATION: Kind(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    CONTENT_TYPE_UNSUPPORTED: Kind(400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    INVALID_AGENT_RESPONSE: Kind(500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    NO_EXTENDED_CARD: Kind(400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    EXTENSION_REQUIRED: Kind(400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    VERSION_UNSUPPORTED: Kind(400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    INVALID_PARAMS: Kind(400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    INVALID_REQUEST: Kind(400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    NOT_JSON: Kind(400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    METHOD_NOT_FOUND: Kind(404, "NOT_FOUND", "METHOD_NOT_FOUND"),
    INTERNAL: Kind(500, "INTERNAL", "INTERNAL_ERROR"),
}
"""By the code of JSON-RPC."""

OWN = frozenset(range(VERSION_UNSUPPORTED, TASK_NOT_FOUND + 1))
"""The codes that A2A adds to those of JSON-RPC."""

_CODES = {kind.reason: code for code, kind in KINDS.items() if code != NOT_JSON}


def kind_of(code: int) -> Kind:
    """Return the kind of a code; that of an internal error for unknown codes."""
    return KINDS.get(code, KINDS[INTERNAL])


def info(code: int, proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ErrorInfo of an error; ``proof`` is its metadata."""
    return {
        "@type": INFO,
        "reason": kind_of(code).reason,
        "domain": DOMAIN,
        "metadata": {name: str(value) for name, value in proof.items()},
    }


def code_in(details: object) -> int | None:
    """Return the code that a list of details names; None where none of A2A's own does."""
    for each in details if isinstance(details, list) else ():
        # Agents from before 1.0 name no domain.
        if isinstance(each, dict) and each.get("domain", DOMAIN) == DOMAIN:
            reason = each.get("reason")
            if isinstance(reason, str) and reason in _CODES:
                return _CODES[reason]
    return None
