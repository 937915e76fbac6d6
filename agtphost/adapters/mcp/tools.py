"""
Read and check the tool definitions of a server.

A definition is refused, with a log line, when it could deceive a reader or this host: invisible characters, an invalid
name, a size that only an attack needs (security section 2.4, T-MC-90). A definition that changed since it was approved
is kept but off (design decision 16).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.logger import LogLevel

from agtphost.adapters.mcp.links import HeaderPairs
from agtphost.adapters.mcp.versions import header_value
from agtphost.contract.metaschema import MOST, foreign_faults
from agtphost.contract.schemas import CompiledSchema, SchemaError, TooCostly, compile_schema
from agtphost.errors import Refusal
from agtphost.identity.canonical import canonical
from agtphost.upstream.log import UpstreamLog
from agtphost.vocabulary.reasons import Reason

MAX_TOOLS = 2000
"""Tools of one server; more would make every list a burden to its readers."""

MAX_DEFINITION = 256 << 10
"""Octets of one definition."""

MAX_NAME = 128
"""Characters of a tool's name: MCP 2025-11-25, tools, section Tool Names."""

_DEFINING = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing, besides the categories below."""

_DECEPTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Controls, formats (bidi, zero-width, tags), surrogates, private use, line and paragraph separators."""


_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}", re.ASCII)
_KINDS = ("string", "integer", "boolean")

ParameterHeaders = tuple[tuple[tuple[str, ...], str], ...]
"""Pairs of the path to an argument and the header that repeats it."""


Path = tuple[str, ...]


def _find_annotated(schema: object, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(path) > 16:
        return
    for name, inner in properties.items():
        if isinstance(inner, dict):
            if "x-mcp-header" in inner:
                yield (*path, name), inner
            yield from _find_annotated(inner, (*path, name))


def parameter_headers(schema: object) -> ParameterHeaders:
    """
    Return the headers that an input schema's annotations ask for.

    :raises ValueError: an annotation that the protocol forbids; such a tool cannot be called over HTTP.
    """
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for path, inner in _find_annotated(schema):
        token = inner["x-mcp-header"]
        if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
            raise ValueError(f"x-mcp-header of {'.'.join(path)} is not a header name")
        if inner.get("type") not in _KINDS:
            raise ValueError(f"x-mcp-header of {'.'.join(path)} is not on a string, integer or boolean")
        if token.lower() in found:
            raise ValueError(f"x-mcp-header {token} is used twice")
        found[token.lower()] = (path, f"Mcp-Param-{token}")
    return tuple(found.values())


def render_headers(headers: ParameterHeaders, arguments: Mapping[str, Any]) -> HeaderPairs:
    """Return the headers of one call; an argument that is absent or null has none."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool whose definition passed."""

    name: str
    """The server's own name for it."""

    definition: Mapping[str, Any]
    """The definition as ``tools/list`` gave it, complete."""

    digest: str
    """The SHA-256 of the defining members in hex, which an approval pins."""

    schema: CompiledSchema | None
    """The input schema; None for one that this host does not support: then only the server checks."""

    headers: ParameterHeaders = ()
    output: CompiledSchema | None = None
    """The output schema; None where there is none, or one that this host does not support."""

    as_task: bool = False
    """Whether it can only be called as a task (2025-11-25)."""

    invalid: tuple[str, ...] = ()
    """The errors of its schemas, in sentences; a tool with any is off."""


def deceptive_character(text: str, *, lines: bool) -> str | None:
    """
    Return the first character that a reader would not see as it is.

    :param lines: whether line breaks and tabs are allowed, as in descriptions.
    :return: such as ``U+202E``; None if there is none.
    """
    if text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text)):
        return None
    for char in text:
        if lines and char in "\n\r\t":
            continue
        if unicodedata.category(char) in _DECEPTIVE or char in _INVISIBLE:
            return f"U+{ord(char):04X}"
    return None


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _fault(definition: Mapping[str, Any]) -> str | None:
    """Return why a definition is refused; None if it is not."""
    name = definition["name"]
    if not 0 < len(name) <= MAX_NAME or any(char.isspace() for char in name):
        return f"its name is empty, has spaces, or is longer than {MAX_NAME} characters"
    if unicodedata.normalize("NFKC", name) != name:
        return "its name has characters that look like others (it is not in form NFKC)"
    deceptive = deceptive_character(name, lines=False)
    if deceptive is not None:
        return f"its name has the invisible character {deceptive}"
    for text in _strings(definition):
        deceptive = deceptive_character(text, lines=True)
        if deceptive is not None:
            return f"its definition has the invisible character {deceptive}"
    if not isinstance(definition.get("inputSchema"), dict):
        return "it has no input schema"
    return None


def defining_octets(definition: Mapping[str, Any]) -> bytes:
    """Return what an approval covers: name, texts, schemas and annotations, as canonical JSON."""
    return canonical({key: definition[key] for key in _DEFINING if key in definition})


def digest_of(definition: Mapping[str, Any]) -> str:
    """Return what an approval pins: the SHA-256 of :func:`defining_octets`, hex."""
    return hashlib.sha256(defining_octets(definition)).hexdigest()


def _read(definition: Mapping[str, Any], digest: str, log: UpstreamLog) -> McpTool | None:
    name = definition["name"]
    try:
        headers = parameter_headers(definition["inputSchema"])
    except ValueError as error:
        log.say(f"tool {name[:64]!r} is refused: {error}", LogLevel.warn)
        return None
    schema = _compile(definition["inputSchema"], "input", name, log)
    declared = definition.get("outputSchema")
    output = _compile(declared, "output", name, log) if isinstance(declared, dict) else None
    execution = definition.get("execution")
    as_task = type(execution) is dict and execution.get("taskSupport") == "required"
    return McpTool(
        name=name,
        definition=definition,
        digest=digest,
        schema=schema,
        headers=headers,
        output=output,
        as_task=as_task,
    )


def _compile(schema: Mapping[str, Any], of: str, name: str, log: UpstreamLog) -> CompiledSchema | None:
    try:
        return compile_schema(schema, role="tool")
    except SchemaError as error:
        log.say(f"the {of} schema of tool {name[:64]!r} is not checked here: {error}", LogLevel.warn)
        return None


def invalid_schemas(tools: Sequence[McpTool]) -> dict[str, tuple[str, ...]]:
    """
    Return the errors in tools' schemas; slow enough for a thread.

    :return: errors by tool, for the tools that have any.
    """
    found: dict[str, tuple[str, ...]] = {}
    for tool in tools:
        said = [
            f"its {of} schema {fault}"
            for of, schema in (
                ("input", tool.definition["inputSchema"]),
                ("output", tool.definition.get("outputSchema")),
            )
            if isinstance(schema, dict)
            for fault in foreign_faults(schema)
        ]
        if said:
            found[tool.name] = tuple(said[:MOST])
    return found


def read_tools(listed: Sequence[object], known: Mapping[str, McpTool], log: UpstreamLog) -> dict[str, McpTool]:
    """
    Check what ``tools/list`` gave.

    :param listed: the ``tools`` members of all pages.
    :param known: the tools of the last listing; an unchanged one is not compiled again.
    :return: the tools that passed, in order of name.
    """
    tools: dict[str, McpTool] = {}
    seen: set[str] = set()
    if len(listed) > MAX_TOOLS:
        log.event(f"lists {len(listed)} tools; only the first {MAX_TOOLS} are read")
    for definition in listed[:MAX_TOOLS]:
        if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
            log.say("lists something that is not a tool", LogLevel.warn)
            continue
        name = definition["name"]
        fault = "another tool of this server has its name" if name in seen else _fault(definition)
        seen.add(name)
        if fault is not None:
            # When two have one name, it is unclear which one the operator means, so neither is taken.
            tools.pop(name, None)
            log.say(f"tool {name[:64]!r} is refused: {fault}", LogLevel.warn)
            continue
        octets = canonical(definition)
        if len(octets) > MAX_DEFINITION:
            log.say(f"tool {name[:64]!r} is refused: its definition has {len(octets)} octets", LogLevel.warn)
            continue
        digest = digest_of(definition)
        before = known.get(name)
        same = before is not None and before.digest == digest and before.definition == definition
        tool = before if same else _read(definition, digest, log)
        if tool is not None:
            tools[name] = tool
    return dict(sorted(tools.items()))


def check_structured(response: Mapping[str, Any], schema: CompiledSchema, server: str) -> None:
    """
    Check the structured content of a tool's result; ``isError`` results have none that is promised.

    :param schema: the output schema that the tool declares.
    :param server: the name of its server.
    :raises Refusal: 500 for content that does not follow it, or cannot be checked.
    """
    if response.get("isError") is True:
        return
    structured = response.get("structuredContent")
    try:
        valid = schema.is_valid(structured)
    except TooCostly as error:
        raise Refusal(
            Reason.INVALID_OUTPUT,
            "The tool's structured content cannot be checked against the output schema that it declares.",
            remedy="The operator has to fix the MCP server, or to turn validate_output off.",
            details={"mcp_server": server, "detail": error.reason},
        ) from None
    if not valid:
        raise Refusal(
            Reason.INVALID_OUTPUT,
            "The tool's structured content does not follow the output schema that it declares.",
            remedy="The operator has to fix the MCP server, or to turn validate_output off.",
            details={"mcp_server": server, "faults": schema.faults(structured)[:20]},
        )
