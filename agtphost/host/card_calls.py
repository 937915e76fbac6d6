"""Execute cards, and list hosted MCP servers in the form of the MCP registry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.config.presence import mcp_front_url, root_of
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import SERVERS
from agtphost.contract.service import ServiceReference
from agtphost.errors import Refusal
from agtphost.host.card_peers import CardPeers
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.services import HostServices
from agtphost.identity.peer import Assurance
from agtphost.registry.catalogue import Cards
from agtphost.registry.invocation import InvokeCards
from agtphost.registry.mcp_servers import McpServers
from agtphost.registry.providers import Providers, origin_of
from agtphost.registry.remote_agents import RemoteAgentClient
from agtphost.upstream.external import ExternalService
from agtphost.upstream.https import trust_of
from agtphost.vocabulary.reasons import Reason

SECONDS = 900.0
"""Seconds that a call by a card may take; each call it makes has a shorter timeout."""

KEY = "Idempotency-Key"
"""The header field by which an agent on another host recognizes a repeated call."""


def invocation_binding(
    cards: Cards, providers: Providers, factory: HandlerFactory, peers: CardPeers, own: Collection[str] = ()
) -> Binding:
    """
    Return the native binding of ``EXECUTE /cards/{id}``, which calls the agent that a card describes.

    :param cards: the catalogue; it also decides whether a caller may call an agent that is not hosted here.
    :param providers: the HTTPS origins that may be called, with their credentials and limits.
    :param factory: makes the HTTP clients of agents elsewhere, and closes them with its generation.
    :param peers: calls agents at other AGTP hosts.
    :param own: HTTP origins of this host. A card with one of them is refused, because the call would come back here.
    """

    def make(url: str) -> ExternalService | None:
        """Return a client of a URL; None, which is answered with 403, if no HTTPS provider has it."""
        if origin_of(url) in own:
            raise Refusal(
                Reason.INVOCATION_TOO_DEEP,
                "The card leads back to this host instead of an agent.",
                remedy="Correct the URL in the card: it must be that of the agent.",
            )
        provider = providers.find(url)
        if provider is None or not provider.settings.origin.startswith("https:"):
            return None
        settings = provider.settings
        reference = ServiceReference(
            url=url,
            method="POST",
            ca="" if settings.ca is None else str(settings.ca),
            allow_addresses=tuple(settings.allow_addresses),
            timeout=settings.timeout,
            idempotency_header=KEY,
        )
        return factory.external(reference, provider.fields, trust_of(settings.ca))

    handler = InvokeCards(RemoteAgentClient(make, peers, cards.require_call))
    handler.cards = cards
    statement = "Call an agent by its card: what is hosted here, and agents elsewhere."
    binding = Binding.native(
        *("EXECUTE", "/cards/{id}", handler, statement, Assurance.NONE),
        changes=True,
        server_level=True,
        timeout=SECONDS,
    )
    return replace(binding, piecewise=True)


def server_bindings(services: HostServices, adapter: McpAdapter) -> tuple[Binding, ...]:
    """Return the bindings that list hosted MCP servers, under ``[mcp.front]`` if it is served, as in ``agis.json``."""
    url = mcp_front_url(services.config)
    front = None if url is None else f"{url}/{{}}".format
    handler = McpServers(
        adapter, services.config.host.server_id, front, services.seconds, root=root_of(services.config)
    )
    statement = "Hosted MCP servers that the caller may use, as the registry of MCP tells of servers."
    return tuple(
        Binding.native("QUERY", path, handler, statement, Assurance.NONE, server_level=True) for _, path in SERVERS
    )
