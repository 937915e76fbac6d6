"""No listener and no client of HTTP sends a small message in two segments, or has it wait."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.web.client import readBody
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource

from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.http.fetch import Fetcher
from agtphost.http.tls import TlsCreator, https_options
from agtphost.upstream.external_http import Upstream
from agtphost.upstream.https import BytesProducer, HTTPSClient, trust_of
from agtphost.upstream.web_upstream import WebClient
from agtphost.vocabulary.addresses import AddressPolicy
from tests.bridge.test_http import ACCEPT, HANDSHAKE, run, serving
from tests.client.credentials import Credentials, create
from tests.http.mounted import service_of
from tests.sends import Sends, in_one, recorded

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Page(Resource):
    """A small one."""

    isLeaf = True
    longest_body = 1000

    def admit(self, request: BoundedRequest) -> None:
        """Everybody."""

    def render(self, request: BoundedRequest) -> bytes:
        return tail_of(request, 200, b"a page")


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return create(tmp_path_factory.mktemp("credentials"))


@pytest.mark.parametrize("secure", [False, True])
@pytest_twisted.ensureDeferred
async def test_an_answer_leaves_in_one(credentials: Credentials, secure: bool) -> None:
    """Of the listeners of the host: the A2A front's and the well-known one's class."""
    tls = TlsCreator(https_options(credentials.server.cert, credentials.server.key)) if secure else None
    service = service_of(Page(), f"{'ssl' if secure else 'tcp'}:0:interface=127.0.0.1", tls)
    service.startService()
    await service.when_listening()
    url, trust = f"http{'s' * secure}://localhost:{service.port}/", str(credentials.trust)
    try:
        with recorded() as sends, httpx.Client(trust_env=False, verify=trust) as client:
            assert (await deferToThread(client.get, url)).text == "a page"
            sends.of_server(service.port)  # the handshake's too
            for _ in range(3):
                assert (await deferToThread(client.post, url, content=b"abc")).text == "a page"
                assert in_one(sends.of_server(service.port))
    finally:
        await service.stopService()


@pytest_twisted.ensureDeferred
async def test_the_bridge_answers_in_one() -> None:
    """A refusal, and the answer to a message; the answer to a call is an event stream, each event of it at once."""

    async def story() -> None:
        async with serving() as (url, _), httpx.AsyncClient(trust_env=False) as client:
            port = httpx.URL(url).port
            assert port is not None
            with recorded() as sends:
                assert (await client.get(url.replace("/mcp", "/none"))).status_code == 404
                assert in_one(sends.of_server(port))
                answer = await client.post(url, json=HANDSHAKE, headers=ACCEPT)
                begun = sends.of_server(port)
                assert len(begun) <= 4  # head, two events, end: an event waits for no other
                assert all(send.nodelay for send in begun)
                session = {**ACCEPT, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
                note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                assert (await client.post(url, json=note, headers=session)).status_code == 202
                assert in_one(sends.of_server(port))

    await run(story)


@contextmanager
def answering() -> Iterator[int]:
    """Says ``{}`` to every request, on one connection after the other."""
    listener = socket.create_server(("127.0.0.1", 0))

    def converse(link: socket.socket) -> None:
        # Clients may leave by a reset.
        with link, suppress(ConnectionResetError):
            got = b""
            while more := link.recv(65_536):
                got += more
                head, end, body = got.partition(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0"
                if end and len(body) >= int(length):
                    got = b""
                    link.sendall(ANSWER)

    def accept() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


Ask = Callable[[str], Awaitable[Any]]


async def mcp(url: str) -> None:
    client = HTTPSClient(reactor, trust_of(None), addresses=None, connections=1)
    agent, pool = client.agent, client.pool
    fields = Headers({"Content-Type": ["application/json"]})
    for _ in range(2):
        await readBody(await agent.request(b"POST", url.encode(), fields, BytesProducer(b"x" * 200)))  # type: ignore[no-untyped-call]
    await pool.closeCachedConnections()  # type: ignore[no-untyped-call]


async def web(url: str) -> None:
    peer = WebClient(reactor, ca=None, headers={}, connections=1)
    for _ in range(2):
        await peer.exchange("POST", url, seconds=10, body={"x": "y" * 200})
    await peer.close()


async def fetched(url: str) -> None:
    for _ in range(2):
        await Fetcher(reactor)(url)


@pytest.mark.parametrize("ask", [mcp, web])
@pytest_twisted.ensureDeferred
async def test_a_request_leaves_in_one(ask: Ask) -> None:
    """Of the clients of MCP servers, and of A2A and ACP agents; the same connection carries the second."""
    with answering() as port, recorded() as sends:
        await ask(f"http://127.0.0.1:{port}/")
        seen = sends.of_client(port)
    assert len(seen) == 2
    assert all(send.nodelay for send in seen)


@pytest_twisted.ensureDeferred
async def test_a_document_is_asked_for_in_one() -> None:
    """Witnesses, logs and namespaces are asked by a GET, on a connection of its own."""
    with answering() as port, recorded() as sends:
        await fetched(f"http://127.0.0.1:{port}/")
        seen = sends.of_client(port)
    assert len(seen) == 2


@pytest_twisted.ensureDeferred
async def test_a_service_of_an_operator_is_asked_in_one(credentials: Credentials) -> None:
    """HTTPS services: one send for a request, once hands are shaken."""
    from twisted.internet.ssl import Certificate, trustRootFromCertificates

    tls = TlsCreator(https_options(credentials.server.cert, credentials.server.key))
    service = service_of(Page(), "ssl:0:interface=127.0.0.1", tls)
    service.startService()
    await service.when_listening()
    trust = trustRootFromCertificates([Certificate.loadPEM(credentials.trust.read_text())])  # type: ignore[no-untyped-call]
    policy = AddressPolicy([ipaddress.ip_network("127.0.0.0/8")])
    upstream = Upstream(reactor, reactor.nameResolver, policy, trust, "POST", 1000)
    try:
        with recorded() as sends:
            for number in range(3):
                answer = await upstream.exchange(f"https://localhost:{service.port}/", {}, b"x" * 200, 10.0)
                assert answer.body == b"a page"
                seen = sends.of_client(service.port)
                assert all(send.nodelay for send in seen)
                assert number == 0 or in_one(seen)
    finally:
        await service.stopService()


def test_two_sends_are_noticed() -> None:
    """The control of the recorder."""
    with answering() as port, recorded() as sends, socket.create_connection(("127.0.0.1", port)) as link:
        link.send(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n")
        link.send(b"x")
        assert link.recv(1000)
        assert not in_one(sends.of_client(port))
    assert Sends().of_client(port) == []
