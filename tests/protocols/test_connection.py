"""One connection on a transport in memory: order, deadlines, back-pressure, ends."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IProtocol, IPushProducer
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from zope.interface.verify import verifyClass, verifyObject

from agtphost.iagtp import IDispatcher
from agtphost.protocols import ConnectionLimits
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.limits import ABORT_AFTER, FAREWELL, READ_AHEAD, SLOWEST_READER, UNREAD_INTERIM
from agtphost.wire import Headers, Request, Response
from tests.protocols.links import FakeDispatcher, Link, ask, at_once, reply, task_ids
from tests.rows import each_row

LIMITS = ConnectionLimits()


def test_the_fake_dispatcher_is_one() -> None:
    """The stand-in has the interface of what it stands for."""
    assert verifyObject(IDispatcher, FakeDispatcher())


def test_a_connection_keeps_what_it_declares() -> None:
    """Protocol, handshake listener and producer are implemented in full."""
    for interface in (IProtocol, IHandshakeListener, IPushProducer):
        assert verifyClass(interface, ServerConnection)


# Answering


def test_a_request_is_answered() -> None:
    """A whole request goes to the dispatcher, its answer to the transport."""
    link = Link(FakeDispatcher(at_once))
    link.receive(ask(7))
    assert task_ids(link.responses()) == ["7"]
    assert link.calls == []


def test_one_octet_at_a_time() -> None:
    """AGTP-013: a message is complete with its last octet, not before."""
    link = Link(FakeDispatcher(at_once))
    octets = ask(1, body=b"abcdefghij") + ask(2)
    for at in range(len(octets)):
        link.receive(octets[at : at + 1])
        done = (at + 1 >= len(ask(1, body=b"abcdefghij"))) + (at + 1 == len(octets))
        assert len(link.responses()) == done
    assert task_ids(link.responses()) == ["1", "2"]


def test_pipelined_requests_wait_their_turn() -> None:
    """T-PL-1: one request in dispatch at a time, answers in order, each written once it is there."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2) + ask(3))
    for number in (1, 2, 3):
        assert len(dispatcher.requests) == number
        dispatcher.answer()
    assert task_ids(link.responses()) == ["1", "2", "3"]
    assert len(link.transport.writes) == 3


def test_a_turn_is_one_write() -> None:
    """What one read yields is written at once, however many answers it is."""
    link = Link(FakeDispatcher(at_once))
    link.receive(b"".join(ask(number) for number in range(50)))
    assert task_ids(link.responses()) == [str(number) for number in range(50)]
    assert len(link.transport.writes) == 1


def test_many_requests_in_one_read_are_no_recursion() -> None:
    """Three thousand pipelined requests answered at once need no deeper stack than one."""
    link = Link(FakeDispatcher(at_once))
    link.receive(b"".join(ask(number) for number in range(3000)))
    while link.transport.unsent:
        link.transport.take()
    assert task_ids(link.responses()) == [str(number) for number in range(3000)]


def test_the_peer_is_built_once() -> None:
    """Every request of a connection comes from the same peer: address, server name, no certificate."""
    dispatcher = FakeDispatcher(at_once)
    link = Link(dispatcher)
    link.receive(ask() + ask())
    assert dispatcher.peers[0] is dispatcher.peers[1]
    peer = dispatcher.peers[0]
    assert (peer.server_name, peer.certificate, peer.loopback) == ("host.example", None, True)


def test_a_coroutine_dispatcher_is_awaited() -> None:
    """A dispatcher may be async: what it awaits is awaited."""
    gate: Deferred[None] = Deferred()

    async def handler(request: Request, peer: Any, interim: Any) -> Response:
        await gate
        return reply(request)

    link = Link(FakeDispatcher(handler))
    link.receive(ask(4))
    assert link.responses() == []
    gate.callback(None)
    assert task_ids(link.responses()) == ["4"]


@pytest.mark.parametrize("when", ["at once", "later", "while called"])
def test_a_dispatcher_that_raises_loses_its_connection(when: str) -> None:
    """What must not happen fails closed: the connection is cut, nothing is written."""

    def handler(request: Request, peer: Any, interim: Any) -> Awaitable[Response]:
        if when == "while called":
            raise RuntimeError("seeded")
        return fail(RuntimeError("seeded")) if when == "at once" else later

    later: Deferred[Response] = Deferred()
    link = Link(FakeDispatcher(handler))
    link.receive(ask())
    if when == "later":
        later.errback(RuntimeError("seeded"))
    assert link.calls == ["abort"]
    assert link.transport.writes == []
    assert link.factory.calls == 0


def test_an_unsendable_answer_loses_its_connection() -> None:
    """T-HI-1: an answer with a line break in a field is no message, so there is none."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.waiting.pop().callback(Response(status=200, headers=Headers([("X", "a\r\nY: b")])))
    assert link.calls == ["abort"]
    assert link.transport.writes == []


def test_the_last_answer_closes() -> None:
    """A response that closes is written, then the connection ends; what was pipelined is not parsed."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2))
    dispatcher.answer(close=True)
    assert task_ids(link.responses()) == ["1"]
    assert link.calls == ["lose"]
    assert len(dispatcher.requests) == 1


# Refusing


def test_lost_framing_is_one_refusal_and_the_end() -> None:
    """Security invariant 9: after any framing error exactly one response and close, whatever follows."""
    dispatcher = FakeDispatcher(at_once)
    link = Link(dispatcher)
    link.receive(ask(1) + b"GET / HTTP/1.1\r\n\r\n" + ask(2))
    link.receive(ask(3))
    assert [response.status for response in link.responses()] == [200, 400]
    assert [status for _, status, _ in dispatcher.refusals] == [400]
    assert link.calls == ["lose"]
    assert len(dispatcher.requests) == 1


def test_a_refusal_names_the_line() -> None:
    """The record of a refused message covers its first line."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(b"AGTP/1.0 QUERY /\r\nbad header\r\n\r\n")
    [(_, status, line)] = dispatcher.refusals
    assert (status, line) == (400, b"AGTP/1.0 QUERY /\r\n")


def test_a_refusal_that_fails_loses_the_connection() -> None:
    """If not even a refusal can be made, the connection is cut."""
    dispatcher = FakeDispatcher()
    dispatcher.refuse = lambda *_: fail(RuntimeError("seeded"))  # type: ignore[method-assign]
    link = Link(dispatcher)
    link.receive(b"nonsense\r\n")
    assert link.calls == ["abort"]


def test_an_unreadable_certificate_loses_the_connection() -> None:
    """Who cannot be identified, though TLS let it pass, is cut before its first request."""
    link = Link(FakeDispatcher(at_once), secured=False)
    link.transport.certificate = "not a certificate"
    link.connection.handshakeCompleted()
    assert link.calls == ["abort"]
    assert link.factory.connections == 0


# Deadlines


def test_a_silent_handshake_is_cut() -> None:
    """T-DS-1: no TLS handshake within its time, no connection."""
    link = Link(FakeDispatcher(), secured=False)
    link.wait(LIMITS.handshake_timeout - 0.1)
    assert link.calls == []
    link.wait(0.1)
    assert link.calls == ["abort"]
    assert link.factory.connections == 0


def test_cleartext_is_answered_nothing() -> None:
    """AGTP-006: octets before a handshake end the connection, and not one octet is written."""
    dispatcher = FakeDispatcher(at_once)
    link = Link(dispatcher, secured=False)
    link.receive(ask())
    assert (link.calls, link.transport.writes, dispatcher.requests) == (["abort"], [], [])


def test_a_late_handshake_is_too_late() -> None:
    """A handshake that completes on a connection that was cut opens nothing."""
    link = Link(FakeDispatcher(), secured=False)
    link.wait(LIMITS.handshake_timeout)
    link.connection.handshakeCompleted()
    assert link.calls == ["abort"]
    assert link.transport.producer is None


def test_a_slow_header_is_408() -> None:
    """T-DS-2: the header's time runs from its first octet, however steadily more of it comes."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    for octet in ask()[:9]:
        link.receive(bytes([octet]))
        link.wait(1)
    assert link.responses() == []
    link.wait(1)
    assert [response.status for response in link.responses()] == [408]
    assert dispatcher.refusals == [("header-timeout", 408, b"")]
    assert link.calls == ["lose"]


def test_a_stalled_body_is_408_and_never_handled() -> None:
    """T-WF-200: a body shorter than declared times out; the handler is never called."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(body=b"x" * 20)[:-1])
    link.wait(LIMITS.body_gap_timeout - 0.1)
    assert link.responses() == []
    link.wait(0.1)
    assert [response.status for response in link.responses()] == [408]
    assert dispatcher.refusals == [("body-timeout", 408, b"AGTP/1.0 QUERY /\r\n")]
    assert (dispatcher.requests, link.calls) == ([], ["lose"])


def test_a_body_may_take_long_if_it_moves() -> None:
    """A body that pauses for less than the gap, at more than the least rate, is not cut."""
    dispatcher = FakeDispatcher(at_once)
    link = Link(dispatcher)
    octets = ask(body=b"x" * 200_000)
    for at in range(0, len(octets), 10_000):
        link.receive(octets[at : at + 10_000])
        link.wait(9)
    assert [response.status for response in link.responses()] == [200]


@pytest.mark.parametrize(("rate", "statuses"), [(1024, [408]), (0, [])])
def test_a_trickling_body_is_408(rate: int, statuses: list[int]) -> None:
    """T-DS-3: an octet a second keeps no gap, but is below the least rate; without one it may go on."""
    link = Link(FakeDispatcher(), ConnectionLimits(body_min_rate=rate))
    octets = ask(body=b"x" * 100)
    link.receive(octets[:-99])
    for _ in range(30):
        link.receive(b"x")
        link.wait(1)
    assert [response.status for response in link.responses()] == statuses


def test_an_idle_connection_is_closed_not_before_its_time() -> None:
    """AGTP-010: the idle time is at least 60 seconds, and runs from the last answer."""
    assert LIMITS.idle_timeout >= 60
    link = Link(FakeDispatcher(at_once))
    link.wait(LIMITS.idle_timeout - 1)
    link.receive(ask())
    link.wait(LIMITS.idle_timeout - 0.1)
    assert link.calls == []
    link.wait(0.1)
    assert link.calls == ["lose"]
    assert len(link.responses()) == 1


def test_a_close_that_hangs_is_cut() -> None:
    """abortConnection is armed behind every loseConnection."""
    link = Link(FakeDispatcher(at_once))
    link.wait(LIMITS.idle_timeout)
    link.receive(ask())
    link.wait(ABORT_AFTER - 0.1)
    assert link.calls == ["lose"]
    link.wait(0.1)
    assert link.calls == ["lose", "abort"]


def test_a_close_behind_a_long_answer_waits_for_it() -> None:
    """What is on its way when the connection closes gets the time that a slow link needs."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 10 * SLOWEST_READER, close=True)
    while "lose" not in link.calls:
        link.transport.take()
    link.wait(ABORT_AFTER + 10)
    assert link.calls[-1] == "lose"
    link.wait(1)
    assert link.calls[-1] == "abort"


def test_a_close_long_after_a_long_answer_does_not_wait() -> None:
    """What was written before the idle time is no reason to wait for the close."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 10 * SLOWEST_READER)
    while link.transport.unsent:
        link.transport.take()
    link.wait(LIMITS.idle_timeout)
    assert link.calls[-1] == "lose"
    link.wait(ABORT_AFTER)
    assert link.calls[-1] == "abort"


def test_a_running_call_has_no_deadline_here() -> None:
    """How long a handler may take is the dispatcher's to say."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(5))
    link.wait(1000)
    assert link.calls == []
    dispatcher.answer()
    assert task_ids(link.responses()) == ["5"]


# How much one connection gets


def test_a_connection_has_its_number_of_requests() -> None:
    """T-DS-30: the last request is answered, which the answer says, then the connection ends."""
    link = Link(FakeDispatcher(at_once), ConnectionLimits(requests_per_connection=3))
    link.receive(b"".join(ask(number) for number in range(5)))
    assert task_ids(link.responses()) == ["0", "1", "2"]
    assert [each.headers.get("connection") for each in link.responses()] == [None, None, "close"]
    assert link.calls == ["lose"]


def test_an_old_connection_ends_with_its_next_answer() -> None:
    """T-DS-30: age ends a connection only behind an answer."""
    limits = ConnectionLimits(idle_timeout=10_000)
    link = Link(FakeDispatcher(at_once), limits)
    link.wait(limits.connection_age - 1)
    link.receive(ask(1))
    assert link.calls == []
    link.wait(1)
    assert link.calls == []
    link.receive(ask(2) + ask(3))
    assert task_ids(link.responses()) == ["1", "2"]
    assert link.calls == ["lose"]


# Back-pressure


def test_parsing_stops_when_the_transport_has_enough() -> None:
    """T-PL-10: between any two requests of one read the pause is noticed, and nothing more is parsed."""
    dispatcher = FakeDispatcher(lambda request, peer, interim: answer(request))

    def answer(request: Request) -> Awaitable[Response]:
        return at_once_with(request, b"x" * 40_000)

    link = Link(dispatcher)
    link.receive(b"".join(ask(number) for number in range(100)))
    assert len(dispatcher.requests) <= 3
    assert link.calls == ["pause"]
    seen = len(dispatcher.requests)
    link.transport.take()
    assert seen < len(dispatcher.requests) <= seen + 3
    while link.transport.unsent:
        link.transport.take()
    assert task_ids(link.responses()) == [str(number) for number in range(100)]
    assert link.calls[-1] == "resume"


def at_once_with(request: Request, body: bytes) -> Awaitable[Response]:
    done: Deferred[Response] = Deferred()
    done.callback(reply(request, body))
    return done


def test_an_answer_is_written_piece_by_piece() -> None:
    """An answer above the high-water mark is given to the transport as it takes it."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2))
    dispatcher.answer(b"y" * 1_000_000)
    assert link.transport.unsent <= 2 * LIMITS.output_high_water
    while link.transport.unsent:
        assert len(dispatcher.requests) == 1 or link.transport.unsent < LIMITS.output_high_water
        link.transport.take()
    assert len(dispatcher.requests) == 2
    assert len(link.responses()[0].body) == 1_000_000


def test_a_peer_that_does_not_read_is_cut() -> None:
    """T-PL-10: without any progress within the write time the connection is cut."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 1_000_000)
    link.wait(LIMITS.write_timeout - 0.1)
    assert "abort" not in link.calls
    link.wait(0.1)
    assert link.calls[-1] == "abort"


def test_a_peer_that_reads_slowly_is_not_cut() -> None:
    """Each piece that the peer takes gives it the write time anew."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 1_000_000)
    while link.transport.unsent:
        link.wait(LIMITS.write_timeout - 1)
        link.transport.take()
    assert "abort" not in link.calls
    assert len(link.responses()[0].body) == 1_000_000


def test_a_last_answer_that_is_taken_slowly_is_whole() -> None:
    """Closing waits for the answer to be taken."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 500_000, close=True)
    while link.transport.unsent:
        assert "lose" not in link.calls
        link.wait(20)
        link.transport.take()
    assert link.calls[-1] == "lose"
    assert len(link.responses()[0].body) == 500_000


def test_reading_stops_behind_an_unanswered_request() -> None:
    """What is sent ahead of an answer stays with the sender, but for a little."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    link.receive(b"A" * READ_AHEAD)
    assert link.calls == []
    link.receive(b"A")
    assert link.calls == ["pause"]


def test_reading_goes_on_after_the_answer() -> None:
    """Once the answer is out, what was held is parsed, and the socket is read again."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    link.receive(ask(2, body=b"b" * READ_AHEAD))
    assert link.calls == ["pause"]
    dispatcher.answer()
    assert link.calls == ["pause", "resume"]
    dispatcher.answer()
    assert task_ids(link.responses()) == ["1", "2"]


def test_closing_reads_and_drops() -> None:
    """A closing connection is read, so that the peer's close is seen, and nothing of it is kept."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2, body=b"b" * READ_AHEAD))
    link.receive(ask(3))
    assert link.calls == ["pause"]
    dispatcher.answer(close=True)
    assert link.calls == ["pause", "resume", "lose"]
    link.receive(b"c" * 100_000)
    assert link.calls == ["pause", "resume", "lose"]
    assert len(dispatcher.requests) == 1


# Interim messages


def progress(text: str) -> Response:
    return Response(status=202, headers=Headers([("Continuation-Token", text)]))


def test_interim_messages_come_before_the_final_one() -> None:
    """Design decision 11: interim messages in order, then the final one, then the next request."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2))
    dispatcher.interims[0](progress("a"))
    dispatcher.interims[0](progress("b"))
    assert len(dispatcher.requests) == 1
    dispatcher.answer()
    tokens = [response.headers.get("continuation-token") for response in link.responses()]
    assert tokens == ["a", "b", None]
    assert len(dispatcher.requests) == 2


def test_a_late_interim_message_goes_to_nobody() -> None:
    """A handler that goes on emitting after its answer reaches neither its own nor the next request."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    dispatcher.answer()
    dispatcher.interims[0](progress("late"))
    link.receive(ask(2))
    dispatcher.interims[0](progress("later"))
    dispatcher.answer()
    dispatcher.interims[1](progress("too late"))
    assert [response.status for response in link.responses()] == [200, 200]


def test_unread_interim_messages_are_bounded() -> None:
    """A peer that does not read its interim messages is cut at a bound, or by the write time."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    message = Response(
        status=202,
        headers=Headers([("Continuation-Token", "a"), ("Content-Type", "text/plain")]),
        body=b"z" * 50_000,
    )
    for _ in range(100):
        dispatcher.interims[0](message)
    assert link.transport.unsent <= 3 * LIMITS.output_high_water
    assert link.calls == ["pause", "abort"]
    dispatcher.answer()
    assert UNREAD_INTERIM < 100 * 50_000


def test_unread_interim_messages_time_out() -> None:
    """New interim messages are no progress of a peer that does not read."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    message = Response(
        status=202,
        headers=Headers([("Continuation-Token", "a"), ("Content-Type", "text/plain")]),
        body=b"z" * 50_000,
    )
    dispatcher.interims[0](message)
    dispatcher.interims[0](message)
    for _ in range(30):
        assert "abort" not in link.calls
        dispatcher.interims[0](progress("more"))
        link.wait(1)
    assert link.calls[-1] == "abort"


def test_interim_messages_taken_late_do_not_end_the_call() -> None:
    """When the peer reads again, the call goes on without a deadline, and its answer follows."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    message = Response(
        status=202,
        headers=Headers([("Continuation-Token", "a"), ("Content-Type", "text/plain")]),
        body=b"z" * 70_000,
    )
    dispatcher.interims[0](message)
    link.wait(20)
    while link.transport.unsent:
        link.transport.take()
    link.wait(1000)
    dispatcher.answer()
    assert [response.status for response in link.responses()] == [202, 200]
    assert "abort" not in link.calls


# Gone


def test_a_peer_that_leaves_gets_no_answer() -> None:
    """T-TL-90: the call of a peer that left completes; its answer is dropped, nothing more is parsed."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1) + ask(2))
    link.connection.connectionLost(Failure(ConnectionDone()))
    assert (link.factory.connections, link.factory.calls) == (0, 1)
    dispatcher.interims[0](progress("a"))
    dispatcher.answer()
    assert (link.factory.calls, len(dispatcher.requests), link.transport.writes) == (0, 1, [])


def test_a_fault_at_the_end_of_a_connection_leaves_what_else_ends_with_it() -> None:
    """Of the functions that wait for the end of a call or of a connection one may fail: all others are called."""
    left: list[int] = []

    def fail_with(number: int) -> None:
        left.append(number)
        raise RuntimeError("the end of a call")

    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask(1))
    dispatcher.peers[0].leaving |= {partial(fail_with, number) for number in range(3)}
    with capturedLogs() as logged:
        link.connection.connectionLost(Failure(ConnectionDone()))
    assert (sorted(left), sum("log_failure" in event for event in logged)) == ([0, 1, 2], 3)


def test_a_peer_that_leaves_in_a_refusal_gets_none() -> None:
    """T-TL-91: the same while a refusal is being sealed."""
    sealing: Deferred[Response] = Deferred()
    dispatcher = FakeDispatcher()
    dispatcher.refuse = lambda *_: sealing  # type: ignore[method-assign]
    link = Link(dispatcher)
    link.receive(b"nonsense\r\n")
    link.receive(b"more nonsense\r\n")
    link.connection.connectionLost(Failure(ConnectionDone()))
    sealing.callback(Response(status=400))
    assert link.transport.writes == []
    assert link.calls == []


# Draining


def test_draining_closes_what_is_idle_and_finishes_what_is_owed() -> None:
    """SIGTERM: an idle connection is closed at once, a busy one after its answer."""
    dispatcher = FakeDispatcher()
    idle = Link(dispatcher)
    busy = Link(dispatcher)
    busy.receive(ask(1) + ask(2))
    for link in (idle, busy):
        link.connection.drain()
        link.connection.drain()
    assert idle.calls == ["lose"]
    assert busy.calls == []
    dispatcher.answer()
    assert task_ids(busy.responses()) == ["1"]
    assert busy.calls == ["lose"]
    assert len(dispatcher.requests) == 1


@each_row("cut", range(1, len(ask(body=b"0123456789")), 7))
def test_draining_does_not_wait_for_the_rest_of_a_request(cut: int) -> None:
    """A request that is not there whole has no effect yet, so its connection is closed."""
    link = Link(FakeDispatcher())
    link.receive(ask(body=b"0123456789")[:cut])
    link.connection.drain()
    assert link.calls == ["lose"]


@each_row("idle", [0.0, 1.0, ABORT_AFTER - FAREWELL, 30.0])
def test_draining_cuts_an_idle_peer_when_its_answer_has_arrived(idle: float) -> None:
    """A client that keeps an idle connection, and does not answer the close, does not hold up the stop."""
    link = Link(FakeDispatcher(at_once))
    link.receive(ask())
    link.wait(idle)
    link.connection.drain()
    left = max(ABORT_AFTER - idle, FAREWELL)
    link.wait(left - 0.01)
    assert link.calls == ["lose"]
    link.wait(0.02)
    assert link.calls == ["lose", "abort"]


def test_draining_waits_for_an_answer_however_long_its_connection_was_idle() -> None:
    """What counts is when the last answer was given, not the request before it."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.wait(30.0)
    link.receive(ask())
    link.connection.drain()
    dispatcher.answer()
    link.wait(ABORT_AFTER - 0.01)
    assert link.calls == ["lose"]


def test_draining_lets_a_slow_reader_finish() -> None:
    """An answer on its way is completed before the connection closes."""
    dispatcher = FakeDispatcher()
    link = Link(dispatcher)
    link.receive(ask())
    dispatcher.answer(b"y" * 300_000)
    link.connection.drain()
    while link.transport.unsent > link.transport.mark:
        assert "lose" not in link.calls
        link.transport.take()
    assert link.calls[-1] == "lose"
    assert len(link.responses()[0].body) == 300_000


def test_draining_cuts_a_handshake() -> None:
    """Who has not finished its handshake has nothing to lose."""
    link = Link(FakeDispatcher(), secured=False)
    link.connection.drain()
    assert link.calls == ["abort"]


def test_a_connection_holds_no_more_than_it_says() -> None:
    """No instance dictionary: 10,000 connections are to be cheap."""
    assert not hasattr(Link(FakeDispatcher()).connection, "__dict__")
