"""The feature of ``[registry]``: cards of what is hosted, and of agents elsewhere that registered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zope.interface import implementer

from agtphost.adapters.a2a.card import signature_of
from agtphost.adapters.a2a.card_keys import card_keys
from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.presence import root_of
from agtphost.config.registry import RegistrySection
from agtphost.config.surfaces import REGISTRY, asks_certificates
from agtphost.contract.binding import Binding
from agtphost.errors import ConfigurationError
from agtphost.features import Contribution, IFeature, Services
from agtphost.http.clients import HttpClients
from agtphost.http.registry import RegistryFacts, RegistryResource
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, speaker_of, verified_certificate
from agtphost.methods.discovery.visibility import Visibility
from agtphost.registry.bindings import card_bindings, connector, invocation_binding, server_bindings
from agtphost.registry.card import AgentCard
from agtphost.registry.card_fetcher import CardFetcher
from agtphost.registry.card_peers import CardPeers
from agtphost.registry.card_search import FindCards
from agtphost.registry.card_watch import CardWatch, LeaseWatch
from agtphost.registry.catalogue import Cards
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.generated import HostedCards
from agtphost.registry.leases import Leases
from agtphost.registry.listing import ShowCards
from agtphost.registry.maintenance import MaintenanceSettings
from agtphost.registry.providers import Providers, origin_of
from agtphost.registry.registered import RegisteredCards
from agtphost.registry.registration import ChangeCards
from agtphost.registry.remote_agents import RemoteAgentClient
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.scopes import missing


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The registered cards with their leases, and what maintains and serves them, which continue over a reload."""

    registered: RegisteredCards
    leases: Leases
    """Which agents of registered cards are alive."""

    lease_watch: LeaseWatch
    card_watch: CardWatch
    surface: ServedSurface | None
    """The registry over HTTP; None where it is not served."""

    def activate(self, terms: MaintenanceSettings, facts: RegistryFacts | None) -> None:
        """Apply the settings of a configuration that comes into force."""
        self.card_watch.maintenance.terms = terms
        if self.surface is not None and facts is not None:
            self.surface.resource.turn_to(facts)


@implementer(IFeature)
class RegistryFeature:
    """The feature of ``[registry]``."""

    settings_schema = None

    def check(self, settings: RegistrySection, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section."""
        return ()

    def build(self, settings: RegistrySection, services: Services, previous: Registry | None) -> Contribution:
        """
        Return the registry, which lives as long as the host, and its methods under this configuration.

        :raises agtphost.errors.ConfigurationError: a key or an authority cannot be used, or the configuration names an
            agent that this host does not know.
        """
        terms, facts = read_terms(settings, services), registry_facts(settings, services)
        if previous is None:
            made = _registry(services, terms, facts)
        else:
            made = previous
            made.registered.follow()
        peers = CardPeers(services.host.peers, services.config.host.server_id)
        cards, bindings = _cards(settings, services, made, terms, peers)
        own = {origin_of(each) for each in (settings.base, services.config.gateway.base) if each}
        elsewhere = RemoteAgentClient(connector(services, terms.providers, own), peers, cards.require_call)
        return Contribution(
            bindings=(*bindings, invocation_binding(cards, elsewhere), *server_bindings(services)),
            services=[made.lease_watch, made.card_watch, elsewhere],
            surfaces=[] if made.surface is None else [made.surface],
            activate=lambda: made.activate(terms, facts),
            carried=made,
        )


def _registry(services: Services, terms: MaintenanceSettings, facts: RegistryFacts | None) -> Registry:
    registered = RegisteredCards(services.state)
    leases = Leases(services.reactor, services.clock)
    registered.watch(leases.note_entry)
    surface = None
    if facts is not None:
        resource = RegistryResource(facts, services.host.dispatcher)
        surface = ServedSurface(name=REGISTRY, what="the registry", resource=resource)
    return Registry(
        registered=registered,
        leases=leases,
        lease_watch=LeaseWatch(leases, services.ledger),
        card_watch=CardWatch(services.reactor, registered, leases, terms, services.ledger, services.clock),
        surface=surface,
    )


def _cards(
    settings: RegistrySection, services: Services, made: Registry, terms: MaintenanceSettings, peers: CardPeers
) -> tuple[Cards, tuple[Binding, ...]]:
    """Return the cards under one configuration, and the bindings that list, search and change them."""
    config, table, directory = services.config, services.table, services.directory
    # A method that the policy excludes is in no list.
    adapters = table.adapters if table.policy.admits("EXECUTE") else ()
    shown = ShowCards(services.host.offload)
    hosted = HostedCards(
        directory,
        table.endpoints,
        adapters,
        Visibility.for_policies(config.policies, services.host.state_of, services.authorization),
        config.host.server_id,
        url=None if settings.url is None else f"{settings.url.rstrip('/')}{settings.path}",
        root=root_of(config),
        now=services.clock,
    )

    def scopes(url: str) -> tuple[str, ...]:
        return terms.providers.scopes(url, *peers.provider_names(url))

    cards = Cards(made.registered, made.leases, hosted, services.authorization, directory.by_id, shown, scopes=scopes)
    shown.cards = cards
    changing = ChangeCards(
        cards,
        services.authorization,
        directory.list_known,
        terms.endpoints,
        terms.fetch,
        terms.judge,
        [adapter.name for adapter in adapters],
        services.clock,
    )
    return cards, card_bindings(shown, FindCards(cards, table.search, logging=settings.log_queries), changing)


def read_terms(settings: RegistrySection, services: Services) -> MaintenanceSettings:
    """
    Return the settings by which registered cards are maintained.

    :raises ConfigurationError: a key or an authority of a provider cannot be used.
    """
    config = services.config
    try:
        providers = Providers(services.reactor, settings.provider)
    except (OSError, ValueError) as error:
        fault = ConfigFault(
            location=("registry", "provider"), message=f"has a ca that cannot be used: {explain(error)}"
        )
        raise ConfigurationError(problems_in(config.file, [fault])) from error
    where = EndpointChecker(development=config.host.development, allowed=providers.allowed_networks())
    keys = {each.origin: card_keys(each, config) for each in settings.provider if each.card_keys}

    def judge_card(card: AgentCard) -> str:
        return signature_of(card.document, keys.get(origin_of(card.endpoint), {}))

    def lets(owner: str, url: str) -> bool:
        needed = providers.scopes(url)
        agent = services.directory.by_id(owner) if owner and needed else None
        return not owner or not missing(frozenset() if agent is None else agent.scopes, needed)

    return MaintenanceSettings(
        is_in_force=lambda: services.host.config is config,
        fetch=CardFetcher(services.reactor, providers, where),
        judge=judge_card,
        endpoints=where,
        providers=providers,
        has_scopes=lets,
        refetch_seconds=settings.refetch_seconds,
        forget_days=settings.forget_days,
    )


def registry_facts(settings: RegistrySection, services: Services) -> RegistryFacts | None:
    """
    Return what the registry over HTTP needs to know, or None where it is not served.

    :raises ConfigurationError: the configuration names an agent that this host does not know.
    """
    if settings.listen is None:
        return None
    config, directory = services.config, services.directory
    speaker = speaker_of(config, directory, (REGISTRY, "agent"), settings.agent)
    trusts = bool(config.policies.oauth.issuer)
    hosted, reads = directory.list_hosted(), verified_certificate if asks_certificates(config, settings) else None
    return RegistryFacts(
        path=settings.path,
        url="" if settings.url is None else f"{settings.url.rstrip('/')}{settings.path}",
        certified=reads,
        clients=HttpClients(
            REGISTRY,
            agent_id=speaker if trusts else "",
            keyholders=keyholders(config, directory),
            certified=reads,
            principal=services.host.check_principal if speaker and trusts else None,
        ),
        agent=f"agent:{hosted[0].name}" if len(hosted) == 1 else "",
        title=config.host.server_id,
    )
