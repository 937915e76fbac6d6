"""The feature of ``[mcp.front]``: the MCP server of this host for many clients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.mcp_front import MCP, MCPFront
from agtphost.config.surfaces import MCP_FRONT, asks_certificates
from agtphost.config.tool_requirements import hides_tools
from agtphost.dispatch import cures
from agtphost.dispatch.authority import effective_scopes
from agtphost.errors import Refusal
from agtphost.features import Contribution, IFeature, Services
from agtphost.http.clients import HttpClient, HttpClients
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, speaker_of, verified_certificate
from agtphost.identity.agents import Agent
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS, is_believed
from agtphost.mcp.front import McpFrontFacts, McpFrontResource
from agtphost.vocabulary import scopes

HINT = "The operator of this host opens some tools only to clients with a stronger identity proof."
"""Why a client may miss a tool. The text does not depend on the tools, so it reveals nothing about them."""

UNSCOPED = "Some tools ask for scopes that clients without an identity proof do not have."
"""Why a client that has proven nothing may miss a tool: it does not learn whose scopes it calls with."""

_REMEDIES = {
    Assurance.GATEWAY: (
        "This front identifies clients by a token. To see a missing tool, present the agent's client certificate, or "
        f"ask the operator for {OPEN_TO_TOKENS} in the server's entry of host.toml."
    ),
    Assurance.HEADER: "This front does not identify its clients. To see a missing tool, ask the operator for a token.",
}
"""What a client can do, by its assurance."""


@dataclass(frozen=True, kw_only=True)
class McpFront:
    """The front with everything that its clients have open, which continues over a reload."""

    resource: McpFrontResource
    facts: McpFrontFacts
    """The settings under one configuration."""

    surface: ServedSurface


@implementer(IFeature)
class McpFeature:
    """The feature of ``[mcp.front]``, which is on where the section has ``listen``."""

    settings_schema = None

    def check(self, settings: MCP, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section."""
        return ()

    def build(self, settings: MCP, services: Services, previous: McpFront | None) -> Contribution:
        """
        Return the front, which lives as long as the host, and takes these settings when they come into force.

        :raises agtphost.errors.ConfigurationError: the configuration names agents that this host does not know.
        """
        if settings.front.listen is None:
            return Contribution()
        facts = _facts(settings.front, services)
        if previous is None:
            resource = McpFrontResource(facts, services.host.dispatcher, services.reactor)
            surface = ServedSurface(
                name=MCP_FRONT,
                what="the MCP front",
                resource=resource,
                home=True,
                cross_origin=resource.cross_origin,
                end_streams=resource.end_streams,
            )
        else:
            resource, surface = previous.resource, previous.surface

        def follow_state(agent_id: str, state: LifecycleState) -> None:
            if state.is_stopped:
                resource.end_agent(agent_id)
            else:
                resource.resume_agent(agent_id)

        services.host.watch_agents(follow_state)
        return Contribution(
            surfaces=[surface],
            activate=partial(resource.turn_to, facts),
            carried=McpFront(resource=resource, facts=facts, surface=surface),
        )


def _facts(given: MCPFront, services: Services) -> McpFrontFacts:
    config, directory, host = services.config, services.directory, services.host
    holders = keyholders(config, directory)
    speaker = _calling_agent(config, directory)
    issuers = [issuer.expected_issuer for issuer in config.policies.oauth.issuer] if speaker else []
    clients = HttpClients(
        MCP_FRONT,
        agent_id=speaker,
        keyholders=holders,
        certified=verified_certificate if asks_certificates(config, given) else None,
        principal=host.check_principal if issuers else None,
        anonymous=bool(given.anonymous),
    )
    return McpFrontFacts(
        path=given.path,
        url=given.url or "",
        clients=clients,
        issuers=tuple(dict.fromkeys(issuers)),
        manifest=host.read_manifest,
        offload=host.offload,
        approval_wait=given.approval_wait,
        search=given.search,
        hint=lambda client: _explain_hidden_tools(config, directory, client),
        holders={f"client:{holder.name}": holder for holder in holders},
    )


def _explain_hidden_tools(config: Config, directory: IAgentDirectory, client: HttpClient) -> str:
    """
    Return why a client may not see a tool, and who can change that; empty where it may see every tool.

    The text depends on the client and on the servers as a whole, so it tells nothing about a single tool.
    """
    surely = f"{HINT} {_REMEDIES[client.assurance]}" if hides_tools(config, client.assurance) else ""
    return " ".join(filter(None, (surely, _explain_scopes(config, directory.by_id(client.agent_id), client))))


def _explain_scopes(config: Config, agent: Agent | None, client: HttpClient) -> str:
    """Return a sentence on the scopes that a client lacks for some tools; empty where it lacks none."""
    if agent is None:
        return ""
    committed = None if client.certificate is None else client.certificate.commitment
    claim = dict(client.fields).get("Authority-Scope")
    try:
        held = effective_scopes(agent.scopes, committed, None if claim is None else scopes.parse(claim))
    except Refusal:
        return ""  # Each of its calls is refused, and says so.
    asked = {scope for server in config.mcp.server for scope in server.tool_scopes}
    lacking = scopes.missing(held, sorted(asked))
    if not lacking:
        return ""
    return cures.lacking(agent, lacking) if is_believed(client.assurance) else UNSCOPED


def _calling_agent(config: Config, directory: IAgentDirectory) -> str:
    """Return the Agent-ID of the agent that calls for clients without one; empty if none is configured."""
    given = config.mcp.front
    key = "anonymous" if given.anonymous else "agent"
    return speaker_of(config, directory, ("mcp", "front", key), given.speaker)
