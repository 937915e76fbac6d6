"""Streams that end early are read on, what servers say by themselves is heard, and tokens are fetched."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_twisted

from agtphost.adapters.mcp import McpServer, UpstreamState, streamable_http
from agtphost.adapters.mcp.subscribers import Subscriber
from agtphost.config.secret import Secret
from agtphost.config.upstreams import OAuthClient
from agtphost.upstream.failures import UpstreamLost, UpstreamRefused
from tests.adapters.mcp.hosting import hosted, pause, until
from tests.adapters.mcp.servers.streaming import Endpoint, TokenEndpoint, listen


@asynccontextmanager
async def streaming(**settings: Any) -> AsyncIterator[tuple[Endpoint, McpServer]]:
    """The server, and the host of it."""
    endpoint = Endpoint()
    port = listen(endpoint)
    try:
        url = f"http://127.0.0.1:{port.getHost().port}/mcp"
        async with hosted(url=url, protocol="2025-11-25", **settings) as server:
            yield endpoint, server
    finally:
        await port.stopListening()


@pytest.mark.parametrize("tool", ["cut", "torn"])
@pytest_twisted.ensureDeferred
async def test_a_stream_that_ends_early_is_resumed(tool: str) -> None:
    """2025-11-25 transports: GET with Last-Event-ID after the server's retry time; the call is sent once."""
    async with streaming() as (endpoint, server):
        result = await server.call_tool(tool, {}, {}, 10)
        assert result["content"][0]["text"] == "resumed"
        assert endpoint.calls == [tool]
        assert len(endpoint.resumed) == 1
        assert endpoint.resumed[0].startswith(tool)


@pytest_twisted.ensureDeferred
async def test_a_stream_that_cannot_be_resumed_fails_its_call() -> None:
    """The control: where the server refuses to go on, the call has no result, and is not sent again."""
    async with streaming() as (endpoint, server):
        with pytest.raises(UpstreamLost):
            await server.call_tool("deaf", {}, {}, 10)
        assert endpoint.calls == ["deaf"]
        assert (await server.call_tool("plain", {}, {}, 10))["content"]


@pytest_twisted.ensureDeferred
async def test_what_a_server_says_by_itself_is_heard() -> None:
    """The stream of GET brings updates of resources to who subscribed."""
    async with streaming() as (endpoint, server):
        await until(lambda: endpoint.standing is not None)
        heard: list[Any] = []
        uris = frozenset({"test://x"})
        subscriber = Subscriber(frozenset(), uris, lambda method, params: heard.append(params["uri"]))
        server.events.add(subscriber)
        await server.call_tool("notify", {}, {}, 10)
        await until(lambda: heard)
        assert heard == ["test://x"]
        server.events.remove(subscriber)


@asynccontextmanager
async def guarded(lifetime: float = 300.0) -> AsyncIterator[tuple[Endpoint, TokenEndpoint, McpServer]]:
    """A server that is called with tokens."""
    tokens = TokenEndpoint(lifetime)
    port = listen(tokens)
    credentials = OAuthClient(
        token_url=f"http://127.0.0.1:{port.getHost().port}/token",
        client_id="host",
        client_secret=Secret("s3cret:%"),
        scope="mcp",
        resource="https://mcp.example/",
    )
    try:
        async with streaming(oauth=credentials) as (endpoint, server):
            yield endpoint, tokens, server
    finally:
        await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_token_is_fetched_once_and_shown_to_the_server() -> None:
    """RFC 6749 section 4.4, T-MC-110: the configured endpoint alone is asked, and one token serves all calls."""
    async with guarded() as (endpoint, tokens, server):
        for _ in range(5):
            await server.call_tool("plain", {}, {}, 10)
        assert tokens.forms == [
            {"grant_type": "client_credentials", "scope": "mcp", "resource": "https://mcp.example/"}
        ]
        assert base64.b64decode(tokens.basic[0].removeprefix("Basic ")) == b"host:s3cret%3A%25"
        assert set(endpoint.tokens) == {"token-1"}
        assert "token-1" not in str(server.snapshot())
        assert "s3cret" not in repr(server.settings)


@pytest_twisted.ensureDeferred
async def test_a_token_is_renewed_before_it_expires_and_after_a_refusal() -> None:
    """Renewal happens off the path; a token that the server refuses is replaced for the next call."""
    async with guarded(lifetime=1.0) as (endpoint, tokens, server):
        await server.call_tool("plain", {}, {}, 10)
        await until(lambda: len(tokens.forms) >= 2, 20)
        # The answer may still be on its way: until it is there, the token that is valid goes on.
        for _ in range(200):
            await server.call_tool("plain", {}, {}, 10)
            if endpoint.tokens[-1] != "token-1":
                break
        assert endpoint.tokens[-1] in {f"token-{number}" for number in range(2, len(tokens.forms) + 1)}
    async with guarded() as (endpoint, tokens, server):
        endpoint.refuse.add("token-1")
        with pytest.raises(UpstreamRefused):
            await server.call_tool("plain", {}, {}, 10)
        await server.call_tool("plain", {}, {}, 10)
        assert endpoint.tokens[-1] == "token-2"


@pytest_twisted.ensureDeferred
async def test_without_a_token_nothing_is_sent() -> None:
    """A token endpoint that gives none keeps the server down, with the reason; it never sees a request."""
    endpoint, tokens = Endpoint(), TokenEndpoint(300)
    tokens.broken = True
    ports = listen(endpoint), listen(tokens)
    credentials = OAuthClient(
        token_url=f"http://127.0.0.1:{ports[1].getHost().port}/token", client_id="h", client_secret=Secret("secret-1")
    )
    try:
        url = f"http://127.0.0.1:{ports[0].getHost().port}/mcp"
        async with hosted(url=url, oauth=credentials, wait=False) as server:
            await until(lambda: server.state is UpstreamState.BACKOFF)
            assert "token endpoint" in server.snapshot().reason
            assert endpoint.tokens == []
            await pause(0)
    finally:
        for port in ports:
            await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_the_servers_own_stream_is_open_before_the_first_call() -> None:
    """What a server asks there in the course of the first call would be lost otherwise."""
    async with streaming() as (endpoint, server):
        # Its tools were listed, so a call was made.
        assert server.state is UpstreamState.UP
        assert endpoint.order[:2] == ["GET", "tools/list"]


@pytest_twisted.ensureDeferred
async def test_control_a_call_that_does_not_wait_overtakes_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order above is not there by itself."""
    monkeypatch.setattr(streamable_http, "OPEN_SECONDS", 0)
    async with streaming() as (endpoint, _):
        await until(lambda: "GET" in endpoint.order)
        assert endpoint.order[0] == "tools/list"
