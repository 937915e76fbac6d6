"""
Check a request of 2026-07-28 before it is carried out: its envelope, and the header fields that repeat its body.

Proxies read the header fields, and servers the body; where the two disagree, the request is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agtphost.mcp.messages import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, McpFault, Message
from agtphost.mcp.revisions import CAPABILITIES, MODERN, VERSION

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that ``Mcp-Name`` repeats."""

ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name")

PARAM = "mcp-param-"
"""The prefix of fields that repeat an argument of a tool."""

MARK = "x-mcp-header"
"""The member of a property's schema that names such a field."""

MOST_POSITIONS = 10_000
"""Places of one schema that are searched."""

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL = re.compile(r"-?[0-9]+(\.0+)?", re.ASCII)
_PRIMITIVE = frozenset({"string", "integer", "boolean"})
_SCHEMAS = frozenset(
    (
        *("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"),
        *("not", "if", "then", "else", "contentSchema"),
    )
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

Fields = Callable[[str], Sequence[str]]
Path = tuple[str, ...]


def is_enveloped(message: Message) -> bool:
    """Return whether a request claims to be of the era without handshakes."""
    meta = message.params.get("_meta")
    return isinstance(meta, dict) and VERSION in meta


def check_envelope(message: Message, fields: Fields | None) -> None:
    """
    Check that the envelope of a request is complete, and agrees with the header fields.

    :param fields: the fields of its HTTP request; None where it came on stdin.
    :raises McpFault: with the first error found.
    """
    meta = message.params.get("_meta")
    if not isinstance(meta, dict):
        raise McpFault(INVALID_PARAMS, f"params._meta must be an object with {VERSION} and {CAPABILITIES}.")
    missing = [name for name in (VERSION, CAPABILITIES) if name not in meta]
    if missing:
        raise McpFault(INVALID_PARAMS, f"params._meta has no {', '.join(missing)}.")
    if fields is not None:
        _check_fields(message, meta[VERSION], fields)
    if not isinstance(meta[VERSION], str) or not isinstance(meta[CAPABILITIES], dict):
        raise McpFault(INVALID_PARAMS, f"{VERSION} must be a text, and {CAPABILITIES} an object.")
    require_served(meta[VERSION])


def require_served(revision: str) -> None:
    """
    Check that a revision is 2026-07-28.

    :raises McpFault: -32022 for every other.
    """
    if revision != MODERN:
        raise version_fault(revision)


def version_fault(revision: str) -> McpFault:
    """Return the error for a client of another revision."""
    return McpFault(UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": [MODERN], "requested": revision})


def _check_fields(message: Message, revision: object, fields: Fields) -> None:
    said: dict[str, str | None] = {}
    for name in ROUTING:
        values = fields(name)
        if len(values) > 1:
            raise McpFault(HEADER_MISMATCH, f"{name} is in the header more than once.")
        said[name] = values[0].strip() if values else None
    if said["mcp-protocol-version"] is None or said["mcp-protocol-version"] != revision:
        shown = str(said["mcp-protocol-version"] or "missing")[:32]
        wanted = f"the revision of the request's envelope is {str(revision)[:32]}"
        raise McpFault(HEADER_MISMATCH, f"MCP-Protocol-Version is {shown}, and {wanted}.")
    if said["mcp-method"] != message.method:
        shown = str(said["mcp-method"] or "missing")[:64]
        raise McpFault(HEADER_MISMATCH, f"Mcp-Method is {shown}, and the request's method is {message.method[:64]}.")
    named = NAMED.get(message.method)
    value = None if named is None else message.params.get(named)
    if value is not None and decode_field(said["mcp-name"]) != value:
        raise McpFault(HEADER_MISMATCH, f"Mcp-Name is not the {named} of the request.")


def decode_field(value: str | None) -> str | None:
    """Decode a field that may be wrapped as ``=?base64?...?=``; None for one that is badly wrapped."""
    found = None if value is None else _SENTINEL.fullmatch(value)
    if found is None:
        return value
    try:
        octets = base64.b64decode(found[1], validate=True)
        return octets.decode() if base64.b64encode(octets).decode("ascii") == found[1] else None
    except (binascii.Error, ValueError):
        return None


class MarkedArguments:
    """
    The arguments of a tool that ``Mcp-Param-*`` fields repeat; they are looked for at its first call.

    :param schema: the input schema of the tool.
    """

    __slots__ = ("_found", "_schema")

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._found: list[tuple[Path, str, object]] | None = None

    def check(self, arguments: Mapping[str, Any], fields: Fields) -> None:
        """
        Check that the fields of a call agree with its arguments.

        :raises McpFault: -32020 for a field that is missing, repeated, or different.
        """
        if self._found is None:
            self._found, self._schema = _find_marked(self._schema), None
        if self._found:
            _check_marked(self._found, arguments, fields)


def _check_marked(marked: list[tuple[Path, str, object]], arguments: Mapping[str, Any], fields: Fields) -> None:
    for path, name, kind in marked:
        values = fields(f"{PARAM}{name.lower()}")
        if len(values) > 1:
            raise McpFault(HEADER_MISMATCH, f"Mcp-Param-{name} is in the header more than once.")
        value = _value_at(arguments, path)
        rendered = _render(value)
        if rendered is None:
            if values:
                raise McpFault(HEADER_MISMATCH, f"Mcp-Param-{name} is there, and the argument {'.'.join(path)} is not.")
            continue
        if not values:
            raise McpFault(HEADER_MISMATCH, f"Mcp-Param-{name} is missing; the argument {'.'.join(path)} is there.")
        if not _matches_field(kind, value, rendered, decode_field(values[0].strip())):
            raise McpFault(HEADER_MISMATCH, f"Mcp-Param-{name} is not the argument {'.'.join(path)}.")


def _matches_field(kind: object, value: Any, rendered: str, header: str | None) -> bool:
    if header is None:
        return False
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if kind == "integer" and whole and _DECIMAL.fullmatch(header) is not None:
        return len(header) <= 64 and int(header.partition(".")[0]) == int(value)
    return header == rendered


def _render(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def _value_at(arguments: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(name)
    return arguments


def _find_marked(schema: object) -> list[tuple[Path, str, object]]:
    """Return the arguments that fields repeat; empty if one mark is invalid, for clients send no fields then."""
    found: list[tuple[Path, str, object]] = []
    names: set[str] = set()
    for path, place in _walk_schemas(schema):
        if MARK not in place:
            continue
        name = place[MARK]
        if not path or not isinstance(name, str) or _TOKEN.fullmatch(name) is None or name.lower() in names:
            return []
        if place.get("type") not in _PRIMITIVE:
            return []
        names.add(name.lower())
        found.append((path, name, place["type"]))
    return found


def _walk_schemas(schema: object) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """
    Yield every schema in a schema with the properties that lead to it; None where the path is not of properties alone.
    """
    left: list[tuple[Path | None, object]] = [((), schema)]
    for _ in range(MOST_POSITIONS):
        if not left:
            return
        path, place = left.pop()
        if not isinstance(place, dict):
            continue
        yield path, place
        for word, value in place.items():
            if word == "properties" and isinstance(value, dict):
                left += [(None if path is None else (*path, name), each) for name, each in value.items()]
            elif word in _SCHEMAS:
                left.append((None, value))
            elif word in _LISTS and isinstance(value, list):
                left += [(None, each) for each in value]
            elif word in _MAPS and isinstance(value, dict):
                left += [(None, each) for each in value.values()]
