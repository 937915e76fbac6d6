"""Calls over real TLS connections: one suite for both clients."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, gatherResults

from agtphost.client import (
    AgentGone,
    CannotConnect,
    ConnectionLost,
    HandshakeEnded,
    InvalidCall,
    ProtocolBroken,
    Timeout,
    VerificationFailed,
)
from agtphost.client.reply import Reply, reply_of
from agtphost.client.retries import RetryPolicy
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers, Response
from tests.client.credentials import CALLER_ID, Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer, echo, pause, refuse, sealed
from tests.rows import each_row

NewClient = Callable[..., Driver]
AGENT = "0123456789abcdef" * 4


@pytest_twisted.ensureDeferred
async def test_a_call_is_answered(credentials: Credentials, new_client: NewClient) -> None:
    """Method, path, query and parameters arrive, and the reply holds what the host said."""
    with ScriptedHost(credentials, echo) as host:
        async with new_client() as client:
            reply = await client.call(host.uri, "QUERY", "/room?floor=2", {"beds": 1}, task_id="t-1")
    assert reply.ok
    assert reply.result == {
        "method": "QUERY",
        "path": "/room",
        "query": "floor=2",
        "body": {"method": "QUERY", "task_id": "t-1", "parameters": {"beds": 1}},
    }
    assert reply.request_line == b"AGTP/1.0 QUERY /room?floor=2\r\n"
    assert reply.request_body == host.requests[0].body


@pytest_twisted.ensureDeferred
async def test_connections_are_kept(credentials: Credentials, new_client: NewClient) -> None:
    """Calls one after the other use one connection (AGTP-009), and the same client on an address another."""
    with ScriptedHost(credentials, echo) as host:
        async with new_client() as client:
            for number in range(5):
                assert (await client.call(host.uri, "SUBMIT", "/", {"n": number})).ok
            assert host.connections == 1
            assert (await client.call(f"agtp://127.0.0.1:{host.port}", "SUBMIT")).ok
            assert host.connections == 2
        await host.settle()


@pytest_twisted.ensureDeferred
async def test_the_pool_is_bounded(credentials: Credentials, new_client: NewClient) -> None:
    """Calls at once share at most the allowed connections; none is lost or mixed up."""

    def slow(exchange: Exchange) -> None:
        time.sleep(0.02)
        echo(exchange)

    with ScriptedHost(credentials, slow) as host:
        async with new_client(connections=3) as client:
            calls = [Deferred.fromCoroutine(client.call(host.uri, "SUBMIT", f"/p{number}")) for number in range(12)]
            replies = await gatherResults(calls)
            assert [reply.result["path"] for reply in replies] == [f"/p{number}" for number in range(12)]
            assert 1 <= host.connections <= 3


@pytest_twisted.ensureDeferred
async def test_a_connection_that_the_host_closed_is_replaced(credentials: Credentials, new_client: NewClient) -> None:
    """A pooled connection whose end was noticed is not used: even a call that may not be repeated works."""

    def last_words(exchange: Exchange) -> None:
        echo(exchange)
        exchange.hang_up()

    with ScriptedHost(credentials, last_words) as host:
        async with new_client() as client:
            await client.call(host.uri, "SUBMIT")
            await host.settle()
            await pause(0.05)
            assert (await client.call(host.uri, "SUBMIT")).ok
        assert [request.method for request in host.requests] == ["SUBMIT", "SUBMIT"]


@pytest_twisted.ensureDeferred
async def test_a_connection_is_not_used_after_its_last_answer(credentials: Credentials, new_client: NewClient) -> None:
    """The host says that it ends the connection, and the end may come later than the next call."""

    def last(exchange: Exchange) -> None:
        exchange.send(answer(exchange.number, Connection="close"))

    with ScriptedHost(credentials, last) as host:
        async with new_client() as client:
            replies = [await client.call(host.uri, "SUBMIT") for _ in range(3)]
        assert [reply.result for reply in replies] == [1, 2, 3]


def dies_on_second(exchange: Exchange) -> None:
    """Answers the first request of the first connection, takes the second and hangs up; then behaves."""
    if exchange.number == 1 and exchange.request.path == "/second":
        exchange.hang_up()
    else:
        echo(exchange)


async def carried_out(
    credentials: Credentials, new_client: NewClient, method: str, **options: object
) -> tuple[int, bool]:
    """How often the second of two calls reached a host that dies on it, and whether it was answered."""
    with ScriptedHost(credentials, dies_on_second) as host:
        async with new_client() as client:
            await client.call(host.uri, "QUERY", "/first")
            try:
                answered = (await client.call(host.uri, method, "/second", {}, **options)).ok
            except ConnectionLost as lost:
                assert not lost.answered
                answered = False
        return sum(request.path == "/second" for request in host.requests), answered


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        ("QUERY", {}, (2, True)),
        ("FETCH", {}, (2, True)),
        ("SUBMIT", {}, (1, False)),
        ("EXECUTE", {}, (1, False)),
        ("REVOKE", {}, (1, False)),
        ("EXECUTE", {"idempotency_key": "k-1"}, (2, True)),
        ("EXECUTE", {"headers": [("Idempotency-Key", "k-1")]}, (2, True)),
        ("BOOK", {"idempotent": True}, (2, True)),
        ("QUERY", {"idempotent": False}, (1, False)),
    ],
)
@pytest_twisted.ensureDeferred
async def test_only_repeatable_calls_are_repeated(
    credentials: Credentials,
    new_client: NewClient,
    method: str,
    options: dict[str, object],
    expected: tuple[int, bool],
) -> None:
    """A dead pooled connection is replaced only for idempotent or keyed calls (METH-053, API-071)."""
    assert await carried_out(credentials, new_client, method, **options) == expected


@pytest_twisted.ensureDeferred
async def test_a_client_that_repeats_everything_is_noticed(
    credentials: Credentials, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a policy that does not ask whether the call is repeatable carries it out twice."""

    def always(self: object, repeatable: bool, *, reused: bool, answered: bool, attempt: int) -> bool:
        return reused and not answered and attempt == 1

    monkeypatch.setattr(RetryPolicy, "may_reconnect", always)
    assert await carried_out(credentials, new_client, "SUBMIT") == (2, True)


@pytest_twisted.ensureDeferred
async def test_a_new_connection_that_dies_is_not_tried_again(credentials: Credentials, new_client: NewClient) -> None:
    """Only a pooled connection can have been dead before: a first call that fails has failed."""
    with ScriptedHost(credentials, Exchange.hang_up) as host:
        async with new_client() as client:
            with pytest.raises(ConnectionLost):
                await client.call(host.uri, "QUERY")
        assert len(host.requests) == 1


@pytest_twisted.ensureDeferred
async def test_an_answer_begun_is_never_asked_for_again(credentials: Credentials, new_client: NewClient) -> None:
    """A connection that ends within the answer is an error even for an idempotent call."""

    def half(exchange: Exchange) -> None:
        if exchange.request.path == "/second":
            exchange.raw(b"AGTP/1.0 200 OK\r\nContent-Le")
            exchange.hang_up()
        else:
            echo(exchange)

    with ScriptedHost(credentials, half) as host:
        async with new_client() as client:
            await client.call(host.uri, "QUERY")
            with pytest.raises(ConnectionLost) as lost:
                await client.call(host.uri, "QUERY", "/second")
        assert lost.value.answered
        assert len(host.requests) == 2


@pytest_twisted.ensureDeferred
async def test_nothing_is_half_closed(credentials: Credentials, new_client: NewClient) -> None:
    """The host may take its time: the client's side stays open until the answer is complete (AGTP-014)."""
    quiet: list[bool] = []

    def slow(exchange: Exchange) -> None:
        quiet.append(exchange.quiet(0.2))
        echo(exchange)

    with ScriptedHost(credentials, slow) as host:
        async with new_client() as client:
            assert (await client.call(host.uri, "QUERY")).ok
            assert (await client.call(host.uri, "QUERY")).ok
    assert quiet == [True, True]


def test_a_half_close_would_be_noticed(credentials: Credentials) -> None:
    """The control: a client that sends a closing notice behind its request is seen to do so."""
    quiet: Queue[bool] = Queue()

    def slow(exchange: Exchange) -> None:
        quiet.put(exchange.quiet(2.0))
        exchange.hang_up()

    with ScriptedHost(credentials, slow) as host:
        context = ssl.create_default_context(cafile=str(credentials.trust))
        raw = socket.create_connection(("127.0.0.1", host.port))
        with context.wrap_socket(raw, server_hostname="localhost") as channel:
            channel.sendall(b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n\r\n")
            channel.setblocking(False)
            with pytest.raises((ssl.SSLError, OSError)):
                channel.unwrap()
            assert quiet.get(timeout=30) is False


@pytest_twisted.ensureDeferred
async def test_interim_messages_are_streamed(credentials: Credentials, new_client: NewClient) -> None:
    """Each 202 with a Continuation-Token goes to the callback; the first message without ends the call."""

    def streaming(exchange: Exchange) -> None:
        asked = jsontext.decode(exchange.request.body)
        assert asked["context"] == {"stream": True}
        for number in range(3):
            exchange.send(answer({"event": {"n": number}}, 202, Continuation_Token=f"c{number}"), final=False)
        exchange.send(answer("done"))

    arrived: list[Reply] = []
    with ScriptedHost(credentials, streaming) as host:
        async with new_client() as client:
            reply = await client.call(host.uri, "EXECUTE", "/", {"a": 1}, stream=arrived.append)
            again = await client.call(host.uri, "EXECUTE", "/", {"a": 1}, stream=arrived.append)
        assert host.connections == 1
    assert [event.result["event"]["n"] for event in arrived] == [0, 1, 2, 0, 1, 2]
    assert all(event.interim for event in arrived)
    assert (reply.result, reply.interims, again.result) == ("done", 3, "done")


@pytest_twisted.ensureDeferred
async def test_a_202_without_a_token_is_final(credentials: Credentials, new_client: NewClient) -> None:
    """A call that needs input answers 202 and has ended; the connection serves on (design decision 11)."""
    script = [answer({"resultType": "input_required"}, 202), answer("second")]
    with ScriptedHost(credentials, lambda exchange: exchange.send(script.pop(0))) as host:
        async with new_client() as client:
            first = await client.call(host.uri, "EXECUTE")
            second = await client.call(host.uri, "EXECUTE")
        assert (first.status, first.interim, second.result, host.connections) == (202, False, "second", 1)


@pytest_twisted.ensureDeferred
async def test_a_failing_stream_callback_ends_the_call(credentials: Credentials, new_client: NewClient) -> None:
    """The caller's own error reaches the caller, and the connection is not used again."""

    def streaming(exchange: Exchange) -> None:
        exchange.send(answer({}, 202, Continuation_Token="c"), final=False)
        exchange.send(answer("done"))

    def broken(reply: Reply) -> None:
        raise LookupError("the test's own")

    with ScriptedHost(credentials, streaming) as host:
        async with new_client() as client:
            with pytest.raises(LookupError):
                await client.call(host.uri, "EXECUTE", stream=broken)
            await host.settle()
            assert (await client.call(host.uri, "EXECUTE", stream=lambda reply: None)).result == "done"
        assert host.connections == 2


@pytest_twisted.ensureDeferred
async def test_octets_behind_an_answer_end_the_connection(credentials: Credentials, new_client: NewClient) -> None:
    """A second answer that nobody asked for is never taken as the answer to the next call."""

    def twice(exchange: Exchange) -> None:
        exchange.raw(exchange.wire.send(answer("first")) + b"AGTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    with ScriptedHost(credentials, twice) as host:
        async with new_client() as client:
            for _ in range(2):
                assert (await client.call(host.uri, "SUBMIT")).result == "first"
            assert host.connections == 2


@pytest_twisted.ensureDeferred
async def test_octets_out_of_turn_end_the_connection(credentials: Credentials, new_client: NewClient) -> None:
    """Neither is one that comes while nothing is asked."""
    answered, sent = threading.Event(), threading.Event()

    def late(exchange: Exchange) -> None:
        echo(exchange)
        if not sent.is_set():
            answered.wait(60)
            exchange.raw(b"AGTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
            sent.set()

    with ScriptedHost(credentials, late) as host:
        async with new_client() as client:
            assert (await client.call(host.uri, "SUBMIT", "/a")).result["path"] == "/a"
            answered.set()
            while not sent.is_set():
                await pause(0.01)
            # On loopback they have arrived, and the reactor reads them before this is over.
            await pause(0.15)
            assert (await client.call(host.uri, "SUBMIT", "/b")).result["path"] == "/b"
            assert host.connections == 2


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"AGTP/1.0 200 OK\r\n\r\n",
        b"AGTP/1.0 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"AGTP/1.0 200 OK\nContent-Length: 0\n\n",
        b"AGTP/1.0 200 \x1b[31mOK\r\nContent-Length: 0\r\n\r\n",
        b"AGTP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n",
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_is_not_agtp_is_refused(credentials: Credentials, new_client: NewClient, octets: bytes) -> None:
    """An answer that breaks the framing rules is an error, and its connection is dropped."""
    with ScriptedHost(credentials, lambda exchange: exchange.raw(octets)) as host:
        async with new_client() as client:
            with pytest.raises(ProtocolBroken):
                await client.call(host.uri, "QUERY")
            await host.settle()


@pytest_twisted.ensureDeferred
async def test_the_status_text_means_nothing(credentials: Credentials, new_client: NewClient) -> None:
    """``263 Banana`` is a 263 (AGTP-019)."""
    response = Response(status=263, text="Banana", headers=Headers([("Server-ID", "x")]))
    with ScriptedHost(credentials, lambda exchange: exchange.send(response)) as host:
        async with new_client() as client:
            reply = await client.call(host.uri, "PROPOSE")
    assert (reply.status, reply.ok, reply.text) == (263, True, "Banana")


@pytest_twisted.ensureDeferred
async def test_an_answer_that_never_comes_times_out(credentials: Credentials, new_client: NewClient) -> None:
    """The call ends at its time, says what it waited for, and leaves no connection behind."""
    release = threading.Event()

    def silent(exchange: Exchange) -> None:
        if exchange.request.path == "/connected":
            echo(exchange)
        else:
            release.wait(60)

    with ScriptedHost(credentials, silent) as host:
        async with new_client() as client:
            # Connecting takes its own time.
            assert (await client.call(host.uri, "QUERY", "/connected")).ok
            with pytest.raises(Timeout, match="waiting for the answer"):
                await client.call(host.uri, "QUERY", timeout=0.3)
            release.set()
            await host.settle()


@pytest_twisted.ensureDeferred
async def test_a_server_that_never_shakes_hands_times_out(new_client: NewClient) -> None:
    """Connecting has a limit of its own, TLS included."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with new_client(connect_timeout=1.0) as client:
            with pytest.raises(Timeout, match="shaking hands"):
                await client.call(f"agtp://localhost:{port}", "QUERY")


@pytest_twisted.ensureDeferred
async def test_a_port_without_a_server_is_reported(new_client: NewClient) -> None:
    """Nobody listening is CannotConnect, with what to check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with new_client() as client:
        with pytest.raises(CannotConnect) as failed:
            await client.call(f"agtp://127.0.0.1:{port}", "QUERY")
    assert failed.value.remedy


@pytest_twisted.ensureDeferred
async def test_a_full_pool_times_out(credentials: Credentials, new_client: NewClient) -> None:
    """A call that finds no free connection in time says so, and the connection serves others afterwards."""
    release = threading.Event()

    def slow(exchange: Exchange) -> None:
        release.wait(60)
        echo(exchange)

    with ScriptedHost(credentials, slow) as host:
        async with new_client(connections=1) as client:
            first = Deferred.fromCoroutine(client.call(host.uri, "SUBMIT", "/first"))
            while not host.requests:
                await pause(0.01)
            with pytest.raises(Timeout, match="free connection"):
                await client.call(host.uri, "SUBMIT", "/second", timeout=0.2)
            release.set()
            assert (await first).ok
            assert (await client.call(host.uri, "SUBMIT", "/third")).ok
        assert [request.path for request in host.requests] == ["/first", "/third"]


# Who calls


@pytest_twisted.ensureDeferred
async def test_the_certificate_names_the_caller(credentials: Credentials, new_client: NewClient) -> None:
    """With a client certificate its Agent-ID is the default, and the certificate is presented."""
    agent = credentials.agent
    with ScriptedHost(credentials, echo, client_auth=True) as host:
        async with new_client(cert=agent.cert, key=agent.key) as client:
            await client.call(host.uri, "QUERY", scopes=["mcp:tools:execute", "a:b"])
        assert host.requests[0].headers.get("agent-id") == CALLER_ID
        assert host.requests[0].headers.get("authority-scope") == "a:b, mcp:tools:execute"
        assert host.certificates[0] is not None


@pytest_twisted.ensureDeferred
async def test_without_a_certificate_a_call_is_anonymous(credentials: Credentials, new_client: NewClient) -> None:
    """No Agent-ID is made up."""
    with ScriptedHost(credentials, echo) as host:
        async with new_client() as client:
            await client.call(host.uri, "DISCOVER")
        assert [name for name, _ in host.requests[0].headers] == ["Content-Length"]
        assert host.certificates == [None]


# Never again


@pytest_twisted.ensureDeferred
async def test_a_retired_agent_is_not_called_again(credentials: Credentials, new_client: NewClient) -> None:
    """After 410 later calls to the same Agent-ID fail here, whatever retries are allowed (AGTP-076)."""
    gone = refuse(410, "agent-retired", agent_id=AGENT)
    with ScriptedHost(credentials, lambda exchange: exchange.send(gone)) as host:
        async with new_client(retries=5) as client:
            uri = f"agtp://{AGENT}@localhost:{host.port}"
            assert (await client.call(uri, "QUERY")).status == 410
            with pytest.raises(AgentGone):
                await client.call(uri, "QUERY")
            with pytest.raises(AgentGone):
                await client.call(f"agtp://{AGENT}@127.0.0.1:{host.port}", "EXECUTE")
            assert len(host.requests) == 1
            assert (await client.call(uri, "INSPECT")).status == 410
            other = f"agtp://{'f' * 64}@localhost:{host.port}"
            assert (await client.call(other, "QUERY")).status == 410


@pytest_twisted.ensureDeferred
async def test_a_retired_caller_does_not_call_again(credentials: Credentials, new_client: NewClient) -> None:
    """A 410 that names the calling agent ends that agent's calls, not those to the addressed one."""
    agent = credentials.agent
    gone = refuse(410, "agent-retired", agent_id=CALLER_ID)
    with ScriptedHost(credentials, lambda exchange: exchange.send(gone)) as host:
        async with new_client(cert=agent.cert, key=agent.key) as client:
            await client.call(f"agtp://{AGENT}@localhost:{host.port}", "QUERY")
            with pytest.raises(AgentGone, match=CALLER_ID):
                await client.call(host.uri, "QUERY")
            await client.call(f"agtp://{AGENT}@localhost:{host.port}", "QUERY", anonymous=True)
        assert len(host.requests) == 2


@pytest.mark.parametrize(
    ("status", "reason", "method", "retries", "requests"),
    [
        (503, "store-unavailable", "FETCH", 0, 1),
        (503, "store-unavailable", "FETCH", 2, 3),
        (429, "rate-limited", "QUERY", 1, 2),
        (503, "store-unavailable", "SUBMIT", 2, 1),
        (503, "agent-suspended", "FETCH", 2, 1),
        (455, "scope-violation", "QUERY", 2, 1),
        (458, "not-a-merchant", "QUERY", 2, 1),
        (500, "server-error", "QUERY", 2, 1),
        (404, "endpoint-not-found", "QUERY", 2, 1),
    ],
)
@pytest_twisted.ensureDeferred
async def test_which_refusals_are_tried_again(
    credentials: Credentials,
    new_client: NewClient,
    status: int,
    reason: str,
    method: str,
    retries: int,
    requests: int,
) -> None:
    """Only 429 and 503, only where allowed, only for what is repeatable (AGTP-078, AGTP-079, METH-053)."""
    body = jsontext.encode({"status": status, "reason": reason})
    fields = Headers([("Retry-After", "0"), ("Content-Type", "application/vnd.agtp+json")])
    response = Response(status=status, headers=fields, body=body)
    with ScriptedHost(credentials, lambda exchange: exchange.send(response)) as host:
        async with new_client(retries=retries) as client:
            reply = await client.call(host.uri, method)
        assert (reply.status, len(host.requests)) == (status, requests)


@pytest_twisted.ensureDeferred
async def test_a_retry_can_succeed(credentials: Credentials, new_client: NewClient) -> None:
    """A host that was busy for a moment is asked again after Retry-After."""
    busy = Response(status=503, headers=Headers([("Retry-After", "0")]))
    script = [busy, answer("now")]
    with ScriptedHost(credentials, lambda exchange: exchange.send(script.pop(0))) as host:
        async with new_client(retries=1) as client:
            assert (await client.call(host.uri, "QUERY")).result == "now"


# What comes back


@pytest_twisted.ensureDeferred
async def test_a_reply_is_verified_with_the_keys_of_the_manifest(
    credentials: Credentials, new_client: NewClient
) -> None:
    """Keys fetched anonymously from the manifest verify the record of a later call."""
    key = SigningKey.generate()
    manifest = {"server": {"signing_keys": [{"kid": key.kid, "alg": "EdDSA", "key": key.public.text}]}}

    def script(exchange: Exchange) -> None:
        if exchange.request.method == "DISCOVER":
            body = jsontext.encode(manifest)
            fields = Headers([("Content-Type", "application/vnd.agtp.manifest+json")])
            exchange.send(Response(status=200, headers=fields, body=body))
        else:
            exchange.send(sealed(exchange.request, key, {"ok": True}))

    agent = credentials.agent
    with ScriptedHost(credentials, script) as host:
        async with new_client(cert=agent.cert, key=agent.key) as client:
            keys = await client.fetch_signing_keys(host.uri)
            reply = await client.call(host.uri, "QUERY", "/room", {"beds": 2})
        assert "agent-id" not in host.requests[0].headers
        assert (host.requests[0].method, host.requests[0].path) == ("DISCOVER", "/")
    verification = reply.verify(keys)
    assert verification.ok, verification.failures
    assert not reply.verify({}).ok


@pytest_twisted.ensureDeferred
async def test_resolution_uses_the_specified_requests(credentials: Credentials, new_client: NewClient) -> None:
    """Servers are asked for their manifest anonymously, agents for their document (AGTP-098, 099, 121)."""

    def script(exchange: Exchange) -> None:
        exchange.send(answer({"agent_id": AGENT, "path": exchange.request.path}))

    agent = credentials.agent
    with ScriptedHost(credentials, script) as host:
        async with new_client(cert=agent.cert, key=agent.key, resolver=host.uri) as client:
            await client.resolve(host.uri)
            await client.resolve(f"agtp://{AGENT}@localhost:{host.port}", "json")
            reply = await client.resolve(f"agtp://{AGENT}?format=status")
            assert reply.result["path"] == f"/agents/{AGENT}"
            with pytest.raises(VerificationFailed):
                await client.resolve(f"agtp://{'e' * 64}@localhost:{host.port}")
        lines = [request.line.decode().strip() for request in host.requests]
        assert lines[:3] == [
            "AGTP/1.0 DISCOVER /",
            f"AGTP/1.0 DESCRIBE /agents/{AGENT}?format=json",
            f"AGTP/1.0 DESCRIBE /agents/{AGENT}?format=status",
        ]
        assert "agent-id" not in host.requests[0].headers
        assert host.requests[1].headers.get("agent-id") == CALLER_ID


@pytest_twisted.ensureDeferred
async def test_an_agent_without_a_host_needs_a_resolver(new_client: NewClient) -> None:
    """Form 1 alone says not where to go; the error says what to write."""
    async with new_client() as client:
        with pytest.raises(InvalidCall, match="resolver"):
            await client.call(f"agtp://{AGENT}", "QUERY")


LOST = [
    ("QUERY", {}, 5.0, 200),
    ("BOOK", {"idempotency_key": "k"}, 5.0, 200),
    ("BOOK", {"idempotent": True}, 5.0, 200),
    ("BOOK", {}, 5.0, 0),
    ("QUERY", {"idempotent": False}, 5.0, 0),
    ("QUERY", {}, 0.0, 0),
]


@each_row(("method", "options", "seconds", "status"), LOST)
@pytest_twisted.ensureDeferred
async def test_which_lost_calls_are_made_again(
    credentials: Credentials, new_client: NewClient, method: str, options: Any, seconds: float, status: int
) -> None:
    """METH-053: what is safe to repeat, for the seconds that the caller allowed; everything else is an error."""

    def script(exchange: Exchange) -> None:
        if len(host.requests) <= 2:
            exchange.hang_up()
        elif len(host.requests) == 3:
            exchange.send(refuse(503, "store-unavailable"))
        elif len(host.requests) == 4:
            exchange.send(refuse(409, "idempotency-in-progress"))
        else:
            exchange.send(answer())

    with ScriptedHost(credentials, script) as host:
        host.refusing = 1 if status else 0
        async with new_client(retry_seconds=seconds) as client:
            if status:
                assert (await client.call(host.uri, method, "/", **options)).status == status
                assert len(host.requests) == 5
            else:
                with pytest.raises(ConnectionLost):
                    await client.call(host.uri, method, "/", **options)
                assert len(host.requests) == 1


@pytest_twisted.ensureDeferred
async def test_a_host_that_stays_away_is_given_up(credentials: Credentials, new_client: NewClient) -> None:
    """The error is that of the last attempt, after the seconds that the caller allowed."""
    with ScriptedHost(credentials, echo) as host:
        host.refusing = 1_000_000
        async with new_client(retry_seconds=0.4) as client:
            with pytest.raises(HandshakeEnded):
                await client.call(host.uri, "QUERY")
    assert 2 <= host.connections <= 8
    async with new_client(retry_seconds=0.2) as client:
        with pytest.raises(CannotConnect):
            await client.call(host.uri, "QUERY")


def reply_with(status: int, retry_after: str = "") -> Reply:
    """Return an answer, with Retry-After if it is given."""
    fields = [("Retry-After", retry_after)] if retry_after else []
    return reply_of(Response(status=status, headers=Headers(fields)), line=b"", body=b"", agent_id=None, interims=0)


def test_a_retry_waits_as_long_as_the_host_asks_for() -> None:
    """Retry-After is kept where it fits into the time, and else the answer is the caller's."""
    policy = RetryPolicy(seconds=10.0, jitter=lambda: 1.0)
    fits, does_not = (reply_with(503, retry) for retry in ("7", "11"))
    assert policy.wait_after(fits, True, 1) == 7
    assert policy.wait_after(fits, True, 2, failing=4.0) is None
    assert policy.wait_after(does_not, True, 1) is None
    assert policy.wait_after(reply_with(503), True, 1) == 0.1
    assert policy.wait_after(reply_with(503), True, 60) == 1.0
    assert policy.wait_after(reply_with(503), False, 1) is None
    assert policy.wait_after(reply_with(500), True, 1) is None
