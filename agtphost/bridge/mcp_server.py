"""The official SDK's server, with the host behind every handler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from pydantic import ConfigDict

from agtphost import __version__
from agtphost.bridge.changes import Changes
from agtphost.bridge.clients import TASKS, Clients
from agtphost.bridge.host_link import HostLink
from agtphost.bridge.relay import Relay
from agtphost.bridge.subscriptions import Subscriptions
from agtphost.client.mcp.endpoints import Endpoints

_SOON = CacheHint(ttl_ms=5_000, scope="private")
"""Lists depend on who asks, and changes of them are told; a few seconds save repeated reads."""

_NEVER = CacheHint(ttl_ms=0, scope="private")


class TaskParams(types.RequestParams):
    """Parameters of ``tasks/*``, which go to the host as they are."""

    model_config = ConfigDict(extra="allow")


class HostServer(Server[Any]):
    """The SDK's server, which tells clients of the handshake era that it announces changes of lists."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What ``initialize`` answers; extensions are of the later era."""
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changing, experimental_capabilities, {})


def build_server(
    link: HostLink, *, server: str | None = None, endpoints: bool = True, search: bool = False
) -> HostServer:
    """
    An MCP server that is the host.

    :param link: the way to the host.
    :param server: the only server that is shown, by its own names; None: all.
    :param endpoints: whether the host's own endpoints are shown as tools, where all servers are.
    :param search: whether two tools are shown in place of all of them.
    """
    clients = Clients()
    own = Endpoints(link) if endpoints and server is None else None
    relay = Relay(link, clients, server=server, endpoints=own, search=search)
    changes = Changes(link, relay.view.addresses)
    subscriptions = Subscriptions(changes, clients)

    @asynccontextmanager
    async def life(_: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            yield {}
        finally:
            changes.end()
            await relay.settle()

    built = HostServer(
        "agtphost" if server is None else server,
        version=__version__,
        title="AGTP host" if server is None else f"{server}, through AGTP",
        description="Tools, resources and prompts of an AGTP host. Every call is checked and recorded there.",
        cache_hints={
            "tools/list": _SOON,
            "prompts/list": _SOON,
            "resources/list": _SOON,
            "resources/templates/list": _SOON,
            "resources/read": _NEVER,
        },
        lifespan=life,
        get_tool_input_schema=relay.input_schema,
        on_subscribe_resource=subscriptions.subscribe,
        on_unsubscribe_resource=subscriptions.unsubscribe,
        on_subscriptions_listen=subscriptions.listen,
    )
    built.add_request_handler("tools/list", types.PaginatedRequestParams, relay.list_tools)
    built.add_request_handler("tools/call", types.CallToolRequestParams, relay.call_tool)
    built.add_request_handler("resources/list", types.PaginatedRequestParams, relay.list_resources)
    built.add_request_handler("resources/templates/list", types.PaginatedRequestParams, relay.list_templates)
    built.add_request_handler("resources/read", types.ReadResourceRequestParams, relay.read_resource)
    built.add_request_handler("prompts/list", types.PaginatedRequestParams, relay.list_prompts)
    built.add_request_handler("prompts/get", types.GetPromptRequestParams, relay.get_prompt)
    built.add_request_handler("completion/complete", types.CompleteRequestParams, relay.complete)
    built.add_request_handler("logging/setLevel", types.SetLevelRequestParams, relay.set_level)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        built.add_request_handler(method, TaskParams, relay.task)
    built.extensions = {TASKS: {}}
    built.add_notification_handler("notifications/initialized", types.NotificationParams, subscriptions.greet)
    return built
