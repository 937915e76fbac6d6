"""
Streamable HTTP: the official SDK in both eras, and servers of our own that misbehave, over real sockets.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import error, reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from agtphost.adapters.mcp import McpServer, UpstreamState
from agtphost.upstream.failures import (
    AnswerTooLong,
    UnreadableAnswer,
    UpstreamFailure,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
)
from tests.adapters.mcp.hosting import heard, history, hosted, until
from tests.adapters.mcp.hosting import sdk as sdk_command


class Uvicorn(ProcessProtocol):
    """The SDK server's process: tells its port first."""

    def __init__(self) -> None:
        self.port: Deferred[int] = Deferred()
        self.ended: Deferred[None] = Deferred()
        self._heard = b""

    def outReceived(self, data: bytes) -> None:
        self._heard += data
        if b"\n" in self._heard and not self.port.called:
            self.port.callback(int(self._heard.split(b"\n")[0]))

    def processEnded(self, reason: Any) -> None:
        self.ended.callback(None)


@asynccontextmanager
async def sdk(*arguments: str) -> AsyncIterator[tuple[int, Any]]:
    """The official SDK's HTTP server on a free port of loopback."""
    protocol = Uvicorn()
    process = reactor.spawnProcess(protocol, sys.executable, sdk_command("http", *arguments), env=None)
    try:
        yield await protocol.port, process
    finally:
        with suppress(error.ProcessExitedAlready):
            process.signalProcess("KILL")
        await protocol.ended


def call(server: McpServer, tool: str = "work", within: float = 10.0, **arguments: Any) -> Deferred[Any]:
    """One call, begun now."""
    return Deferred.fromCoroutine(server.call_tool(tool, arguments, {}, within))


async def failure_of(calling: Deferred[Any]) -> UpstreamFailure:
    """How a call fails; fails the test when it does not."""
    with pytest.raises(UpstreamFailure) as caught:
        await calling
    return caught.value


@pytest.mark.parametrize("body", ["json", "stream"])
@pytest.mark.parametrize("protocol", ["auto", "2025-11-25", "2025-03-26"])
@pytest_twisted.ensureDeferred
async def test_the_official_sdk_over_http(protocol: str, body: str) -> None:
    """
    Both eras, answers as JSON and as event streams: calls, mirrored arguments, progress, non-ASCII,
    errors.
    """
    async with (
        sdk(body) as (port, _),
        hosted(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol) as server,
    ):
        assert server.snapshot().version == ("2026-07-28" if protocol == "auto" else protocol)
        assert (await call(server, "add", a=2, b=3))["content"][0]["text"] == "5"
        assert (await call(server, "routed", region="zürich ✓"))["content"][0]["text"] == "zürich ✓"
        assert (await call(server, "noisy", times=5))["content"][0]["text"] == "done"
        assert (await call(server, "fail", reason="because"))["isError"] is True
        results = [call(server, "add", a=number, b=0) for number in range(40)]
        assert [(await each)["content"][0]["text"] for each in results] == [str(number) for number in range(40)]


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest_twisted.ensureDeferred
async def test_a_deadline_ends_the_call_at_the_server(protocol: str) -> None:
    """Closing the stream, or a cancellation message, reaches the tool."""
    async with (
        sdk("stream") as (port, _),
        hosted(url=f"http://127.0.0.1:{port}/mcp", protocol=protocol) as server,
    ):
        for within in (0.3, 3.0, 20.0):  # As long as its server takes to begin.
            assert isinstance(await failure_of(call(server, "sleep", within, seconds=300)), UpstreamTimeout)
            if await history(server):
                break
        assert await heard("cancelled", lambda: history(server)) == ["began", "cancelled"]


@pytest_twisted.ensureDeferred
async def test_changed_tools_are_listed_anew_over_http() -> None:
    """The subscription of the stateless era, on its own stream, brings the new tool into the catalogue."""
    async with sdk("stream") as (port, _), hosted(url=f"http://127.0.0.1:{port}/mcp") as server:
        await call(server, "grow")
        await until(lambda: "grown" in server.catalogue.bindings)
        assert await call(server, "grown")


@pytest_twisted.ensureDeferred
async def test_a_killed_http_server_fails_calls_and_is_tried_again() -> None:
    """In-flight calls fail at once; the next call finds nobody, and the state says back-off."""
    async with sdk() as (port, process), hosted(url=f"http://127.0.0.1:{port}/mcp") as server:
        slow = call(server, "sleep", seconds=300)
        await heard("began", lambda: history(server))
        began = time.monotonic()
        process.signalProcess("KILL")
        assert isinstance(await failure_of(slow), UpstreamLost)
        assert time.monotonic() - began < 10
        for _ in range(8):
            # A kept connection may have to be found dead first.
            await failure_of(call(server, "add", a=1, b=1))
        await until(lambda: server.state is UpstreamState.BACKOFF)


@pytest_twisted.ensureDeferred
async def test_tls_is_verified(tmp_path: Path) -> None:
    """
    A server is trusted by its configured authority, and by nothing else (control: the platform's
    authorities).
    """
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        .add_extension(names, False).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    async with sdk("tls", str(pem), str(private)) as (port, _):
        async with hosted(url=f"https://127.0.0.1:{port}/mcp", ca=str(pem)) as server:
            assert (await call(server, "add", a=2, b=3))["content"][0]["text"] == "5"
        async with hosted(url=f"https://127.0.0.1:{port}/mcp", wait=False) as server:
            await until(lambda: server.state is UpstreamState.BACKOFF)
            assert "certificate" in server.snapshot().reason.lower()
        async with hosted(url=f"https://127.0.0.1:{port}/mcp", wait=False, ca=str(tmp_path / "no.pem")) as server:
            await until(lambda: server.state is UpstreamState.BACKOFF)


class Odd(Resource):
    """A handshake-era endpoint whose tools/call is what the test says; keeps every request."""

    isLeaf = True

    def __init__(self, work: Callable[[Request, int], Any]) -> None:
        super().__init__()
        self.work = work
        self.seen: list[tuple[str, str, str | None]] = []
        self.sessions = 0
        self.session: str | None = None

    def render(self, request: Request) -> Any:
        text = request.content.read()
        message = json.loads(text) if text else {}
        method, session = message.get("method", ""), request.getHeader("mcp-session-id")
        self.seen.append((request.method.decode(), method, session))
        request.setHeader("content-type", "application/json")
        if method == "initialize":
            self.sessions += 1
            self.session = f"session-{self.sessions}"
            request.setHeader("mcp-session-id", self.session)
            version = message["params"]["protocolVersion"]
            return self.result(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}})
        if method == "server/discover":
            request.setResponseCode(400)
            return b"what?"
        if session != self.session:
            request.setResponseCode(404)
            return b""
        if method == "tools/list":
            return self.result(message, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
        if method == "tools/call":
            return self.work(request, message["id"])
        request.setResponseCode(202)
        return b""

    @staticmethod
    def result(message: dict[str, Any], result: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


@asynccontextmanager
async def odd(work: Callable[[Request, int], Any], **settings: Any) -> AsyncIterator[tuple[McpServer, Odd]]:
    """A supervised server in front of an odd endpoint."""
    endpoint = Odd(work)
    port = reactor.listenTCP(0, Site(endpoint), interface="127.0.0.1")
    try:
        async with hosted(url=f"http://127.0.0.1:{port.getHost().port}/mcp", **settings) as server:
            yield server, endpoint
    finally:
        await port.stopListening()


def answer(call_id: object, result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result}).encode()


def streamed(request: Request) -> None:
    request.setHeader("content-type", "text/event-stream")


def cut(request: Request, call_id: int) -> Any:
    streamed(request)
    request.write(b"data: {")
    reactor.callLater(0.02, request.transport.abortConnection)
    return NOT_DONE_YET


def no_answer(request: Request, call_id: int) -> bytes:
    streamed(request)
    return b": nothing\n\n"


def status(code: int) -> Callable[[Request, int], bytes]:
    def work(request: Request, call_id: int) -> bytes:
        request.setResponseCode(code)
        request.setHeader("location", "http://127.0.0.1:1/")
        return b"<html>"

    return work


def html(request: Request, call_id: int) -> bytes:
    request.setHeader("content-type", "text/html")
    return b"<html>"


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (cut, UpstreamLost),
        (no_answer, UpstreamLost),
        (html, UpstreamRefused),
        *[(status(code), UpstreamRefused) for code in (202, 301, 307, 400, 401, 429, 500, 503)],
        (lambda request, call_id: b"{nonsense", UnreadableAnswer),
        (lambda request, call_id: answer(call_id + 1, {}), UnreadableAnswer),
        (lambda request, call_id: answer(str(call_id), {}), UnreadableAnswer),
        (lambda request, call_id: answer(call_id, float("nan")), UnreadableAnswer),
        (lambda request, call_id: answer(call_id, "x" * (17 << 20)), AnswerTooLong),
        (lambda request, call_id: (streamed(request), b"data: " + b"x" * (17 << 20))[1], AnswerTooLong),
    ],
)
@pytest_twisted.ensureDeferred
async def test_bad_answers_fail_one_call(work: Callable[[Request, int], Any], kind: type[UpstreamFailure]) -> None:
    """
    T-MC over HTTP: cut, empty, mislabelled, redirected, refused, oversized: that call fails, the server
    stays up.
    """
    async with odd(work) as (server, _):
        began = time.monotonic()
        assert type(await failure_of(call(server, within=60))) is kind
        assert time.monotonic() - began < 30
        assert server.state is UpstreamState.UP


@pytest_twisted.ensureDeferred
async def test_a_hanging_answer_ends_at_its_deadline() -> None:
    """A server that never answers holds its call for as long as its deadline says."""
    async with odd(lambda request, call_id: NOT_DONE_YET) as (server, endpoint):
        began = time.monotonic()
        assert isinstance(await failure_of(call(server, within=0.3)), UpstreamTimeout)
        assert 0.29 < time.monotonic() - began < 10
        await until(lambda: ("POST", "notifications/cancelled", "session-1") in endpoint.seen)


@pytest_twisted.ensureDeferred
async def test_a_stream_that_stays_open_is_closed() -> None:
    """After its answer a stream may linger a second, no longer; the answer itself is not held back by it."""
    closed: list[object] = []

    def lingering(request: Request, call_id: int) -> Any:
        streamed(request)
        request.notifyFinish().addErrback(closed.append)
        request.write(b": hi\n\ndata: " + answer(call_id, {"content": []}) + b"\n\n")
        return NOT_DONE_YET

    async with odd(lingering) as (server, _):
        assert await call(server) == {"content": []}
        assert not closed
        await until(lambda: closed)


@pytest_twisted.ensureDeferred
async def test_a_flooding_stream_is_throttled() -> None:
    """Endless notifications on one stream: paused each second, and ended with the call."""
    noise = (
        b"data: " + json.dumps({"jsonrpc": "2.0", "method": "note", "params": {"x": "y" * 60_000}}).encode() + b"\n\n"
    )
    sent = [0]

    class Flood:
        def __init__(self, request: Request) -> None:
            self.request = request

        def resumeProducing(self) -> None:
            self.request.write(noise)
            sent[0] += len(noise)

        def stopProducing(self) -> None: ...

    def flooding(request: Request, call_id: int) -> Any:
        streamed(request)
        request.registerProducer(Flood(request), False)
        return NOT_DONE_YET

    async with odd(flooding) as (server, _):
        assert isinstance(await failure_of(call(server, within=1.5)), UpstreamTimeout)
        assert sent[0] < 40 << 20


@pytest_twisted.ensureDeferred
async def test_a_forgotten_session_is_begun_anew() -> None:
    """
    404 in a session: the call fails, is not repeated, a new session follows, and DELETE ends it;
    T-MC-110.
    """
    runs: list[int] = []

    def work(request: Request, call_id: int) -> bytes:
        runs.append(call_id)
        return answer(call_id, {"content": []})

    async with odd(work) as (server, endpoint):
        await call(server)
        endpoint.session = "gone"
        assert isinstance(await failure_of(call(server)), UpstreamLost)
        assert len(runs) == 1
        await until(lambda: server.state is UpstreamState.UP)
        await call(server)
        assert (len(runs), endpoint.sessions) == (2, 2)
        assert "session-" not in repr(server.snapshot())
    assert ("DELETE", "", "session-2") in endpoint.seen


@pytest_twisted.ensureDeferred
async def test_configured_headers_are_sent_and_nothing_of_the_caller() -> None:
    """T-SS-60: the bearer token is the operator's; no header of an agent's request goes upstream."""
    names: list[set[str]] = []
    tokens: list[str | None] = []

    def work(request: Request, call_id: int) -> bytes:
        names.append({name.decode().lower() for name, _ in request.requestHeaders.getAllRawHeaders()})
        tokens.append(request.getHeader("authorization"))
        return answer(call_id, {"content": []})

    async with odd(work, headers={"Authorization": "Bearer canary"}) as (server, _):
        await call(server)
        assert tokens == ["Bearer canary"]
        assert names[0] == {
            "authorization", "accept", "content-type", "content-length", "host", "mcp-session-id",
            "mcp-protocol-version",
        }  # fmt: skip
