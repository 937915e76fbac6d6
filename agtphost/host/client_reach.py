"""Find MCP servers that configured clients of the MCP front and the gateway cannot reach, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agtphost.config import MCPServerSection
from agtphost.host.floor import state_changing_floor
from agtphost.host.http_clients import find_agent
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS
from agtphost.vocabulary import scopes
from agtphost.vocabulary.grants import ANY, upstream_of

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.host.host_loader import LoadedHost
    from agtphost.identity.agents import Agent

OTHER_PARTS = ("resource:", "prompt:")
"""Prefixes of a grant's part of a server that name no tool."""

MOST_NAMED = 5
"""How many clients one sentence names."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """The requirements on callers of one tool, or of all tools without an entry."""

    assurance: Assurance
    scopes: tuple[str, ...]
    tool: str = ""
    """The tool; empty for all without an entry."""


@dataclass(frozen=True, kw_only=True)
class ReachingClient:
    """A client that needs no certificate, or all clients that share one agent."""

    name: str
    """The name for messages."""

    agent: Agent
    assurance: Assurance
    scopes: frozenset[str]
    """The scopes claimed for its calls: its agent's document has to declare each of them."""


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


def unreached_servers(loaded: LoadedHost) -> Iterator[str]:
    """Yield a sentence for each server of which configured clients of the MCP front or the gateway reach no tool."""
    config = loaded.config
    front, gateway = config.mcp.front.listen is not None, config.gateway.listen is not None
    found: dict[tuple[str, str, str], list[str]] = {}
    for server in config.mcp.server:
        asked = list(requirements(server, state_changing_floor(config)))
        for surface, client in _clients(loaded, front=front, gateway=gateway):
            given = _find_granted_tools(config, client.agent, server, asked)
            why = "" if given is None else _obstacle(given, client)
            if why:
                found.setdefault((surface, server.name, why), []).append(client.name)
    for (surface, name, why), clients in found.items():
        more = f" and {len(clients) - MOST_NAMED} more" if len(clients) > MOST_NAMED else ""
        yield f"[{surface}] no tool of {name} is shown to {', '.join(clients[:MOST_NAMED])}{more}: {why}"


def _obstacle(asked: Sequence[Requirement], client: ReachingClient) -> str:
    """Return what keeps a client from every tool of a server that it was granted; empty if it may reach one."""
    agent = client.agent
    if not asked:
        return f"[[grant]] gives {agent.name} tools of it that are not enabled"
    if beyond := scopes.missing(agent.scopes, sorted(client.scopes)):
        return (
            f"[[http.client]] claims {', '.join(beyond)}, which the document of {agent.name} does not declare, so that "
            "every call is refused; leave it out of scopes there"
        )
    open_to_it = [each for each in asked if each.assurance <= client.assurance]
    unscoped = _missing_scopes(open_to_it or asked, client)
    if open_to_it:
        return unscoped
    # The sentence names both: an operator who corrects one would find the list empty again.
    return _how_to_open(client.assurance) + (f"; also, {unscoped}" if unscoped else "")


def _missing_scopes(asked: Sequence[Requirement], client: ReachingClient) -> str:
    """Return a sentence on the scopes that a client lacks for every tool; empty if it lacks none for one of them."""
    lacking = [scopes.missing(client.scopes, each.scopes) for each in asked]
    if not all(lacking):
        return ""
    given = " ".join(f"--scope {scope}" for scope in lacking[0])
    plural = "s" if len(lacking[0]) > 1 else ""
    said = f"calls are made as {client.agent.name}, without the scope{plural} {', '.join(lacking[0])}; "
    if not scopes.missing(client.agent.scopes, lacking[0]):
        return f"{said}add {'them' if plural else 'it'} to scopes of its [[http.client]]"
    return f"{said}have another agent call: `agtp agent new NAME {given} --owner OWNER` issues one"


def _how_to_open(assurance: Assurance) -> str:
    """Return a sentence on what opens a server to callers of an assurance."""
    if assurance is Assurance.GATEWAY:
        return (
            'a token gives the assurance "gateway", and these tools require a client certificate; '
            f"write {OPEN_TO_TOKENS} in its [[mcp.server]], or in [mcp.server.tools.NAME] for one tool"
        )
    return "nothing proves who calls; give clients a token of [[http.client]]"


def _clients(loaded: LoadedHost, *, front: bool, gateway: bool) -> Iterator[tuple[str, ReachingClient]]:
    """
    Yield each client that is configured to call without a certificate, with the surface that it uses.

    :param front: whether there is an MCP front.
    :param gateway: whether there is a gateway.
    """
    config = loaded.config
    for holder in config.http.client if front or gateway else ():
        agent, _ = find_agent(loaded.directory, holder.agent)
        if agent is not None:
            held = frozenset(holder.scopes) or agent.scopes
            client = ReachingClient(name=holder.name, agent=agent, scopes=held, assurance=Assurance.GATEWAY)
            yield "mcp.front" if front else "gateway", client
    if front:
        yield from _clients_of_agent("mcp.front", loaded, config.mcp.front.speaker, proven=bool(config.mcp.front.agent))
    if gateway:
        yield from _clients_of_agent(
            "gateway", loaded, config.gateway.agent or "", proven=bool(config.policies.oauth.issuer)
        )


def _clients_of_agent(
    surface: str, loaded: LoadedHost, label: str, *, proven: bool
) -> Iterator[tuple[str, ReachingClient]]:
    """
    Yield the clients that call as one agent of a surface.

    :param proven: whether a provider's token proves who they are.
    """
    agent, _ = find_agent(loaded.directory, label) if label else (None, "")
    if agent is not None:
        name = "clients of an identity provider" if proven else "anonymous clients"
        assurance = Assurance.GATEWAY if proven else Assurance.HEADER
        yield surface, ReachingClient(name=name, agent=agent, scopes=agent.scopes, assurance=assurance)


def _find_granted_tools(
    config: Config, agent: Agent, server: MCPServerSection, asked: Sequence[Requirement]
) -> Sequence[Requirement] | None:
    """
    Return those of a server's tools that ``[[grant]]`` leaves to an agent; without a grant, all.

    :return: None if the agent is granted nothing of the server.
    """
    granted = [text for each in config.grant if each.agent in (agent.name, agent.agent_id) for text in each.allow]
    if not granted or ANY in granted:
        return asked
    named = [part for upstream, part in filter(None, map(upstream_of, granted)) if upstream == server.name]
    parts = [part for part in named if not part.startswith(OTHER_PARTS)]
    if not parts:
        return None
    return [each for each in asked if any(_names(part, each, server) for part in parts)]


def _names(part: str, requirement: Requirement, server: MCPServerSection) -> bool:
    """Return whether a grant's part of a server names a tool; for those without an entry, whether it may name one."""
    if part.endswith(ANY):
        return not requirement.tool or requirement.tool.startswith(part.removesuffix(ANY))
    return part == requirement.tool if requirement.tool else part not in server.tools
