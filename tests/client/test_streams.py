"""What each client has in its own way: iterators, cancelling, sharing between threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred

from agtphost.client import ConnectionLost, sync
from tests.client.credentials import Credentials
from tests.client.drivers import twisted_driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer, echo, pause


def counting(exchange: Exchange) -> None:
    """Three interim messages and a final one."""
    for number in range(3):
        exchange.send(answer({"event": number}, 202, Continuation_Token="c"), final=False)
    exchange.send(answer("done"))


@pytest_twisted.ensureDeferred
async def test_the_twisted_client_streams(credentials: Credentials) -> None:
    """``async for`` yields the interim replies and, last, the final one; the connection serves on."""
    with ScriptedHost(credentials, counting) as host:
        async with twisted_driver(trust=credentials.trust) as client:
            for _ in range(2):
                results = [reply.result async for reply in client.stream(host.uri, "EXECUTE")]
                assert results == [{"event": 0}, {"event": 1}, {"event": 2}, "done"]
        assert host.connections == 1


@pytest_twisted.ensureDeferred
async def test_a_twisted_stream_raises_what_went_wrong(credentials: Credentials) -> None:
    """An end in the middle is an error behind the replies that came."""

    def breaking(exchange: Exchange) -> None:
        exchange.send(answer({"event": 0}, 202, Continuation_Token="c"), final=False)
        exchange.hang_up()

    arrived = []
    with ScriptedHost(credentials, breaking) as host:
        async with twisted_driver(trust=credentials.trust) as client:
            with pytest.raises(ConnectionLost):
                async for reply in client.stream(host.uri, "EXECUTE"):
                    arrived.append(reply.status)  # noqa: PERF401
    assert arrived == [202]


def test_the_blocking_client_streams(credentials: Credentials) -> None:
    """``for`` does the same; leaving it early drops the connection, and the next call gets another."""
    with ScriptedHost(credentials, counting) as host, sync.Client(trust=credentials.trust) as client:
        results = [reply.result for reply in client.stream(host.uri, "EXECUTE")]
        assert results == [{"event": 0}, {"event": 1}, {"event": 2}, "done"]
        for reply in client.stream(host.uri, "EXECUTE"):
            assert reply.interim
            break
        assert client.call(host.uri, "EXECUTE").result == "done"
        assert host.connections == 2


@pytest_twisted.ensureDeferred
async def test_a_cancelled_call_drops_its_connection(credentials: Credentials) -> None:
    """The answer that nobody waits for is never taken as the answer to another call."""
    release = threading.Event()

    def slow(exchange: Exchange) -> None:
        if exchange.request.path == "/slow":
            release.wait(60)
        echo(exchange)

    with ScriptedHost(credentials, slow) as host:
        async with twisted_driver(trust=credentials.trust) as client:
            running = Deferred.fromCoroutine(client.call(host.uri, "SUBMIT", "/slow"))
            while not host.requests:
                await pause(0.01)
            running.cancel()
            with pytest.raises(CancelledError):
                await running
            release.set()
            assert (await client.call(host.uri, "SUBMIT", "/next")).result["path"] == "/next"
            assert host.connections == 2


@pytest_twisted.ensureDeferred
async def test_closing_leaves_nothing_behind(credentials: Credentials) -> None:
    """After the block every connection has ended, with a closing notice, and no timer is left."""
    from twisted.internet import reactor

    before = len(reactor.getDelayedCalls())  # type: ignore[attr-defined]
    with ScriptedHost(credentials, echo) as host:
        async with twisted_driver(trust=credentials.trust) as client:
            await client.call(host.uri, "QUERY")
        await host.settle()
    assert len(reactor.getDelayedCalls()) <= before  # type: ignore[attr-defined]


def test_threads_share_the_blocking_client(credentials: Credentials) -> None:
    """Calls from many threads get their own answers over a bounded number of connections."""
    limited = sync.Client(trust=credentials.trust, connections=3)
    with ScriptedHost(credentials, echo) as host, limited as client:

        def call(number: int) -> str:
            return str(client.call(host.uri, "SUBMIT", f"/p{number}").result["path"])

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(call, range(60))) == [f"/p{number}" for number in range(60)]
        assert host.connections <= 3


def test_an_old_connection_is_not_used(credentials: Credentials) -> None:
    """What lay idle longer than allowed is closed, and a new connection opened."""
    now = [0.0]
    with (
        ScriptedHost(credentials, echo) as host,
        sync.Client(trust=credentials.trust, idle=50, clock=lambda: now[0]) as client,
    ):
        client.call(host.uri, "SUBMIT")
        now[0] = 49.0
        client.call(host.uri, "SUBMIT")
        assert host.connections == 1
        now[0] = 100.0
        client.call(host.uri, "SUBMIT")
        assert host.connections == 2
