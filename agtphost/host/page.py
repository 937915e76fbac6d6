"""Build the operators' page of ``[admin]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agtphost.audit.export import ExportWriter
from agtphost.config import Config
from agtphost.config.reloadable_keys import RESTART, WHOLE
from agtphost.config.surfaces import ADMIN
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import PAGE
from agtphost.host.features import FeatureSet
from agtphost.host.services import HostServices
from agtphost.http.served_surface import ServedSurface
from agtphost.iagtp import IDispatcher
from agtphost.identity.key_history import every_key, statements_of
from agtphost.identity.peer import Assurance
from agtphost.methods.inspection.latencies import LatencyTarget
from agtphost.methods.inspection.operator_targets import Overseen
from agtphost.methods.page import PageAccess
from agtphost.page.browser_certificates import BrowserCertificates
from agtphost.page.entrance import LINK_SECONDS, PageSession
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


def page_access(services: HostServices) -> PageAccess | None:
    """Return the methods about the page, or None without a page."""
    entrance = services.lasting.entrance
    if entrance is None:
        return None
    writes = services.config.admin.writes
    known = services.loaded.directory.list_known
    replies = "REPLY" in services.config.methods.names
    access = PageAccess(
        services.authorization,
        known,
        entrance.issue_link,
        LINK_SECONDS,
        writes=writes,
        replies=replies,
        now=services.seconds,
    )
    access.end_sessions_by(entrance.end_all)
    return access


def page_bindings(
    handler: PageAccess | None,
) -> tuple[Binding, ...]:
    """Return the bindings of the methods about the page; empty without a page."""
    if handler is None:
        return ()
    return tuple(
        # People are known by their certificate's key and are not agents.
        Binding.native(
            *place, handler, STATEMENTS[place], Assurance.NONE, changes=place[0] != "QUERY", server_level=True
        )
        for place in PAGE
    )


def register_targets(services: HostServices) -> None:
    """Register the INSPECT targets of the page: calls by the minute, and the configuration."""
    if services.config.admin.listen is None:
        return
    services.registry.add_targets(
        {
            "traffic": Overseen(
                services.lasting.traffic.to_json, services.authorization, "Only operators may see traffic."
            ).read,
            "latency": LatencyTarget(services.lasting.latencies, services.authorization, services.seconds).read,
            "configuration": Overseen(
                partial(mask_configuration, services.config),
                services.authorization,
                "Only operators may see the configuration.",
            ).read,
        }
    )


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


def build_page_surface(
    services: HostServices, dispatcher: IDispatcher, present: Callable[[], Config], features: Callable[[], FeatureSet]
) -> ServedSurface | None:
    """
    Return the surface of ``[admin]``, or None if it is not served.

    :param present: returns the configuration in force.
    :param features: returns its features.
    """
    entrance = services.lasting.entrance
    if entrance is None:
        return None
    key = services.loaded.key
    keys = EvidenceKeys(
        own=lambda: () if key is None else (key.public,),
        links=partial(statements_of, key),
        witnesses=lambda: features().witness_keys(),
    )

    def begin(whole: bool) -> ExportWriter:
        # The present key; a key that replaces it is proven by a statement in the next file.
        known = () if key is None else tuple((each.kid, each) for each in every_key(key))
        return ExportWriter(services.config.host.server_id, known, statements_of(key), whole=whole)

    def counts(session: PageSession) -> bool:
        return entrance.is_open(session) and services.certificate_counts(session.certificate)

    feeds = LiveFeeds(services.reactor, counts)
    services.evidence.ledger.watch(feeds.saw)
    entrance.when_all_end = feeds.end_all
    browsers = BrowserCertificates(lambda: present().admin.browsers)
    resource = PageResource(entrance, dispatcher, keys, feeds, Exports(begin), browsers)
    return ServedSurface(
        name=ADMIN,
        what="the operators' page",
        resource=resource,
        pages=True,
        fields=COMMON_FIELDS,
        end_streams=feeds.end_all,
    )
