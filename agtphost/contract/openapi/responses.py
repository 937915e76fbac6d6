"""Responses of an OpenAPI document: the envelope of results, refusals, and common header fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from agtphost.vocabulary import media_types

REFUSAL = "Refusal"
CONTENT = "ToolContent"
ACCEPTED = "Accepted"
ATTRIBUTION = "Attribution"

HEADERS: Mapping[str, str] = {
    "AGTP-Status": "The AGTP status, if the HTTP status differs.",
    "Audit-ID": "The SHA-256, in hex, of the record of this call.",
    "Attribution-Record": "The record itself: a JWS of this host.",
    "Server-ID": "The host that answered.",
}
"""Header fields of every answer to a call, by name, with descriptions."""

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    ATTRIBUTION: {
        "type": "object",
        "description": "The host and agent that answered; the proof is in the field Attribution-Record.",
        "required": ["server_id"],
        "properties": {"server_id": {"type": "string"}, "agent_id": {"type": "string"}},
    },
    REFUSAL: {
        "type": "object",
        "description": "The reason of a refusal, and what to do about it.",
        "required": ["status", "reason", "error", "explanation"],
        "properties": {
            "status": {"type": "integer", "description": "The AGTP status."},
            "reason": {"type": "string", "description": "A stable token."},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            },
            "explanation": {"type": "string"},
            "remedy": {"type": "string"},
            "attribution": {"$ref": f"#/components/schemas/{ATTRIBUTION}"},
        },
    },
    ACCEPTED: {
        "type": "object",
        "description": "The call is running or waits for an approval; it has no result yet.",
        "required": ["status"],
        "properties": {"status": {"type": "integer"}, "task_id": {"type": "string"}},
    },
    CONTENT: {
        "type": "object",
        "description": "A content block of a tool's answer, in MCP's form: a text, an image, a resource.",
        "required": ["type"],
        "properties": {
            "type": {"type": "string"},
            **{name: {"type": "string"} for name in ("text", "data", "mimeType", "uri", "name")},
        },
    },
}

DOCUMENTS = (
    *(media_types.AGTP_JSON, media_types.AGTP_YAML),
    *(media_types.IDENTITY_JSON, media_types.IDENTITY_YAML, "text/html"),
)
"""Media types of the host's own documents."""

EVENTS = "text/event-stream"


def headers() -> dict[str, Any]:
    """Return the component of header fields."""
    return {
        name: {"description": said, "required": True, "schema": {"type": "string"}} for name, said in HEADERS.items()
    }


def responses(
    endpoints: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]], *, stream: bool
) -> dict[str, Any]:
    """
    Return the responses of one operation.

    :param endpoints: the endpoints that share the operation.
    :param outputs: references to their output schemas.
    :param stream: whether clients can ask for events.
    """
    native = all(endpoint.get("tier") == "A" for endpoint in endpoints)
    result = outputs[0] if len(outputs) == 1 else {"anyOf": list(outputs)}
    content: dict[str, Any]
    if native:
        # The body of a document of the host is the signed document itself.
        content = {kind: {} for kind in DOCUMENTS}
    else:
        kinds = [media_types.AGTP_JSON]
        if any(endpoint["method"] == "EXECUTE" for endpoint in endpoints):
            # EXECUTE answers in the media type of the request (core v08 appendix D).
            kinds.append(media_types.JSON)
        content = {kind: {"schema": _envelope(result)} for kind in kinds}
        if stream:
            content[EVENTS] = {"schema": {"type": "string"}}
    outcome = "; or: ".join(dict.fromkeys(endpoint["semantic"]["outcome"] for endpoint in endpoints))
    found: dict[str, Any] = {"200": {"description": outcome, "headers": _FIELDS, "content": content}}
    if not native:
        found["204"] = _NOTHING
        found["2XX"] = _ACCEPTED
    errors = sorted({error for endpoint in endpoints for error in endpoint["errors"]})
    if errors:
        found["422"] = _describe_errors(tuple(errors))
    found["default"] = _REFUSED
    return found


@lru_cache(maxsize=256)
def _describe_errors(errors: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the OpenAPI response of status 422: invalid input, and the errors that the endpoint declares."""
    schema = {**_reference(REFUSAL), "properties": {"reason": {"type": "string", "examples": list(errors)}}}
    return {
        "description": f"The input is wrong, or one of the declared errors: {', '.join(errors)}.",
        "content": {media_types.AGTP_JSON: {"schema": schema}},
    }


def tool_response(structured: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the schema of a result of an MCP tool.

    :param structured: the schema of its structured content, which a successful call has; None if the tool declares
        none.
    """
    members: dict[str, Any] = {
        "content": {"type": "array", "items": _reference(CONTENT)},
        "isError": {"type": "boolean", "description": "Whether the tool failed; content says why."},
    }
    if structured is not None:
        members["structuredContent"] = dict(structured)
    response = {"type": "object", "properties": members}
    return {"type": "object", "required": ["tool_response"], "properties": {"tool_response": response}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _envelope(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["status", "result", "attribution"],
        "properties": {
            "status": _INTEGER,
            "task_id": _TEXT,
            "result": dict(result),
            "attribution": _ATTRIBUTED,
        },
    }


# These objects are shared by all operations: with thousands, copies would be most of a document in memory.
_INTEGER, _TEXT, _ATTRIBUTED = {"type": "integer"}, {"type": "string"}, _reference(ATTRIBUTION)
_FIELDS = {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}
_NOTHING = {"description": "The call succeeded and has no result."}
_ACCEPTED = {
    "description": "The call was accepted and is running, or it waits for an approval.",
    "content": {kind: {"schema": _reference(ACCEPTED)} for kind in (media_types.AGTP_JSON, media_types.JSON)},
}
_REFUSED = {
    "description": "A refusal with status, reason, explanation and remedy.",
    "content": {media_types.AGTP_JSON: {"schema": _reference(REFUSAL)}, "text/plain": {}},
}
