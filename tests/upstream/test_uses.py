"""Every use of HTTPS says which addresses it may reach: what a foreign text named is not in the operator's network."""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread

from agtphost.client import blocking_https
from agtphost.client.bootstrap import ASK_DOMAINS, BootstrapPolicy, HTTPAnswer
from agtphost.client.bootstrap_fetch import BootstrapFetcher
from agtphost.client.tls import TLSSettings
from agtphost.http.fetch import Fetcher, FetchError
from agtphost.upstream.external_http import Upstream
from agtphost.upstream.failures import UpstreamLost
from agtphost.upstream.https import trust_of
from agtphost.vocabulary.addresses import AddressPolicy
from tests.handlers.upstreams import answer, says
from tests.upstream.test_https import serving

ROOT = Path(__file__).resolve().parents[2] / "agtphost"

USES = {
    ("cluster/pod_label.py", "None"): "the environment of the pod: the API server of its cluster",
    ("upstream/external_http.py", "policy"): "an endpoint's file or an OpenAPI document; allow_addresses",
    ("client/bootstrap_fetch.py", "policy.addresses"): "whoever wrote the URI",
    ("client/blocking_https.py", "policy.addresses"): "whoever wrote the URI",
    ("client/blocking_https.py", "addresses"): "whoever calls `get`, each of whom is in this table",
    ("http/fetch.py", "foreign or AddressPolicy()"): "a discovery document",
    ("http/fetch.py", "None"): "the operator: discovery and key sets of the configuration",
    ("adapters/mcp/server.py", "None"): "the operator: url and token_url of an MCP server",
    ("upstream/web_upstream.py", "None"): "the operator: an A2A agent, whose card stays in its origin; an ACP server",
    ("cli/catalog/pins.py", "None"): "the user: agtp catalog fetch",
    ("cli/registry/foreign.py", "None"): "the user: agtp registry --registry URL, and --direct",
    ("registry/providers.py", "addresses"): "a card, within the origin of a provider; its allow_addresses",
    ("registry/providers.py", "AddressPolicy()"): "whoever registers a card by its URL",
    ("search/remote.py", "policy"): "the operator: url of the embedder, by allow_addresses",
}
"""
Module and policy of each use, and who names the address.

Agents push to the URLs that ``push_origins`` admit themselves: this host calls none. Witnesses are asked over AGTP.
"""


def uses(source: str) -> list[str | None]:
    """The policies that a module makes its clients with; None for one that says none."""
    found: list[str | None] = []
    if re.search(r"HTTPSClient|\bmost\s*=", source) is None:
        return found  # Most need not be parsed.
    for node in ast.walk(ast.parse(source)):
        name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        fetches = (
            isinstance(node, ast.Call) and any(word.arg == "most" for word in node.keywords) and name in ("get", "ask")
        )
        if isinstance(node, ast.Call) and (name == "HTTPSClient" or fetches):
            found.append(next((ast.unparse(word.value) for word in node.keywords if word.arg == "addresses"), None))
    return found


def test_every_use_is_in_the_table() -> None:
    """None without a word on addresses, and none that nobody thought of; the control is one that says nothing."""
    found = {(str(path.relative_to(ROOT)), policy) for path in ROOT.rglob("*.py") for policy in uses(path.read_text())}
    assert found == set(USES)
    assert uses("HTTPSClient(reactor, trust)\nblocking_https.get(url, most=1)") == [None, None]


LOCAL = AddressPolicy([ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")])
Use = Callable[[Path, int, AddressPolicy | None], Awaitable[Any]]
"""Authorities, the port of a server on loopback, and the policy; None: what is usual."""


async def endpoint(ca: Path, port: int, allowed: AddressPolicy | None) -> bytes:
    """The address of an endpoint's upstream."""
    resolver = reactor.nameResolver  # type: ignore[attr-defined]
    upstream = Upstream(reactor, resolver, allowed or AddressPolicy(), trust_of(ca), "GET", 1000)
    return (await upstream.exchange(f"https://localhost:{port}/", {}, None, 5.0)).body


async def twisted_bootstrap(ca: Path, port: int, allowed: AddressPolicy | None) -> bytes:
    """The domain of a URI, with the Twisted client."""
    policy = BootstrapPolicy(port=port, addresses=allowed or ASK_DOMAINS.addresses)
    return said(await BootstrapFetcher(reactor, TLSSettings(trust=ca), policy).ask("localhost"))


async def blocking_bootstrap(ca: Path, port: int, allowed: AddressPolicy | None) -> bytes:
    """The same, with the blocking client."""
    policy = BootstrapPolicy(port=port, addresses=allowed or ASK_DOMAINS.addresses)
    return said(await deferToThread(blocking_https.bootstrap, "localhost", TLSSettings(trust=ca), policy))


def said(answer: HTTPAnswer | str) -> bytes:
    if isinstance(answer, str):
        raise FetchError(answer)
    return answer.body


class Discovered(Fetcher):
    """Fetches; the discovery document is at hand."""

    port = 0

    def __call__(self, url: str) -> Deferred[bytes]:
        return succeed(b'{"issuer": "https://issuer.example", "jwks_uri": "https://localhost:%d/"}' % self.port)


async def foreign_keys(ca: Path, port: int, allowed: AddressPolicy | None) -> bytes:
    """Keys that a discovery document names, outside its own origin."""
    fetch = Discovered(reactor, ca, allowed)
    fetch.port = port
    return await fetch.key_set("https://issuer.example/.well-known/openid-configuration", "https://issuer.example")


@pytest.mark.parametrize("use", [endpoint, twisted_bootstrap, blocking_bootstrap, foreign_keys])
@pytest_twisted.ensureDeferred
async def test_a_foreign_text_reaches_no_address_of_the_operator(use: Use, tmp_path: Path) -> None:
    """A name that is loopback's is not connected to (control: where that is allowed, it is, and answers)."""
    async with serving(says(answer(200, b"{}"))) as (authority, server):
        ca = tmp_path / "ca.pem"
        ca.write_bytes(authority.root.pem())
        with pytest.raises((UpstreamLost, FetchError), match="must not be connected to"):
            await use(ca, server.number, None)
        assert server.connections == 0
        assert await use(ca, server.number, LOCAL) == b"{}"
        assert server.connections == 1


@pytest_twisted.ensureDeferred
async def test_keys_in_the_origin_of_their_discovery_may_be_anywhere(tmp_path: Path) -> None:
    """The operator named that origin; here it is loopback's."""
    async with serving(says(answer(200, b"{}"))) as (authority, server):
        (tmp_path / "ca.pem").write_bytes(authority.root.pem())
        fetch = Discovered(reactor, tmp_path / "ca.pem")
        fetch.port = server.number
        discovery = f"https://localhost:{server.number}/.well-known/openid-configuration"
        fetching = fetch.key_set(discovery, "https://issuer.example")
        assert isinstance(await fetching, bytes)
        assert server.connections == 1
