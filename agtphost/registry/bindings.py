"""Bind the methods of the registry: on cards, and on the list of hosted MCP servers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from agtphost.config.presence import mcp_front_url, root_of
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import REGISTRY, SERVERS
from agtphost.contract.service import ServiceReference
from agtphost.errors import Refusal
from agtphost.features import Services
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity.peer import Assurance
from agtphost.registry.card_search import FindCards
from agtphost.registry.catalogue import Cards
from agtphost.registry.invocation import InvokeCards, RemoteAgents
from agtphost.registry.mcp_servers import McpServers
from agtphost.registry.providers import Providers, origin_of
from agtphost.registry.registration import ChangeCards
from agtphost.registry.remote_agents import Make
from agtphost.registry.search_rate import RateLimitedHandler
from agtphost.upstream.external import ExternalService
from agtphost.upstream.https import trust_of
from agtphost.vocabulary.reasons import Reason

SECONDS = 900.0
"""Seconds that a call by a card may take; each call it makes has a shorter timeout."""

KEY = "Idempotency-Key"
"""The header field by which an agent on another host recognizes a repeated call."""

STATEMENTS = {
    "QUERY": "Cards of everything that the caller may call.",
    "FIND": "Search the cards of everything that the caller may call.",
    "REGISTER": "Register a card, or its URL; for operators, and for agents under their own names.",
    "RENEW": "Renew the lease of a card.",
    "WITHDRAW": "Withdraw a card, or say that it has a successor.",
    "APPROVE": "Approve what changed in a card that was fetched from its URL; for operators.",
}


def card_bindings(shown: IBuiltInHandler, finding: FindCards, changing: ChangeCards) -> tuple[Binding, ...]:
    """Return the bindings that list, search and change cards."""
    handlers: dict[str, IBuiltInHandler] = {"QUERY": shown, "FIND": RateLimitedHandler(finding)}
    return tuple(
        # Operators are known by their certificate's key and are not agents.
        Binding.native(
            *place,
            handlers.get(place[0], changing),
            STATEMENTS[place[0]],
            Assurance.NONE,
            changes=place[0] not in handlers,
            server_level=True,
        )
        for place in REGISTRY
    )


def connector(services: Services, providers: Providers, own: Collection[str]) -> Make:
    """
    Return a function that makes clients of agents elsewhere.

    :param providers: the HTTPS origins that may be called, with their credentials and limits.
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
        reactor = services.reactor
        return ExternalService(reference, provider.fields, trust_of(settings.ca), reactor, reactor.nameResolver)

    return make


def invocation_binding(cards: Cards, elsewhere: RemoteAgents) -> Binding:
    """
    Return the native binding of ``EXECUTE /cards/{id}``, which calls the agent that a card describes.

    :param elsewhere: calls agents that are not hosted here.
    """
    handler = InvokeCards(elsewhere)
    handler.cards = cards
    statement = "Call an agent by its card: what is hosted here, and agents elsewhere."
    binding = Binding.native(
        *("EXECUTE", "/cards/{id}", handler, statement, Assurance.NONE),
        changes=True,
        server_level=True,
        timeout=SECONDS,
    )
    return replace(binding, piecewise=True)


def server_bindings(services: Services) -> tuple[Binding, ...]:
    """Return the bindings that list hosted MCP servers, under ``[mcp.front]`` if it is served, as in ``agis.json``."""
    config = services.config
    url = mcp_front_url(config)
    front = None if url is None else f"{url}/{{}}".format
    adapter: Any = next(each for each in services.table.adapters if each.name == "mcp")
    handler = McpServers(adapter, config.host.server_id, front, services.clock, root=root_of(config))
    statement = "Hosted MCP servers that the caller may use, as the registry of MCP tells of servers."
    return tuple(
        Binding.native("QUERY", path, handler, statement, Assurance.NONE, server_level=True) for _, path in SERVERS
    )
