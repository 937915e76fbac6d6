"""Request bodies and parameter styles of an OpenAPI document, as members of an external service's handler table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agtphost.contract.openapi.schemas import OpenAPIReferences
from agtphost.contract.request_format import STYLES

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

FILE_SCHEMA: Mapping[str, Any] = {
    "anyOf": [
        {"type": "string", "contentEncoding": "base64"},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["data"],
            "properties": {
                "data": {"type": "string", "contentEncoding": "base64"},
                "filename": {"type": "string", "maxLength": 255},
                "content_type": {"type": "string", "maxLength": 129},
            },
        },
    ],
}
"""The schema of an input member that is sent as octets."""

_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


def media_type(kind: str) -> str:
    """Return a media type in lower case, without its parameters."""
    return kind.partition(";")[0].strip().lower()


def rank_media_type(kind: str) -> tuple[int, str]:
    """Return the sort key of a body's media types: those that the host can write from values come first."""
    name = media_type(kind)
    if name == "application/json":
        return 0, ""
    if name == "application/merge-patch+json":
        return 1, ""  # It has fields of an object; other kinds of patches are lists of steps.
    if "json" in name:
        return 2, name
    known = ("*/*", "application/*", MULTIPART, FORM)
    if "/" not in name:
        return 4 + len(known), name  # Public documents have empty names there, and "examples".
    return (3 + known.index(name), "") if name in known else (3 + len(known), name)


def choose_content(content: Mapping[str, Any], references: OpenAPIReferences, losses: Counter[str]) -> tuple[str, Any]:
    """Return the preferred media type, and its schema."""
    kinds = sorted(
        map(str, content), key=lambda kind: (rank_media_type(kind), "schema" not in references.follow(content[kind]))
    )
    if len(kinds) > 1:
        losses["further media types"] += len(kinds) - 1
    return kinds[0], references.follow(content[kinds[0]]).get("schema")


def body_format(kind: str) -> str:
    """Return the value of ``handler.body`` for a media type."""
    name = media_type(kind)
    if "json" in name or "/" not in name or name in ("*/*", "application/*"):
        return "json"
    return {FORM: "form", MULTIPART: "multipart"}.get(name, "raw")


def is_text(kind: str) -> bool:
    """Return whether a raw body is written as text rather than octets."""
    name = media_type(kind)
    return name.startswith("text/") or name.endswith(("xml", "yaml", "csv", "javascript", "graphql"))


def is_binary(schema: Any, references: OpenAPIReferences) -> bool:
    """Return whether a part's schema means octets (OpenAPI 3.0 ``format: binary``, 3.1 ``contentMediaType``)."""
    found = references.follow(schema) if isinstance(schema, Mapping) else {}
    if found.get("type", "string") not in ("string", ["string"], ["string", "null"]):
        return False
    if found.get("format") == "binary":
        return True
    kind = found.get("contentMediaType")
    return isinstance(kind, str) and "contentEncoding" not in found and not is_text(kind) and "json" not in kind


def parameter_encoding(parameter: Mapping[str, Any], references: OpenAPIReferences) -> dict[str, Any]:
    """Return the ``handler.encoding`` of a query or header parameter; empty if it is the default."""
    if "schema" not in parameter and parameter.get("content"):
        return {"content_type": "application/json"}
    usual = "simple" if parameter.get("in") == "header" else "form"
    style = parameter.get("style", usual)
    if style not in STYLES:
        return {}
    explode = parameter.get("explode", style in ("form", "deepObject")) is True
    shapes = _shapes(parameter.get("schema"), references, 0)
    if shapes <= _SCALARS and style != "deepObject":
        return {}
    if style == usual and "object" not in shapes and (explode or usual == "simple"):
        return {}
    return {"style": style} if style in ("form", "deepObject") and explode else {"style": style, "explode": explode}


def member_encoding(
    declared: Any, schema: Any, references: OpenAPIReferences, *, multipart: bool
) -> tuple[dict[str, Any], bool]:
    """
    Return the ``handler.encoding`` of one body field, and whether the field is a file.

    :param declared: its OpenAPI Encoding Object.
    """
    table = declared if isinstance(declared, Mapping) else {}
    found: dict[str, Any] = {}
    types = table.get("contentType")
    item = references.follow(schema) if isinstance(schema, Mapping) else {}
    inner = item.get("items") if item.get("type") == "array" else item
    file = multipart and is_binary(inner, references)
    if "style" in table or "explode" in table:
        style = table.get("style", "form")
        if style in STYLES:
            found["style"] = style
            if isinstance(table.get("explode"), bool) and table["explode"] != (style in ("form", "deepObject")):
                found["explode"] = table["explode"]
    elif isinstance(types, str) and types and (multipart or "json" in types):
        found["content_type"] = types
    if file:
        found["file"] = True
    return found, file


def _shapes(schema: Any, references: OpenAPIReferences, depth: int) -> set[str]:
    """Return the JSON types that a schema allows, as far as it declares them."""
    found = references.follow(schema) if isinstance(schema, Mapping) else {}
    kind = found.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {str(each) for each in kind}
    if "properties" in found or "additionalProperties" in found:
        return {"object"}
    shapes: set[str] = set()
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = found.get(keyword)
        for part in parts if isinstance(parts, list) and depth < 8 else ():
            shapes |= _shapes(part, references, depth + 1)
    return shapes or {"string"}
