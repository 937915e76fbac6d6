"""Calls of the Twisted client that are cancelled: what becomes of their connections, over TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred

from agtphost.client import Client, connection
from agtphost.client import client as client_module
from agtphost.client.client import MOST_DRAINING
from agtphost.vocabulary import media_types
from agtphost.wire import Headers, Response
from tests.client.quic.test_twisted import client_of, event
from tests.protocols.links import FakeDispatcher, reply
from tests.protocols.loopback import Host, Site, make_site


class WaitingHost(FakeDispatcher):
    """Answers QUERY at once, and anything else when a test says so."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.waiting: list[Deferred[Response]] = []
        self.left = 0

    def _answer(self, request: Any, peer: Any, interim: Any) -> Any:
        answer: Deferred[Response] = Deferred()
        if request.method == "QUERY":
            answer.callback(reply(request))
            return answer
        peer.leaving.add(self._note_leaving)
        self.waiting.append(answer)
        return answer

    def _note_leaving(self) -> None:
        self.left += 1

    def finish(self, body: bytes = b"") -> None:
        """Answer the oldest call."""
        headers = Headers([("Content-Type", media_types.AGTP_JSON)] if body else [])
        self.waiting.pop(0).callback(Response(status=200, headers=headers, body=body))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


async def cancel_one(client: Client, host: Host, dispatcher: WaitingHost, **options: Any) -> None:
    """Make a call that is not answered, and cancel it."""
    expected = len(dispatcher.waiting) + 1
    call = Deferred.fromCoroutine(client.call(uri_of(host), "ECHO", **options))
    await event(lambda: len(dispatcher.waiting) == expected)
    call.cancel()
    with pytest.raises(CancelledError):
        await call


def uri_of(host: Host) -> str:
    return f"agtp://localhost:{host.port}"


def count_connections(dispatcher: WaitingHost) -> int:
    """Return how many connections requests came over."""
    return len({id(peer.link) for peer in dispatcher.peers})


@pytest_twisted.ensureDeferred
async def test_a_connection_outlives_a_cancellation_that_a_message_tells(site: Site) -> None:
    """The unwanted answer is read and dropped, and the connection serves the next call with an answer of its own."""
    dispatcher = WaitingHost()
    async with Host(site, dispatcher) as host, client_of(site, quic=False) as client:
        for _ in range(5):
            await cancel_one(client, host, dispatcher, cancelled_by_message=True)
            # What tells the host goes out meanwhile.
            assert (await client.call(uri_of(host), "QUERY")).status == 200
            dispatcher.finish(b"unwanted")
            await event(lambda: not client._draining)
            answer = await client.call(uri_of(host), "QUERY")
            assert answer.status == 200 and b"unwanted" not in answer.body
        assert dispatcher.left == 0
    assert count_connections(dispatcher) == 2


@pytest_twisted.ensureDeferred
async def test_another_cancellation_ends_the_connection_and_the_next_one_is_dialled(site: Site) -> None:
    """The host notices it by the end of the connection; the next call finds a connection that is there."""
    dispatcher = WaitingHost()
    async with Host(site, dispatcher) as host, client_of(site, quic=False, stay_connected=True) as client:
        await cancel_one(client, host, dispatcher)
        await event(lambda: dispatcher.left == 1)
        await event(lambda: host.factory.connections == 1 and not client._redials)
        assert (await client.call(uri_of(host), "QUERY")).status == 200
        assert host.factory.connections == 1
    assert count_connections(dispatcher) == 2


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("case", ["a long answer", "a late answer", "another call waits"])
async def test_an_unwanted_answer_has_bounds(site: Site, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Of octets, of time, and where it would hold up another call: then the connection ends."""
    dispatcher = WaitingHost()
    seconds = {"a late answer": 0.05}.get(case, 60.0)
    monkeypatch.setattr(connection, "DRAIN_SECONDS", seconds)
    async with Host(site, dispatcher) as host, client_of(site, quic=False, connections=1) as client:
        await cancel_one(client, host, dispatcher, cancelled_by_message=True)
        if case == "a long answer":
            dispatcher.finish(b"x" * (connection.DRAIN_OCTETS + 1))
        if case != "another call waits":
            await event(lambda: not client._draining)
        assert (await client.call(uri_of(host), "QUERY")).status == 200
        await event(lambda: case == "a long answer" or dispatcher.left == 1)
    assert count_connections(dispatcher) == 2


@pytest_twisted.ensureDeferred
async def test_a_call_waits_for_one_of_several_unwanted_answers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancellations one right after the other cost few handshakes: the next call takes the first free connection."""
    monkeypatch.setattr(client_module, "DRAIN_PATIENCE", 3600.0)
    dispatcher = WaitingHost()
    async with Host(site, dispatcher) as host, client_of(site, quic=False) as client:
        for _ in range(MOST_DRAINING):
            await cancel_one(client, host, dispatcher, cancelled_by_message=True)
        for _ in range(10):
            calling = Deferred.fromCoroutine(client.call(uri_of(host), "ECHO", cancelled_by_message=True))
            await event(lambda: client._waiting or len(dispatcher.waiting) > MOST_DRAINING)
            assert len(dispatcher.waiting) == len(client._draining) == MOST_DRAINING
            dispatcher.finish(b"unwanted")
            await event(lambda: len(dispatcher.waiting) == MOST_DRAINING)
            calling.cancel()
            with pytest.raises(CancelledError):
                await calling
    assert count_connections(dispatcher) == MOST_DRAINING


@pytest_twisted.ensureDeferred
async def test_the_end_of_an_unwanted_answer_lets_all_calls_go_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer of them there may be connections for all calls that have waited, not for one of them only."""
    monkeypatch.setattr(client_module, "DRAIN_PATIENCE", 3600.0)
    dispatcher = WaitingHost()
    async with Host(site, dispatcher) as host, client_of(site, quic=False) as client:
        for _ in range(MOST_DRAINING):
            await cancel_one(client, host, dispatcher, cancelled_by_message=True)
        calls = [Deferred.fromCoroutine(client.call(uri_of(host), "ECHO")) for _ in range(4)]
        [waiting] = client._waiting.values()
        assert len(waiting) == len(calls)
        dispatcher.finish(b"unwanted")
        await event(lambda: len(dispatcher.waiting) == MOST_DRAINING - 1 + len(calls))
        while dispatcher.waiting:
            dispatcher.finish()
        assert [(await call).status for call in calls] == [200] * len(calls)


@pytest_twisted.ensureDeferred
async def test_a_call_goes_on_where_another_got_the_connection_that_it_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls wait for the oldest unwanted answer, which ends in time for one: the other waits for the next one."""
    monkeypatch.setattr(connection, "DRAIN_SECONDS", 3600.0)
    dispatcher = WaitingHost()
    async with Host(site, dispatcher) as host, client_of(site, quic=False) as client:
        unwanted = []
        for number in range(MOST_DRAINING + 1):
            unwanted.append(Deferred.fromCoroutine(client.call(uri_of(host), "ECHO", cancelled_by_message=True)))
            await event(lambda expected=number + 1: len(dispatcher.waiting) == expected)
        for call in unwanted:
            call.cancel()
            with pytest.raises(CancelledError):
                await call
        calls = [Deferred.fromCoroutine(client.call(uri_of(host), "ECHO")) for _ in range(2)]
        dispatcher.finish(b"unwanted")
        await event(lambda: len(dispatcher.requests) == len(unwanted) + len(calls))
        while dispatcher.waiting:
            dispatcher.finish()
        assert [(await call).status for call in calls] == [200] * len(calls)


@pytest_twisted.ensureDeferred
async def test_a_client_that_is_closed_waits_for_no_unwanted_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its connection nor its timer is left, however long it would have waited."""
    from twisted.internet import reactor

    monkeypatch.setattr(connection, "DRAIN_SECONDS", 3600.0)
    dispatcher = WaitingHost()
    timers: Any = reactor
    async with Host(site, dispatcher) as host:
        client = client_of(site, quic=False)
        await cancel_one(client, host, dispatcher, cancelled_by_message=True)
        await client.close()
        await event(lambda: not client._draining)
        assert not [call for call in timers.getDelayedCalls() if "TwistedConnection" in str(call)]
