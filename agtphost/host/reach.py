"""Which MCP servers the configured clients of the MCP front and of the gateway reach, and what is in their way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agtphost.config import MCPServerSection
from agtphost.host.floor import state_changing_floor
from agtphost.host.http_clients import agent_named
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS
from agtphost.vocabulary import scopes
from agtphost.vocabulary.grants import ANY, upstream_of

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.host.loaded import Loaded
    from agtphost.identity.agents import Agent

SHOWN = 5
"""Clients that one sentence names."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What a call of one tool, or of all that have no entry of their own, asks of its caller."""

    assurance: Assurance
    scopes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client that needs no certificate, or all those that share one agent."""

    name: str
    """As people call it."""

    agent: Agent
    assurance: Assurance
    scopes: frozenset[str]


def requirements(server: MCPServerSection, floor: Assurance) -> Iterator[Requirement]:
    """
    Yield what the tools of a server ask for, as far as the configuration decides it.

    :param floor: what changes state takes on this host, where the operator wrote nothing.
    """
    yield Requirement(assurance=server.least_assurance(None, floor, changes=True), scopes=server.scopes)
    for tool in server.tools.values():
        if tool.enabled:
            changes = tool.impact != "informational"
            asked = server.scopes if tool.scopes is None else tool.scopes
            yield Requirement(assurance=server.least_assurance(tool, floor, changes=changes), scopes=asked)


def opens_tool_to(config: Config, server: MCPServerSection, assurance: Assurance) -> bool:
    """Return whether a server has a tool, or may have one, for callers that are known by ``assurance``."""
    return any(each.assurance <= assurance for each in requirements(server, state_changing_floor(config)))


def hides_tools(config: Config, assurance: Assurance) -> bool:
    """Return whether some tool of some server is for callers that are known more surely than by ``assurance``."""
    floor = state_changing_floor(config)
    return any(each.assurance > assurance for server in config.mcp.server for each in requirements(server, floor))


def unreached(loaded: Loaded) -> Iterator[str]:
    """Yield a sentence for each server of which configured clients of the MCP front or the gateway reach no tool."""
    config = loaded.config
    surface = "mcp.front" if config.mcp.front.listen is not None else "gateway"
    if config.mcp.front.listen is None and config.gateway.listen is None:
        return
    found: dict[tuple[str, str], list[str]] = {}
    for server in config.mcp.server:
        asked = list(requirements(server, state_changing_floor(config)))
        for client in _clients(loaded, surface):
            why = _obstacle(asked, client) if _is_given(config, client.agent, server.name) else ""
            if why:
                found.setdefault((server.name, why), []).append(client.name)
    for (name, why), clients in found.items():
        more = f" and {len(clients) - SHOWN} more" if len(clients) > SHOWN else ""
        yield f"[{surface}] shows {', '.join(clients[:SHOWN])}{more} no tool of {name}: {why}"


def _obstacle(asked: Sequence[Requirement], client: Client) -> str:
    """Return what keeps a client from every tool of a server; empty where it may reach one."""
    open_to_it = [each for each in asked if each.assurance <= client.assurance]
    if not open_to_it:
        return _closed(client.assurance)
    if all(scopes.missing(client.scopes, each.scopes) for each in open_to_it):
        lacking = ", ".join(scopes.missing(client.scopes, open_to_it[0].scopes))
        return f"calls are made as {client.agent.name}, without the scope {lacking}"
    return ""


def _closed(assurance: Assurance) -> str:
    """Say what opens a server to callers that are known by ``assurance``."""
    if assurance is Assurance.GATEWAY:
        return (
            "tokens prove the agent, and these tools take a client certificate; "
            f"write {OPEN_TO_TOKENS} in its [[mcp.server]], or in [mcp.server.tools.NAME] for one tool"
        )
    return "nothing proves who calls; give clients a token of [[http.client]]"


def _clients(loaded: Loaded, surface: str) -> Iterator[Client]:
    """Yield each client that is configured to call without a certificate."""
    config = loaded.config
    for holder in config.http.client:
        agent, _ = agent_named(loaded.directory, holder.agent)
        if agent is not None:
            held = frozenset(holder.scopes) or agent.scopes
            yield Client(name=holder.name, agent=agent, scopes=held, assurance=Assurance.GATEWAY)
    front = config.mcp.front
    if surface != "mcp.front" or not front.speaker:
        return
    agent, _ = agent_named(loaded.directory, front.speaker)
    if agent is None:
        return
    if front.agent:
        yield Client(
            name="clients of an identity provider", agent=agent, scopes=agent.scopes, assurance=Assurance.GATEWAY
        )
    else:
        yield Client(name="anonymous clients", agent=agent, scopes=agent.scopes, assurance=Assurance.HEADER)


def _is_given(config: Config, agent: Agent, server: str) -> bool:
    """Return whether ``[[grant]]`` leaves a server to an agent; without a grant it is given all."""
    granted = [text for each in config.grant if each.agent in (agent.name, agent.agent_id) for text in each.allow]
    named = [upstream_of(text) for text in granted]
    return not granted or ANY in granted or any(each is not None and each[0] == server for each in named)
