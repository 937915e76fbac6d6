"""Conversion of an MCP server's tools to a document with review notes (AGIS v01 appendix C, the reverse mapping)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agtphost.agis.document import MAX_ENDPOINTS
from agtphost.agis.drafts import (
    USUAL,
    DraftDocument,
    DraftEndpoints,
    choose_intent,
    choose_method,
    choose_outcome,
    choose_path,
    draft,
    is_method,
    line_of,
    reads,
)
from agtphost.agis.passes.completeness import SURE, is_tool_name
from agtphost.agis.passes.suggestions import PROHIBITED
from agtphost.agis.to_mcp import ORIGINAL
from agtphost.agis.words import parts
from agtphost.contract.tool_names import mcp_tool_name

LONGEST_NAME = 200
"""Characters of a tool's name."""


PLAIN = "plain"
"""The member of a tool in a host's list that has the tool's name on its own server."""


class ToolsError(ValueError):
    """The input is not a list of tools; the message says why."""


def tools_of(value: Any) -> list[Mapping[str, Any]]:
    """
    Return the tools in an answer to ``tools/list``.

    :param value: the result, the whole response, or only the list; entries as in MCP, or as in ``agtp tools ls
        --json``.
    :raises ToolsError: the input is not a list of tools; the message names the first fault.
    """
    found = value
    for name in ("result", "tools"):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
    if not isinstance(found, list):
        raise ToolsError("it has no list of tools")
    if len(found) > MAX_ENDPOINTS:
        raise ToolsError(f"it has {len(found)} tools; the limit is {MAX_ENDPOINTS}")
    tools = [_tool(index, each) for index, each in enumerate(found)]
    if not tools:
        raise ToolsError("it has no tools")
    seen: dict[str, int] = {}
    for index, tool in enumerate(tools):
        first = seen.setdefault(tool["name"], index)
        if first != index:
            raise ToolsError(f"tools[{index}] is named {tool['name'][:64]!r}, as tools[{first}] is")
    return tools


def _tool(index: int, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ToolsError(f"tools[{index}] is not an object")
    name = value.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise ToolsError(f"tools[{index}] has no name of 1 to {LONGEST_NAME} characters")
    own = value.get("mcp")
    tool = {**own, "name": name, PLAIN: own.get("name")} if isinstance(own, Mapping) else value
    if not isinstance(tool.get("inputSchema"), Mapping):
        raise ToolsError(f"tools[{index}] ({name[:64]!r}) has no inputSchema")
    return tool


def of_server(tools: Sequence[Mapping[str, Any]], server: str) -> list[Mapping[str, Any]]:
    """
    Return the tools of one server of a host under their own names: ``files.read_file`` is ``read_file``.

    :raises ToolsError: the host has no tools of that server.
    """
    found: list[Mapping[str, Any]] = [
        {**tool, "name": tool["name"].removeprefix(f"{server}.")}
        for tool in tools
        if tool["name"].startswith(f"{server}.")
    ]
    if not found:
        servers = ", ".join(sorted({tool["name"].partition(".")[0] for tool in tools if "." in tool["name"]})[:20])
        raise ToolsError(
            f"the list has no tools of a server {server}" + (f"; the servers are {servers}" if servers else "")
        )
    return found


def from_mcp(
    tools: Sequence[Mapping[str, Any]], *, service: str, agtp: str | None = None, description: str = ""
) -> DraftDocument:
    """
    Return a document of tools.

    :param tools: tools from :func:`tools_of`.
    :param service: name of the service.
    :param agtp: address of the service, if it is known.
    """
    made, names = DraftEndpoints(), dict.fromkeys((tool["name"] for tool in tools), 2)
    for tool in tools:
        _add(made, tool, service, names)
    return draft(
        made.made,
        made.reviews,
        service=service,
        agtp=agtp,
        description=description or f"What the tools of {service} do",
    )


def _add(made: DraftEndpoints, tool: Mapping[str, Any], service: str, names: dict[str, int]) -> None:
    name, notes = tool["name"], list[tuple[str, str]]()
    hints = tool.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    reading = hints.get("readOnlyHint") if isinstance(hints.get("readOnlyHint"), bool) else None
    said = tool.get("description")
    usual = "RETRIEVE" if reading else USUAL
    chosen = choose_method(_plain(tool), said if isinstance(said, str) else "", usual=usual)
    if chosen.note:
        notes.append(("method", chosen.note))
    path, why = choose_path(chosen.method, chosen.rest, _nouns(tool, service))
    if why:
        notes.append(("path", why))
    path = made.reserve_path(chosen.method, path)
    intent, why = choose_intent(chosen.method, path, said)
    if why:
        notes.append(("intent", why))
    outcome, why = choose_outcome(chosen.method, path)
    notes.append(("outcome", why or "taken from the tool"))
    capability = made.capability(chosen.method)
    notes.append(("capability", f"{capability} is the usual capability of {chosen.method}"))
    semantic: dict[str, Any] = {
        "intent": intent,
        "actor": "agent",
        "outcome": outcome,
        "capability": capability,
        **_consequence(chosen.method, reading, hints, notes),
    }
    if mcp_tool_name(chosen.method, path) != name:
        semantic["mcp_tool_name"] = name if is_tool_name(name) else _tool_name(name, names)
    endpoint: dict[str, Any] = {"method": chosen.method, "path": path, "semantic": semantic}
    if semantic.get("mcp_tool_name", name) != name:
        endpoint[ORIGINAL] = name
        notes.append(("mcp_tool_name", f"the tool's name {line_of(name)!r} is not lower-case; {ORIGINAL} keeps it"))
    endpoint["input"] = dict(tool["inputSchema"])
    output = tool.get("outputSchema")
    endpoint["output"] = dict(output) if isinstance(output, Mapping) else {"type": "object"}
    if not isinstance(output, Mapping):
        notes.append(("output", "the tool does not describe its output"))
    endpoint["errors"] = []
    notes.append(("errors", "tools do not name their errors"))
    made.add(endpoint, notes)


def _plain(tool: Mapping[str, Any]) -> str:
    """Return a tool's name without its server's name, if that is known or not a verb: ``files.read_file``."""
    own = tool.get(PLAIN)
    if isinstance(own, str) and own:
        return own
    name: str = tool["name"]
    server, _, last = re.sub(r"/|__", ".", name).rpartition(".")
    first = parts(server)[:1]
    return name if not last or (first and (first[0] in PROHIBITED or is_method(first[0]))) else last


def _nouns(tool: Mapping[str, Any], service: str) -> Iterator[str]:
    """Yield nouns for a tool whose name has none: its first arguments, then the service."""
    schema = tool["inputSchema"]
    properties, required = schema.get("properties"), schema.get("required")
    names = [*required] if isinstance(required, list) else []
    names += [*properties] if isinstance(properties, Mapping) else []
    yield from (each for each in names[:5] if isinstance(each, str))
    yield service


def _consequence(
    method: str, reading: bool | None, hints: Mapping[str, Any], notes: list[tuple[str, str]]
) -> dict[str, Any]:
    """
    Return confidence, impact and idempotence, from the tool's annotations or else from its verb.

    Annotations are the server's own claim, so all of these are marked for review.
    """
    looks = reads(method) if reading is None else reading
    if looks:
        impact = "informational"
    else:
        impact = "reversible" if hints.get("destructiveHint") is False else "irreversible"
    why = "from the tool's annotations" if hints else f"a guess from {method}"
    notes.append(("impact_tier", f"{impact}: {why}"))
    again = hints.get("idempotentHint")
    return {
        "confidence_guidance": 0.6 if looks else SURE,
        "impact_tier": impact,
        "is_idempotent": again if isinstance(again, bool) else looks,
    }


def _tool_name(name: str, taken: dict[str, int]) -> str:
    """
    Return a unique name that AGIS allows, and reserve it.

    :param taken: reserved names, each with the number to try first for a duplicate.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    wanted = found = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_") or "tool"
    number = taken.get(wanted, 2)
    while found in taken:
        found, number = f"{wanted}_{number}", number + 1
    taken[wanted] = number
    taken.setdefault(found, 2)
    return found
