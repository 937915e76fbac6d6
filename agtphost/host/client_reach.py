"""Find MCP servers and relayed A2A agents that configured clients of a surface cannot reach, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agtphost.config.tool_requirements import Requirement, requirements, state_changing_floor
from agtphost.dispatch import cures
from agtphost.http_clients import find_agent
from agtphost.identity import documents
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS
from agtphost.vocabulary import scopes
from agtphost.vocabulary.grants import ANY, upstream_of

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.identity.agents import Agent
    from agtphost.identity.directory import AgentDirectory

OTHER_PARTS = ("resource:", "prompt:")
"""Prefixes of a grant's part of a server that name no tool."""

FRONT: Final = "mcp.front"
"""The section of the MCP front, as obstacles name it."""

A2A_FRONT: Final = "a2a.front"
"""The section of the A2A front, as obstacles name it."""

MOST_NAMED = 5
"""How many clients one sentence names."""


@dataclass(frozen=True, kw_only=True)
class ReachingClient:
    """A client that needs no certificate, or all clients that share one agent."""

    name: str
    """The name for messages."""

    agent: Agent
    assurance: Assurance
    scopes: frozenset[str]
    """The scopes claimed for its calls: its agent's document has to declare each of them."""

    section: str = "its [[http.client]]"
    """The section whose ``scopes`` says what is claimed, as messages name it."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """An obstacle that keeps configured clients of a surface from every tool of a server, or from a relayed agent."""

    surface: str
    server: str
    """The name of the MCP server, or of the A2A agent behind the A2A front."""

    clients: tuple[str, ...]
    assurance: str
    """What the operator does about how surely the clients are known, or about what they claim; empty: nothing."""

    scopes: str
    """What the operator does about scopes that they lack; empty: nothing."""

    def __str__(self) -> str:
        more = f" and {len(self.clients) - MOST_NAMED} more" if len(self.clients) > MOST_NAMED else ""
        named = f"{', '.join(self.clients[:MOST_NAMED])}{more}"
        # The sentence names both: an operator who corrects one would find the list empty again.
        why = "; also, ".join(filter(None, (self.assurance, self.scopes)))
        what = "no call of agent {} is open" if self.surface == A2A_FRONT else "no tool of {} is shown"
        return f"[{self.surface}] {what.format(self.server)} to {named}: {why}"


def find_obstacles(config: Config, directory: AgentDirectory) -> Iterator[Obstacle]:
    """
    Yield the obstacles of configured clients.

    There is one for each server of which clients of the MCP front or the gateway reach no tool, and one for each A2A
    agent that the A2A front relays to and whose clients cannot call it.
    """
    front, gateway = config.mcp.front.listen is not None, config.gateway.listen is not None
    found: dict[tuple[str, str, str, str], list[str]] = {}

    def examine(
        name: str, listed: Collection[str], asked: Sequence[Requirement], surface: str, client: ReachingClient
    ) -> None:
        given = _find_granted_tools(config, client.agent, name, listed, asked)
        surely, unscoped = ("", "") if given is None else _obstacle(given, client, surface)
        if surely or unscoped:
            found.setdefault((surface, name, surely, unscoped), []).append(client.name)

    for server in config.mcp.server:
        asked = list(requirements(server, state_changing_floor(config)))
        for surface, client in _clients(config, directory, front=front, gateway=gateway):
            examine(server.name, server.tools, asked, surface, client)
    relayed = {each.upstream for each in config.a2a.front.agent} if config.a2a.front.listen is not None else set()
    for upstream in config.a2a.agent:
        if upstream.name in relayed:
            for client in _clients_of_relay(config, directory):
                needed = Requirement(assurance=upstream.min_assurance, scopes=upstream.scopes)
                examine(upstream.name, (), [needed], A2A_FRONT, client)
    for (surface, name, surely, unscoped), clients in found.items():
        yield Obstacle(surface=surface, server=name, clients=tuple(clients), assurance=surely, scopes=unscoped)


def _obstacle(asked: Sequence[Requirement], client: ReachingClient, surface: str) -> tuple[str, str]:
    """Return what keeps a client from every tool of a server that it was granted: how it is known, and its scopes."""
    agent = client.agent
    if not asked:
        return f"[[grant]] gives {agent.name} tools of it that are not enabled", ""
    if beyond := scopes.missing(_declared_scopes(agent), sorted(client.scopes)):
        it = "them" if len(beyond) > 1 else "it"
        command = cures.allow(agent.name, beyond)
        gives = f", or an operator can give {it}: {command[0]}" if command else ""
        return (
            f"{client.section} claims {', '.join(beyond)}, which the document of {agent.name} does not declare, so "
            f"that every call is refused; leave {it} out of scopes there{gives}",
            "",
        )
    open_to_it = [each for each in asked if each.assurance <= client.assurance]
    return "" if open_to_it else _how_to_open(client.assurance, surface), _missing_scopes(open_to_it or asked, client)


def _missing_scopes(asked: Sequence[Requirement], client: ReachingClient) -> str:
    """Return a sentence on the scopes that a client lacks for every tool; empty if it lacks none for one of them."""
    lacking = [scopes.missing(client.scopes, each.scopes) for each in asked]
    if not all(lacking):
        return ""
    plural = "s" if len(lacking[0]) > 1 else ""
    said = f"calls are made as {client.agent.name}, without the scope{plural} {', '.join(lacking[0])}; "
    if not scopes.missing(_declared_scopes(client.agent), lacking[0]):
        return f"{said}add {'them' if plural else 'it'} to scopes of {client.section}"
    command = cures.allow(client.agent.name, lacking[0])
    return f"{said}an operator can give {'them' if plural else 'it'}: {command[0]}" if command else said.rstrip("; ")


def _how_to_open(assurance: Assurance, surface: str) -> str:
    """Return a sentence on what opens a server, or a relayed agent, to callers of an assurance."""
    if assurance is Assurance.GATEWAY:
        needing, place = "these tools require", "[[mcp.server]], or in [mcp.server.tools.NAME] for one tool"
        if surface == A2A_FRONT:
            needing, place = "this agent requires", "[[a2a.agent]]"
        return (
            f'a token gives the assurance "gateway", and {needing} a client certificate; '
            f"write {OPEN_TO_TOKENS} in its {place}"
        )
    return "clients are not authenticated; give them a token of [[http.client]]"


def _clients(
    config: Config, directory: AgentDirectory, *, front: bool, gateway: bool
) -> Iterator[tuple[str, ReachingClient]]:
    """
    Yield each client that is configured to call without a certificate, with the surface that it uses.

    :param front: whether there is an MCP front.
    :param gateway: whether there is a gateway.
    """
    if front or gateway:
        for client in _keyholders(config, directory):
            yield FRONT if front else "gateway", client
    if front:
        yield from _clients_of_agent(FRONT, directory, config.mcp.front.speaker, proven=bool(config.mcp.front.agent))
    if gateway:
        yield from _clients_of_agent(
            "gateway", directory, config.gateway.agent or "", proven=bool(config.policies.oauth.issuer)
        )


def _keyholders(config: Config, directory: AgentDirectory) -> Iterator[ReachingClient]:
    """Yield the clients of ``[[http.client]]``."""
    for holder in config.http.client:
        agent, _ = find_agent(directory, holder.agent)
        if agent is not None:
            held = frozenset(holder.scopes) or _declared_scopes(agent)
            yield ReachingClient(name=holder.name, agent=agent, scopes=held, assurance=Assurance.GATEWAY)


def _clients_of_relay(config: Config, directory: AgentDirectory) -> Iterator[ReachingClient]:
    """Yield each client that is configured to call at the A2A front without a certificate."""
    yield from _keyholders(config, directory)
    front = config.a2a.front
    agent, _ = find_agent(directory, front.agent_id) if front.agent_id else (None, "")
    if agent is not None:
        proven = bool(front.tokens or front.oauth)
        yield ReachingClient(
            name="clients with a token of [a2a.front]" if proven else "anonymous clients",
            agent=agent,
            scopes=frozenset(front.scopes) or _declared_scopes(agent),
            assurance=Assurance.GATEWAY if proven else Assurance.HEADER,
            section="[a2a.front]",
        )


def _clients_of_agent(
    surface: str, directory: AgentDirectory, label: str, *, proven: bool
) -> Iterator[tuple[str, ReachingClient]]:
    """
    Yield the clients that call as one agent of a surface.

    :param proven: whether a provider's token proves who they are.
    """
    agent, _ = find_agent(directory, label) if label else (None, "")
    if agent is not None:
        name = "clients of an identity provider" if proven else "anonymous clients"
        assurance = Assurance.GATEWAY if proven else Assurance.HEADER
        yield surface, ReachingClient(name=name, agent=agent, scopes=_declared_scopes(agent), assurance=assurance)


def _declared_scopes(agent: Agent) -> frozenset[str]:
    """
    Return the scopes that an agent's document declares.

    The statements that give those beyond its Genesis are in the store, which is not read here; another remark names
    them.
    """
    return agent.scopes | documents.declared_scopes(agent.document)


def _find_granted_tools(
    config: Config, agent: Agent, server: str, listed: Collection[str], asked: Sequence[Requirement]
) -> Sequence[Requirement] | None:
    """
    Return those of a server's tools that ``[[grant]]`` leaves to an agent; without a grant, all.

    :param listed: the tools that have an entry of their own.
    :return: None if the agent is granted nothing of the server.
    """
    granted = [text for each in config.grant if each.agent in (agent.name, agent.agent_id) for text in each.allow]
    if not granted or ANY in granted:
        return asked
    named = [part for upstream, part in filter(None, map(upstream_of, granted)) if upstream == server]
    parts = [part for part in named if not part.startswith(OTHER_PARTS)]
    if not parts:
        return None
    return [each for each in asked if any(_names(part, each, listed) for part in parts)]


def _names(part: str, requirement: Requirement, listed: Collection[str]) -> bool:
    """Return whether a grant's part of a server names a tool; for those without an entry, whether it may name one."""
    if part.endswith(ANY):
        return not requirement.tool or requirement.tool.startswith(part.removesuffix(ANY))
    return part == requirement.tool if requirement.tool else part not in listed
