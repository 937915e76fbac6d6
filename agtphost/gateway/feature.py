"""The feature of ``[gateway]``: HTTP clients call endpoints and tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from zope.interface import implementer

from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.gateway import GatewaySection
from agtphost.config.presence import namespace_of
from agtphost.config.surfaces import GATEWAY, asks_certificates
from agtphost.features import Contribution, IBindingTable, IFeature, Services
from agtphost.gateway.gateway import GatewayFacts, GatewayResource
from agtphost.gateway.own_documents import own_documents
from agtphost.gateway.translation import TranslationRules
from agtphost.http.clients import HttpClients
from agtphost.http.request_heads import spell_text
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, speaker_of, verified_certificate
from agtphost.methods.discovery.openapi import http_methods_at

AGENTS = "/agents/"
"""The prefix of the paths of agents."""


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The gateway, which continues over a reload."""

    resource: GatewayResource
    facts: GatewayFacts
    """The settings under one configuration."""

    surface: ServedSurface


@implementer(IFeature)
class GatewayFeature:
    """The feature of ``[gateway]``, which is on where the section has ``listen``."""

    settings_schema = None

    def check(self, settings: GatewaySection, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section."""
        return ()

    def build(self, settings: GatewaySection, services: Services, previous: Gateway | None) -> Contribution:
        """
        Return the gateway, which lives as long as the host, and takes these settings when they come into force.

        :raises agtphost.errors.ConfigurationError: the configuration names an agent that this host does not know.
        """
        if settings.listen is None:
            return Contribution()
        facts = _facts(settings, services)
        if previous is None:
            resource = GatewayResource(facts, services.host.dispatcher, services.config.limits.body)
            surface = ServedSurface(
                name=GATEWAY,
                what="the HTTP gateway",
                resource=resource,
                # The viewer's page calls the endpoints that it shows.
                pages=True,
                fields=(("X-Content-Type-Options", "nosniff"),),
                cross_origin=resource.cross_origin,
            )
        else:
            resource, surface = previous.resource, previous.surface
        return Contribution(
            surfaces=[surface],
            activate=partial(resource.turn_to, facts),
            carried=Gateway(resource=resource, facts=facts, surface=surface),
        )


def _facts(given: GatewaySection, services: Services) -> GatewayFacts:
    config, directory, host, table = services.config, services.directory, services.host, services.table
    names = (namespace_of(config), config.host.server_id, config.manifest.domain, config.wellknown.domain)
    return GatewayFacts(
        clients=HttpClients(
            GATEWAY,
            agent_id=speaker_of(config, directory, ("gateway", "agent"), given.agent),
            keyholders=keyholders(config, directory),
            certified=verified_certificate if asks_certificates(config, given) else None,
            principal=host.check_principal if config.policies.oauth.issuer else None,
            anonymous=True,
        ),
        rules=TranslationRules(
            catalog=table.catalog,
            forward={spell_text(name): name for name in given.forward},
            namespaces=frozenset(name.lower() for name in names if name),
            aliases=table.policy.aliases,
            tools=host.tool_address,
            registered=table.methods_at,
            described=partial(_describe_path, table),
            longest_line=config.limits.request_line,
        ),
        stream=given.stream,
        own=own_documents(config, host.render_agis_summary, directory.list_hosted()),
    )


def _describe_path(table: IBindingTable, path: str) -> list[str]:
    """
    Return the HTTP methods by which the OpenAPI document describes a path, in lower case.

    Below the path of an agent are the endpoints of the host.
    """
    found = table.bindings_at(path)
    if not found and path.startswith(AGENTS):
        found = table.bindings_at("/" + path.removeprefix(AGENTS).partition("/")[2])
    listed = [each for each in found if not each.absent and table.policy.admits(each.method)]
    return http_methods_at(listed, table.policy.aliases, table.catalog)
