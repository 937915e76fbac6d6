"""The feature of ``[admin]``: the operators' page, its methods, and the INSPECT targets that only it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from zope.interface import implementer

from agtphost.audit.export import ExportWriter
from agtphost.audit.ledger_watch import LedgerWatch
from agtphost.config import Config
from agtphost.config.admin import Admin
from agtphost.config.faults import ConfigFault
from agtphost.config.reloadable_keys import RESTART, WHOLE
from agtphost.config.surfaces import ADMIN
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import PAGE
from agtphost.features import Contribution, IFeature, Services
from agtphost.handlers.built_in import Target
from agtphost.http.served_surface import ServedSurface
from agtphost.identity.key_history import every_key, statements_of
from agtphost.identity.peer import Assurance
from agtphost.methods.inspection.latencies import Latencies, LatencyTarget
from agtphost.methods.inspection.operator_targets import Overseen
from agtphost.page.access import PageAccess
from agtphost.page.browser_certificates import BrowserCertificates
from agtphost.page.entrance import Entrance, PageSession
from agtphost.page.evidence import EvidenceKeys
from agtphost.page.fields import COMMON_FIELDS
from agtphost.page.live_feed import LiveFeeds
from agtphost.page.record_export import Exports
from agtphost.page.resource import PageResource
from agtphost.vocabulary.tomltext import write_toml

STATEMENTS = {
    ("AUTHORIZE", "/page"): "A link to the operators' page, good once and for a minute.",
    ("QUERY", "/page"): "Rights of the caller on the operators' page.",
    ("SUSPEND", "/page/calls/{response_id}"): "End a waiting call; for operators.",
    ("RESUME", "/page/upstreams/{upstream}"): "Restart a server behind this host; for operators.",
    ("REVOKE", "/page/sessions"): "End all sessions of the operators' page, and its unused links; for administrators.",
    ("QUERY", "/page/feed"): "Record that a live feed of the operators' page begins or ends.",
}


@dataclass(frozen=True, kw_only=True)
class OperatorsPage:
    """The page with its sessions, feeds and latencies, which continue over a reload."""

    entrance: Entrance
    feeds: LiveFeeds
    latencies: Latencies
    watches: tuple[LedgerWatch, ...]
    surface: ServedSurface


@implementer(IFeature)
class PageFeature:
    """The feature of ``[admin]``, which is on where the section has ``listen``."""

    settings_schema = None

    def check(self, settings: Admin, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section."""
        return ()

    def build(self, settings: Admin, services: Services, previous: OperatorsPage | None) -> Contribution:
        """Return the page, which lives as long as the host, and its methods and targets under this configuration."""
        if settings.listen is None:
            return Contribution()
        made = previous or _page(settings, services)
        access = PageAccess(services, settings, made.entrance)
        return Contribution(
            # People are known by their certificate's key and are not agents.
            bindings=[
                Binding.native(
                    *place, access, STATEMENTS[place], Assurance.NONE, changes=place[0] != "QUERY", server_level=True
                )
                for place in PAGE
            ],
            inspect_targets=_targets(services, made.latencies),
            services=made.watches,
            surfaces=[made.surface],
            # Who may see the page is decided anew: browsers ask for their feeds again.
            activate=made.feeds.end_all,
            carried=made,
        )


def _targets(services: Services, latencies: Latencies) -> Mapping[str, Target]:
    """Return the INSPECT targets of the page: calls by the minute, latencies, and the configuration."""
    authorization = services.authorization
    configuration = partial(mask_configuration, services.config)
    return {
        "traffic": Overseen(services.host.render_traffic, authorization, "Only operators may see traffic.").read,
        "latency": LatencyTarget(latencies, authorization, services.clock).read,
        "configuration": Overseen(configuration, authorization, "Only operators may see the configuration.").read,
    }


def mask_configuration(config: Config) -> Mapping[str, Any]:
    """Return every section with content, as TOML, with secrets masked."""
    shown = config.model_dump(mode="python", exclude_unset=True)
    sections = []
    for name, value in shown.items():
        plain = _plain(value)
        if plain not in (None, {}, []):
            sections.append({"name": name, "toml": write_toml({name: plain}), "restart": _restart_keys(name, plain)})
    return {"file": str(config.file), "sections": sections}


def _restart_keys(name: str, value: Any) -> list[str]:
    """Return the keys of a section whose changes need a restart: ``*`` for all, otherwise those that it has."""
    keys = RESTART.get(name, frozenset())
    if keys == WHOLE:
        return sorted(WHOLE)
    return sorted(key for key in value if key in keys) if isinstance(value, Mapping) else []


def _plain(value: Any) -> Any:
    """Return a value as TOML types: secrets as ``***``, paths as strings."""
    if isinstance(value, Mapping):
        return {str(key): plain for key, each in value.items() if (plain := _plain(each)) is not None}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _page(settings: Admin, services: Services) -> OperatorsPage:
    host, key, ledger = services.host, services.key, services.ledger
    entrance = Entrance(settings.base, settings.idle, services.reactor.seconds)
    keys = EvidenceKeys(
        own=lambda: () if key is None else (key.public,),
        links=partial(statements_of, key),
        witnesses=host.witness_keys,
    )

    def begin(whole: bool) -> ExportWriter:
        # The present key; a key that replaces it is proven by a statement in the next file.
        known = () if key is None else tuple((each.kid, each) for each in every_key(key))
        return ExportWriter(services.config.host.server_id, known, statements_of(key), whole=whole)

    def counts(session: PageSession) -> bool:
        return entrance.is_open(session) and host.is_valid(session.certificate)

    latencies, feeds = Latencies(services.clock), LiveFeeds(services.reactor, counts)
    entrance.when_all_end = feeds.end_all
    browsers = BrowserCertificates(lambda: host.config.admin.browsers)
    resource = PageResource(
        entrance,
        host.dispatcher,
        keys,
        feeds,
        Exports(begin),
        browsers,
        operator_names=lambda: [each.name for each in host.config.operator],
    )
    return OperatorsPage(
        entrance=entrance,
        feeds=feeds,
        latencies=latencies,
        watches=(LedgerWatch("latencies", ledger, latencies.saw), LedgerWatch("feeds of the page", ledger, feeds.saw)),
        surface=ServedSurface(
            name=ADMIN,
            what="the operators' page",
            resource=resource,
            pages=True,
            fields=COMMON_FIELDS,
            end_streams=feeds.end_all,
        ),
    )
