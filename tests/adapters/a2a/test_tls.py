"""Agents over HTTPS: only the configured authorities are believed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.adapters.a2a import A2AAgent
from agtphost.adapters.a2a.card import PATH
from agtphost.config.web_upstreams import A2AAgentSection
from agtphost.http.static_pages import PageTable, StaticPage
from agtphost.http.tls import TlsCreator, https_options
from agtphost.upstream.supervision import UpstreamState
from tests.adapters.a2a.test_hostile import card
from tests.adapters.mcp.hosting import until
from tests.adapters.peers import kept
from tests.client.credentials import Credentials, create
from tests.http.mounted import service_of


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return create(tmp_path_factory.mktemp("credentials"))


@asynccontextmanager
async def served(credentials: Credentials) -> AsyncIterator[int]:
    """A card over HTTPS, at ``localhost``."""
    options = https_options(credentials.server.cert, credentials.server.key)
    pages = PageTable({})
    service = service_of(pages, "ssl:0:interface=127.0.0.1", TlsCreator(options))
    service.startService()
    try:
        await until(lambda: service.port)
        interface = {
            "url": f"https://localhost:{service.port}/rpc",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        body = json.dumps(card(0, supportedInterfaces=[interface])).encode()
        pages._pages[PATH.encode()] = StaticPage(body=body)
        yield service.port
    finally:
        await service.stopService()


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[A2AAgent]:
    """An agent that is being prepared."""
    agent = A2AAgent(reactor, A2AAgentSection(name="x", url=url, scopes=("a:b",), start_timeout=3.0, **settings))
    async with kept(agent, wait=False):
        yield agent


@pytest_twisted.ensureDeferred
async def test_the_configured_authority_is_believed(credentials: Credentials) -> None:
    """With its authority configured, the agent comes up over HTTPS."""
    async with (
        served(credentials) as port,
        connected(f"https://localhost:{port}", ca=str(credentials.trust)) as agent,
    ):
        await until(lambda: agent.state is UpstreamState.UP, 5.0, str(agent.snapshot()))


@pytest_twisted.ensureDeferred
async def test_another_authority_is_not(credentials: Credentials, tmp_path: Path) -> None:
    """T-UP: the platform's authorities do not know it, and another authority does not either."""
    other = create(tmp_path)
    async with served(credentials) as port:
        for ca in (None, str(other.trust)):
            async with connected(f"https://localhost:{port}", ca=ca) as agent:
                service = agent
                await until(
                    lambda service=service: service.state is UpstreamState.BACKOFF, 6.0, str(service.snapshot())
                )
                assert agent.card is None
