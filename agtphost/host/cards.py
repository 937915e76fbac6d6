"""Build the registry of cards for one configuration."""

from __future__ import annotations

from collections.abc import Sequence

from agtphost.adapters.a2a.card import signature_of
from agtphost.adapters.a2a.card_keys import card_keys
from agtphost.config import problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.presence import root_of
from agtphost.config.registry import RegistrySection
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import REGISTRY
from agtphost.errors import ConfigurationError
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.host.card_calls import invocation_binding
from agtphost.host.card_peers import CardPeers
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.services import HostServices
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery.visibility import Visibility
from agtphost.registry.card import AgentCard
from agtphost.registry.card_fetcher import CardFetcher
from agtphost.registry.card_search import FindCards
from agtphost.registry.catalogue import Cards
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.generated import HostedCards
from agtphost.registry.listing import ShowCards
from agtphost.registry.maintenance import MaintenanceSettings
from agtphost.registry.providers import Providers, origin_of
from agtphost.registry.registration import ChangeCards
from agtphost.registry.search_rate import RateLimitedHandler
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.scopes import missing

STATEMENTS = {
    "QUERY": "Cards of everything that the caller may call.",
    "FIND": "Search the cards of everything that the caller may call.",
    "REGISTER": "Register a card, or its URL; for operators, and for agents under their own names.",
    "RENEW": "Renew the lease of a card.",
    "WITHDRAW": "Withdraw a card, or say that it has a successor.",
    "APPROVE": "Approve what changed in a card that was fetched from its URL; for operators.",
}


def cards_of(
    services: HostServices,
    visibility: Visibility,
    endpoints: Sequence[Binding],
    adapters: Sequence[IPayloadAdapter],
    factory: HandlerFactory,
) -> tuple[Cards | None, tuple[Binding, ...]]:
    """
    Return the registry under one configuration and its bindings; None and none without a registry.

    :param factory: makes clients of agents elsewhere.
    """
    section = services.config.registry
    if section is None:
        return None, ()
    directory, kept, terms = services.loaded.directory, services.lasting.cards, _terms(services, section)
    shown = ShowCards(services.offload)
    url = None if section.url is None else f"{section.url.rstrip('/')}{section.path}"
    hosted = HostedCards(
        *(directory, endpoints, adapters, visibility, services.config.host.server_id),
        url=url,
        root=root_of(services.config),
        now=services.seconds,
    )
    peers = CardPeers(services.lasting.delegated.links, services.config.host.server_id)

    def scopes(url: str) -> tuple[str, ...]:
        return terms.providers.scopes(url, *peers.provider_names(url))

    cards = Cards(
        *(kept.registered, kept.leases, hosted, services.authorization, directory.by_id, shown), scopes=scopes
    )
    shown.cards = cards
    changing = ChangeCards(
        cards,
        services.authorization,
        directory.list_known,
        terms.endpoints,
        terms.fetch,
        terms.judge,
        [adapter.name for adapter in adapters],
        services.seconds,
    )
    engine = services.lasting.searching.engine_for(
        services.config, services.loaded.model, volatile=services.loaded.volatile
    )
    finding = RateLimitedHandler(FindCards(cards, engine, logging=section.log_queries))
    handlers: dict[str, IBuiltInHandler] = {"QUERY": shown, "FIND": finding}
    of_cards = tuple(
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
    own = {origin_of(each) for each in (section.base, services.config.gateway.base) if each}
    return cards, (*of_cards, invocation_binding(cards, terms.providers, factory, peers, own))


def find_terms(services: HostServices) -> MaintenanceSettings | None:
    """Return the terms by which registered cards are maintained, or None without a registry."""
    return None if services.config.registry is None else _terms(services, services.config.registry)


def _terms(services: HostServices, section: RegistrySection) -> MaintenanceSettings:
    try:
        providers = Providers(services.reactor, section.provider)
    except (OSError, ValueError) as error:
        fault = ConfigFault(
            location=("registry", "provider"), message=f"has a ca that cannot be used: {explain(error)}"
        )
        raise ConfigurationError(problems_in(services.config.file, [fault])) from error
    where = EndpointChecker(development=services.config.host.development, allowed=providers.allowed_networks())
    keys = {each.origin: card_keys(each, services.config) for each in section.provider if each.card_keys}

    def judge_card(card: AgentCard) -> str:
        return signature_of(card.document, keys.get(origin_of(card.endpoint), {}))

    def lets(owner: str, url: str) -> bool:
        needed = providers.scopes(url)
        agent = services.loaded.directory.by_id(owner) if owner and needed else None
        return not owner or not missing(frozenset() if agent is None else agent.scopes, needed)

    return MaintenanceSettings(
        fetch=CardFetcher(services.reactor, providers, where),
        judge=judge_card,
        endpoints=where,
        providers=providers,
        has_scopes=lets,
        refetch_seconds=section.refetch_seconds,
        forget_days=section.forget_days,
    )
