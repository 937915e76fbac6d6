"""What is answered, for an OpenAPI document: the envelope of results, refusals, and what every answer has."""

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
    "AGTP-Status": "The status as AGTP has it, where HTTP has another number.",
    "Audit-ID": "The SHA-256, in hex, of the record of this call.",
    "Attribution-Record": "The record itself: a JWS of this host.",
    "Server-ID": "Which host answered.",
}
"""Fields of every answer that was called for, by name, with what they are."""

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    ATTRIBUTION: {
        "type": "object",
        "description": "Who answered; the proof is in the field Attribution-Record.",
        "required": ["server_id"],
        "properties": {"server_id": {"type": "string"}, "agent_id": {"type": "string"}},
    },
    REFUSAL: {
        "type": "object",
        "description": "Why a request was refused, and what to do about it.",
        "required": ["status", "reason", "error", "explanation"],
        "properties": {
            "status": {"type": "integer", "description": "As AGTP has it."},
            "reason": {"type": "string", "description": "A token that stays the same."},
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
        "description": "The call goes on, or waits for somebody's approval; there is no result yet.",
        "required": ["status"],
        "properties": {"status": {"type": "integer"}, "task_id": {"type": "string"}},
    },
    CONTENT: {
        "type": "object",
        "description": "One block of what a tool answers with, as MCP has it: a text, an image, a resource.",
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
"""What documents of the host itself are written as, by what was asked for."""

EVENTS = "text/event-stream"


def headers() -> dict[str, Any]:
    """Components: the fields."""
    return {
        name: {"description": said, "required": True, "schema": {"type": "string"}} for name, said in HEADERS.items()
    }


def responses(
    endpoints: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]], *, stream: bool
) -> dict[str, Any]:
    """
    What one operation answers.

    :param endpoints: what shares it.
    :param outputs: references to their output schemas.
    :param stream: whether events are sent to who asks for them.
    """
    native = all(endpoint.get("tier") == "A" for endpoint in endpoints)
    result = outputs[0] if len(outputs) == 1 else {"anyOf": list(outputs)}
    content: dict[str, Any]
    if native:
        # Documents of the host are the body itself, signed as it is.
        content = {kind: {} for kind in DOCUMENTS}
    else:
        kinds = [media_types.AGTP_JSON]
        if any(endpoint["method"] == "EXECUTE" for endpoint in endpoints):
            # It answers in the type that it was asked in (core v08 appendix D).
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
    The schema of what a call of an MCP tool results in.

    :param structured: the schema of its structured content, which is there unless the tool failed; None: none is
        promised.
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


# What every operation has is one object: of thousands, these would be most of a document in memory.
_INTEGER, _TEXT, _ATTRIBUTED = {"type": "integer"}, {"type": "string"}, _reference(ATTRIBUTION)
_FIELDS = {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}
_NOTHING = {"description": "It is done, and there is nothing to say."}
_ACCEPTED = {
    "description": "It was accepted, and goes on; or it waits for somebody's approval.",
    "content": {kind: {"schema": _reference(ACCEPTED)} for kind in (media_types.AGTP_JSON, media_types.JSON)},
}
_REFUSED = {
    "description": "A refusal with status, reason, explanation and remedy.",
    "content": {media_types.AGTP_JSON: {"schema": _reference(REFUSAL)}, "text/plain": {}},
}
