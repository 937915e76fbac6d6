"""From settings to a link: the one place that knows both transports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.adapters.mcp.environment import child_environment
from agtphost.adapters.mcp.links import Link, OpenLink, Receiver
from agtphost.adapters.mcp.stdio import StdioLink
from agtphost.adapters.mcp.streamable_http import HttpLink
from agtphost.adapters.mcp.token_source import TokenSource
from agtphost.config.upstreams import MCPServerSection
from agtphost.upstream.https import HTTPSClient, trust_of
from agtphost.upstream.log import UpstreamLog


def link_opener(reactor: Any, settings: MCPServerSection, environ: Mapping[str, str], log: UpstreamLog) -> OpenLink:
    """
    What opens links to a server.

    :param environ: the host's environment, of which a child process gets six names.
    """
    url = settings.url
    if url is not None:
        headers = settings.opened_headers()
        bearer: TokenSource | None = None
        if settings.oauth is not None:
            client = HTTPSClient(reactor, trust_of(settings.ca), addresses=None, connections=1)
            bearer = TokenSource(reactor, client.agent, settings.oauth, log)

        def http(receiver: Receiver) -> Link:
            client = HTTPSClient(reactor, trust_of(settings.ca), addresses=None, connections=settings.max_concurrency)
            return HttpLink(reactor, receiver, client.agent, client.pool, url, headers, log, bearer)

        return http

    environment = child_environment(environ, settings.opened_env())
    command = settings.command or ()

    def stdio(receiver: Receiver) -> Link:
        patience = settings.timeout if settings.input_timeout is None else settings.input_timeout
        return StdioLink(reactor, receiver, command, environment, str(settings.cwd), log, patience)

    return stdio
