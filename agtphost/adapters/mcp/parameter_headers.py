"""``Mcp-Param-*``: arguments that a stateless HTTP server wants repeated as headers (``x-mcp-header``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.adapters.mcp.links import HeaderPairs
from agtphost.adapters.mcp.versions import header_value

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}", re.ASCII)
_KINDS = ("string", "integer", "boolean")

ParameterHeaders = tuple[tuple[tuple[str, ...], str], ...]
"""Pairs of the path to an argument and the header that repeats it."""


Path = tuple[str, ...]


def _annotated(schema: object, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(path) > 16:
        return
    for name, inner in properties.items():
        if isinstance(inner, dict):
            if "x-mcp-header" in inner:
                yield (*path, name), inner
            yield from _annotated(inner, (*path, name))


def parameter_headers(schema: object) -> ParameterHeaders:
    """
    Read the annotations of an input schema.

    :raises ValueError: an annotation that the protocol forbids; such a tool cannot be called over HTTP.
    """
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for path, inner in _annotated(schema):
        token = inner["x-mcp-header"]
        if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
            raise ValueError(f"x-mcp-header of {'.'.join(path)} is not a header name")
        if inner.get("type") not in _KINDS:
            raise ValueError(f"x-mcp-header of {'.'.join(path)} is not on a string, integer or boolean")
        if token.lower() in found:
            raise ValueError(f"x-mcp-header {token} stands twice")
        found[token.lower()] = (path, f"Mcp-Param-{token}")
    return tuple(found.values())


def render(headers: ParameterHeaders, arguments: Mapping[str, Any]) -> HeaderPairs:
    """The headers of one call; an argument that is absent or null has none."""
    fields = []
    for path, name in headers:
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool):
            fields.append((name, "true" if value else "false"))
        elif isinstance(value, (str, int, float)):
            fields.append((name, header_value(str(value))))
    return fields
