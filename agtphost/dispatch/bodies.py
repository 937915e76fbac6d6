"""
Request bodies: core v08 section 5.7.

A body is either the drafts' envelope ``{method, task_id, session_id,
parameters, context}`` or the bare input object. Headers and the request line
win over the envelope's copies (core v08 section 8.3), so those are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext, media_types, yamltext
from agtphost.vocabulary.status import Status

ENVELOPE = frozenset({"method", "task_id", "session_id", "parameters", "context"})
"""The members of a method body; a body with ``parameters`` and no other name is an envelope."""

_EMPTY: Mapping[str, Any] = {}


def _malformed(reason: str, explanation: str, remedy: str) -> Refusal:
    return Refusal(Status.BAD_REQUEST, reason, explanation, remedy=remedy)


def _decode_yaml(octets: bytes) -> Any:
    try:
        return yamltext.decode(octets)
    except yamltext.YAMLTextError as error:
        raise _malformed(
            "malformed-body",
            f"The body is not YAML as this host reads it: {error}.",
            "Send plain YAML mappings of strings, numbers, booleans and lists, or JSON.",
        ) from None


def decode(body: bytes, content_type: str | None, *, yaml: bool = False) -> Any:
    """
    Read a request body.

    :param content_type: the Content-Type value; None where the request had none.
    :param yaml: whether the operator asks for YAML bodies: ``[wire] yaml``.
    :raises Refusal: 400 for a body without a type, of another type, or malformed.
    """
    if content_type is None:
        raise _malformed(
            "content-type-missing",
            "The request has a body and no Content-Type.",
            f"Send Content-Type: {media_types.AGTP_JSON}.",
        )
    essence = media_types.essence(content_type)
    if essence == media_types.AGTP_YAML:
        if yaml:
            return _decode_yaml(body)
        raise _malformed(
            "unsupported-media-type",
            "This host does not read YAML bodies.",
            f"Send the same value as {media_types.AGTP_JSON}, or have the operator set yaml = true in [wire].",
        )
    if essence not in media_types.JSON_BODIES and not essence.endswith("+json"):
        raise _malformed(
            "unsupported-media-type",
            f"Bodies of type {essence[:80]!r} are not read.",
            f"Send {media_types.AGTP_JSON}.",
        )
    try:
        return jsontext.decode(body)
    except jsontext.JSONTextError as error:
        raise _malformed(
            "malformed-body", f"The body is not JSON as this host reads it: {error}.", "Correct the body."
        ) from None


def unwrap(value: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """
    Take the envelope off.

    :return: ``(parameters, context)``.
    :raises Refusal: 400 where the body is not an object, or the envelope's members are not.
    """
    if not isinstance(value, dict):
        raise _malformed("malformed-body", "The body is not a JSON object.", "Send an object.")
    wrapped = "parameters" in value or "method" in value or value.keys() == {"context"}
    if not wrapped or not value.keys() <= ENVELOPE:
        # Also ``{session_id, context}``: the parameters of SUSPEND, and of every method that accepts a context.
        return value, _EMPTY
    parameters, context = value.get("parameters"), value.get("context")
    for name, member in (("parameters", parameters), ("context", context)):
        if member is not None and not isinstance(member, dict):
            raise _malformed("malformed-body", f"The member {name!r} is not an object.", "Send an object.")
    return parameters or _EMPTY, context or _EMPTY
