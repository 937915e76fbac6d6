"""What the tools of MCP servers require of their callers, as far as the configuration decides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agtphost.config.sections import Config
from agtphost.config.upstreams import MCPServerSection
from agtphost.identity.peer import Assurance


def state_changing_floor(config: Config) -> Assurance:
    """Return the least assurance of a caller that changes state (design decision 4)."""
    relaxed = config.host.development and config.listen.loopback
    return Assurance.HEADER if relaxed else Assurance.CERTIFICATE


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """The requirements on callers of one tool, or of all tools without an entry."""

    assurance: Assurance
    scopes: tuple[str, ...]
    tool: str = ""
    """The tool; empty for all without an entry."""


def requirements(server: MCPServerSection, floor: Assurance) -> Iterator[Requirement]:
    """
    Yield what the tools of a server require, as far as the configuration decides it.

    :param floor: the default assurance for state changes on this host.
    """
    yield Requirement(assurance=server.least_assurance(None, floor, changes=True), scopes=server.scopes)
    for name, tool in server.tools.items():
        if tool.enabled:
            changes = tool.impact != "informational"
            asked = server.scopes if tool.scopes is None else tool.scopes
            assurance = server.least_assurance(tool, floor, changes=changes)
            yield Requirement(assurance=assurance, scopes=asked, tool=name)


def opens_tool_to(config: Config, server: MCPServerSection, assurance: Assurance) -> bool:
    """Return whether a server has a tool, or may have one, for callers of an assurance."""
    return any(each.assurance <= assurance for each in requirements(server, state_changing_floor(config)))


def hides_tools(config: Config, assurance: Assurance) -> bool:
    """Return whether some tool of some server requires more than an assurance."""
    floor = state_changing_floor(config)
    return any(each.assurance > assurance for server in config.mcp.server for each in requirements(server, floor))
