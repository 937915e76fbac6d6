"""Build the HTTP gateway of ``[gateway]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from agtphost.adapters.mcp.bindings import tool_address
from agtphost.config import Config
from agtphost.config.presence import namespace_of
from agtphost.config.surfaces import GATEWAY, asks_certificates
from agtphost.contract.endpoint_table import EndpointTable
from agtphost.gateway.gateway import GatewayFacts, GatewayResource, OwnDocument
from agtphost.gateway.tool_calls import AddressFinder, tool_addresses
from agtphost.gateway.translation import TranslationRules
from agtphost.host.host_loader import LoadedHost
from agtphost.http.clients import HttpClients
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, principal_check, speaker_of, verified_certificate
from agtphost.iagtp import IDispatcher, IGate, IToolAddresses
from agtphost.methods.discovery.openapi import http_methods_at

AGENTS = "/agents/"
"""The prefix of the paths of agents."""


def gateway_facts(
    config: Config,
    loaded: LoadedHost,
    oauth: IGate | None,
    own: Mapping[str, OwnDocument],
    adapters: Iterable[IToolAddresses],
    table: EndpointTable,
) -> GatewayFacts | None:
    """
    Return what the gateway needs to know under a configuration, or None without a gateway.

    :param oauth: the gate that checks tokens of identity providers; None where none are trusted.
    :param own: the documents that it answers itself, by path.
    :param adapters: give the addresses of hosted tools.
    :param table: everything that is bound to a path.
    :raises agtphost.errors.ConfigurationError: the configuration names an agent that this host does not know.
    """
    given = config.gateway
    if given.listen is None:
        return None
    return GatewayFacts(
        clients=HttpClients(
            GATEWAY,
            agent_id=speaker_of(config, loaded.directory, ("gateway", "agent"), given.agent),
            keyholders=keyholders(config, loaded.directory),
            certified=verified_certificate if asks_certificates(config, config.gateway) else None,
            principal=None if oauth is None else principal_check(oauth),
            anonymous=True,
        ),
        rules=_rules(config, loaded, tool_addresses(adapters, tool_address), table),
        stream=given.stream,
        own=own,
    )


def _rules(config: Config, loaded: LoadedHost, tools: AddressFinder, table: EndpointTable) -> TranslationRules:
    names = (namespace_of(config), config.host.server_id, config.manifest.domain, config.wellknown.domain)
    return TranslationRules(
        catalog=loaded.catalog,
        forward={name.encode("ascii"): name for name in config.gateway.forward},
        namespaces=frozenset(name.lower() for name in names if name),
        aliases=loaded.policy.aliases,
        tools=tools,
        registered=table.methods_at,
        described=partial(_describe_path, table, loaded),
        longest_line=config.limits.request_line,
    )


def _describe_path(table: EndpointTable, loaded: LoadedHost, path: str) -> list[str]:
    """
    Return the HTTP methods by which the OpenAPI document describes a path, in lower case.

    Below the path of an agent are the endpoints of the host.
    """
    found = table.bindings_at(path)
    if not found and path.startswith(AGENTS):
        found = table.bindings_at("/" + path.removeprefix(AGENTS).partition("/")[2])
    listed = [each for each in found if not each.absent and loaded.policy.admits(each.method)]
    return http_methods_at(listed, loaded.policy.aliases, loaded.catalog)


def build_gateway(facts: GatewayFacts, dispatcher: IDispatcher, config: Config) -> GatewayResource:
    """
    Return the HTTP resource that serves ``[gateway]``.

    :param facts: those at the start; :meth:`GatewayResource.turn_to` replaces them.
    """
    return GatewayResource(facts, dispatcher, config.limits.body)


def build_surface(resource: GatewayResource) -> ServedSurface:
    """Return the surface of ``[gateway]``."""
    return ServedSurface(
        name=GATEWAY,
        what="the HTTP gateway",
        resource=resource,
        # The viewer's page calls the endpoints that it shows.
        pages=True,
        fields=(("X-Content-Type-Options", "nosniff"),),
        cross_origin=resource.cross_origin,
    )
