"""
Paths of hosted tools over HTTP: ``/tools/SERVER/TOOL``, or below ``/agents/NAME``.

Both names are percent-encoded UTF-8, each one segment: a slash in a tool's name is ``%2F``. Names count as they are
written: ``Read`` is not ``read``. These are paths of HTTP alone; the path grammar of AGTP knows nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

ROOT = "tools"
"""The segment before a server's name."""

LONGEST_NAME = 128
"""Characters of a server's or a tool's name: MCP 2025-11-25, tools, section Tool Names."""

LONGEST_CACHED = 1_024
"""Characters of a path that is parsed only once while it is in use."""

DOTS = (".", "..")
"""Names that HTTP clients take out of a path (RFC 3986 section 5.2.4): tools of these names have no path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPath:
    """The server and the tool that a path names."""

    server: str
    tool: str
    agent: str = ""
    """The agent that is addressed; empty where none is."""


def tool_path(server: str, tool: str) -> str | None:
    """Return the path of a tool; None for a tool that has none."""
    if server in DOTS or tool in DOTS or not (server and tool):
        return None
    return f"/{ROOT}/{quote(server, safe='')}/{quote(tool, safe='')}"


def parse_tool_path(path: str) -> ToolPath | None:
    """Return what a path names, as it was sent; None for any other path."""
    if f"/{ROOT}/" not in path:
        return None
    return _parse_cached(path) if len(path) <= LONGEST_CACHED else _parse(path)


def _parse(path: str) -> ToolPath | None:
    agent, segments = "", path[1:].split("/")
    if len(segments) == 5 and segments[0] == "agents":
        agent, segments = segments[1], segments[2:]
    if len(segments) != 3 or segments[0] != ROOT:
        return None
    server, tool = _name(segments[1]), _name(segments[2])
    return ToolPath(server=server, tool=tool, agent=agent) if server and tool else None


@lru_cache(512)
def _parse_cached(path: str) -> ToolPath | None:
    return _parse(path)


def is_tool_path(path: str) -> bool:
    """Return whether a path, or a template of paths, has the form of a tool's path."""
    segments = path[1:].split("/")
    if len(segments) == 5 and segments[0] == "agents":
        segments = segments[2:]
    return len(segments) == 3 and segments[0] == ROOT


def _name(segment: str) -> str:
    """Decode a name; empty for what no tool is called."""
    try:
        name = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return ""
    sound = len(name) <= LONGEST_NAME and name.isprintable() and name not in DOTS
    return name if sound else ""
