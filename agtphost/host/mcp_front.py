"""Build the MCP server of ``[mcp.front]`` for many clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.audit.lifecycle import LifecycleState
from agtphost.client.manifests import MAX_TOKENS
from agtphost.config import Config
from agtphost.config.surfaces import MCP_FRONT, asks_certificates
from agtphost.config.tool_requirements import hides_tools
from agtphost.dispatch import cures
from agtphost.dispatch.authority import effective_scopes
from agtphost.errors import Refusal
from agtphost.host.publication import Publication
from agtphost.http.clients import HttpClient, HttpClients
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, principal_check, speaker_of, verified_certificate
from agtphost.iagtp import IDispatcher, IGate
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS, is_believed
from agtphost.mcp.front import McpFrontFacts, McpFrontResource
from agtphost.mcp.in_process import Manifest
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.steps import Executor

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


def mcp_front_facts(
    config: Config, directory: AgentDirectory, oauth: IGate | None, publication: Publication, offload: Executor
) -> McpFrontFacts | None:
    """
    Return what the front needs to know under a configuration, or None without a front.

    :param oauth: the gate that checks tokens of identity providers; None where none are trusted.
    :param offload: calls a function off the reactor.
    :raises agtphost.errors.ConfigurationError: the configuration names agents that this host does not know.
    """
    given = config.mcp.front
    if given.listen is None:
        return None
    holders = keyholders(config, directory)
    speaker = _calling_agent(config, directory)
    trusted = oauth is not None and bool(speaker)
    clients = HttpClients(
        MCP_FRONT,
        agent_id=speaker,
        keyholders=holders,
        certified=verified_certificate if asks_certificates(config, given) else None,
        principal=principal_check(oauth) if oauth is not None and trusted else None,
        anonymous=bool(given.anonymous),
    )
    issuers = [issuer.expected_issuer for issuer in config.policies.oauth.issuer] if trusted else []
    return McpFrontFacts(
        path=given.path,
        url=given.url or "",
        clients=clients,
        issuers=tuple(dict.fromkeys(issuers)),
        manifest=_manifest(publication, offload),
        offload=offload,
        approval_wait=given.approval_wait,
        search=given.search,
        hint=lambda client: _explain_hidden_tools(config, directory, client),
        holders={f"client:{holder.name}": holder for holder in holders},
    )


def _explain_hidden_tools(config: Config, directory: AgentDirectory, client: HttpClient) -> str:
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


def _manifest(publication: Publication, offload: Executor) -> Manifest:
    """
    Return a reader of the published manifest, which is decoded once for all readers: with thousands of endpoints it is
    megabytes.
    """
    known: list[tuple[bytes, Mapping[str, Any]]] = []

    def decode_once(octets: bytes) -> Mapping[str, Any]:
        # A concurrent caller may have decoded these octets.
        if not known or known[0][0] is not octets:
            known[:] = [(octets, jsontext.decode(octets, max_tokens=MAX_TOKENS))]
        return known[0][1]

    async def manifest() -> Mapping[str, Any]:
        form = await publication.find_form(disclosed=False)
        if form.further:
            return form.document  # Decoding the response would hold the parts twice.
        octets = form.response.body
        assert isinstance(octets, bytes), "it is encoded once"
        if not known or known[0][0] is not octets:
            found: Mapping[str, Any] = await offload(decode_once, octets)
            return found
        return known[0][1]

    return manifest


def build_front(reactor: Any, facts: McpFrontFacts, dispatcher: IDispatcher) -> McpFrontResource:
    """Return the HTTP resource that serves ``[mcp.front]``; :meth:`McpFrontResource.turn_to` replaces its facts."""
    return McpFrontResource(facts, dispatcher, reactor)


def build_surface(resource: McpFrontResource) -> ServedSurface:
    """Return the surface of ``[mcp.front]``."""
    return ServedSurface(
        name=MCP_FRONT,
        what="the MCP front",
        resource=resource,
        home=True,
        cross_origin=resource.cross_origin,
        end_streams=resource.end_streams,
    )


def stop_watcher(resource: McpFrontResource) -> Any:
    """Return a watcher of lifecycle states that closes what a stopped agent has open at the front."""

    def note_state(agent_id: str, state: LifecycleState) -> None:
        if state.is_stopped:
            resource.end_agent(agent_id)

    return note_state


def _calling_agent(config: Config, directory: AgentDirectory) -> str:
    """Return the Agent-ID of the agent that calls for clients without one; empty if none is configured."""
    given = config.mcp.front
    key = "anonymous" if given.anonymous else "agent"
    return speaker_of(config, directory, ("mcp", "front", key), given.speaker)
