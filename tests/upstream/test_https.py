"""The one HTTPS client: whom it trusts, how much it reads, where it connects to; and that nobody else makes one."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.web.http_headers import Headers

from agtphost.http.fetch import MAX_OCTETS, Fetcher, FetchError
from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.https import HTTPSClient, read, trust_of, trust_only
from agtphost.upstream.octet_limit import MOST_HEAD
from agtphost.vocabulary.addresses import AddressPolicy
from tests.handlers.upstreams import Authority, Names, Script, Server, answer, says
from tests.protocols.authorities import issue

ROOT = Path(__file__).resolve().parents[2] / "agtphost"
MAKERS = {"Agent", "BrowserLikePolicyForHTTPS", "platformTrust", "trustRootFromCertificates"}


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[tuple[Authority, Server]]:
    """A server on loopback, and the authority that it has its certificate of."""
    authority = Authority()
    server = authority.server(reactor, script)
    try:
        yield authority, server
    finally:
        await maybeDeferred(server.port.stopListening)


def endless(heard: Any, transport: Any) -> None:
    """A head without an end, as much of it as the client takes."""
    transport.write(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: y\r\n" * (2 * MOST_HEAD // 13))


def unmeasured(heard: Any, transport: Any) -> None:
    """An answer without a length, which a closed connection ends."""
    transport.write(b"HTTP/1.1 200 OK\r\n\r\n{")
    transport.loseConnection()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (says(answer(200, b"x" * (MAX_OCTETS + 1))), "fetched: the answer is longer than 1048576"),
        (unmeasured, "fetched: the answer has no length"),
        (endless, "fetched: the request failed"),
        (says(answer(302, b"", "Location: https://elsewhere.example/")), "answered HTTP 302, not 200"),
    ],
    ids=["too long", "no length", "endless head", "redirect"],
)
@pytest_twisted.ensureDeferred
async def test_a_document_is_bounded(script: Script, why: str, tmp_path: Path) -> None:
    """What an operator has fetched ends in a reason: its head is bounded too, and a cut one is not believed."""
    async with serving(script) as (authority, server):
        (tmp_path / "ca.pem").write_bytes(authority.root.pem())
        fetch = Fetcher(reactor, tmp_path / "ca.pem")
        with pytest.raises(FetchError, match=why):
            await fetch(f"https://localhost:{server.number}/")
        assert len(server.heard) == 1


@pytest_twisted.ensureDeferred
async def test_only_the_named_authorities_are_trusted() -> None:
    """The certificates of the file, all of them, and no other."""
    async with serving(says(answer(200, {"a": 1}))) as (authority, server):
        other = Authority()
        other.root = issue(name="another root", authority=True)
        both = trust_only(other.root.pem() + authority.root.pem())
        url = f"https://localhost:{server.number}/"
        response = await HTTPSClient(reactor, both, addresses=None).request("GET", url, Headers())
        assert await read(response, 100) == b'{"a": 1}'
        for trust in (trust_only(other.root.pem()), trust_of(None)):
            with pytest.raises(UpstreamLost, match="certificate"):
                await HTTPSClient(reactor, trust, addresses=None).request("GET", url, Headers())
        assert len(server.heard) == 1
    for pem in (b"", b"none", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ValueError):
            trust_only(pem)


@pytest_twisted.ensureDeferred
async def test_an_address_policy_is_asked_before_anything_is_sent() -> None:
    """Loopback is forbidden unless it is allowed; what was never sent is told as such, and plain HTTP is not spoken."""
    async with serving(says(answer(200, {}))) as (authority, server):
        guarded = HTTPSClient(reactor, authority.trust, addresses=AddressPolicy(), resolver=Names(["127.0.0.1"]))
        for scheme in ("https", "http"):
            with pytest.raises(UpstreamLost) as refused:
                await guarded.request("GET", f"{scheme}://localhost:{server.number}/", Headers())
            assert not refused.value.sent
        assert server.connections == 0


@pytest_twisted.ensureDeferred
async def test_a_body_is_bounded() -> None:
    """One octet more than admitted, with its length declared or chunked; the connection is not kept."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    for octets in (answer(200, b"abcde"), chunked):
        async with serving(says(octets)) as (authority, server):
            client = HTTPSClient(reactor, authority.trust, addresses=None, connections=1)
            url = f"https://localhost:{server.number}/"
            assert await read(await client.request("GET", url, Headers()), 5) == b"abcde"
            with pytest.raises(AnswerTooLong):
                await read(await client.request("GET", url, Headers()), 4)
            assert await read(await client.request("GET", url, Headers()), 5) == b"abcde"
            assert server.connections == 2
            await client.close()


def made_in(source: str) -> set[str]:
    """What a client is made of, as far as a module imports it from Twisted."""
    return {
        alias.name
        for node in (ast.walk(ast.parse(source)) if any(maker in source for maker in MAKERS) else ())
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("twisted.")
        for alias in node.names
    } & MAKERS


def test_there_is_one_client() -> None:
    """
    No other module makes an HTTP client of Twisted, or reads trust from PEM; and where no reactor runs, one does.

    The controls are those that do.
    """
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.rglob("*.py")}
    assert {name for name, source in sources.items() if made_in(source)} == {"upstream/https.py"}
    blocking = re.compile(r"^\s*(import|from) (http\.client|urllib\.request)", re.MULTILINE)
    assert {name for name, source in sources.items() if blocking.search(source)} == {"client/blocking_https.py"}
