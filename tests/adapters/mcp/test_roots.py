"""Whose directories a process of an MCP server is told of, and that it is called by nobody who has others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from agtphost.adapters.mcp.bindings import CALL
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.roots import (
    LONGEST_URI,
    MOST_HELD,
    MOST_ROOTS,
    READ_PINGS,
    READ_SECONDS,
    RENEWAL_SECONDS,
    WAIT_SECONDS,
    ServerRoots,
    roots_of,
)
from agtphost.adapters.mcp.versions import META
from agtphost.errors import Refusal
from agtphost.upstream.failures import UpstreamTimeout
from agtphost.vocabulary.mcp_members import ROOTS
from tests.adapters.mcp.test_operations import Host, host, said
from tests.rows import each_row

A, B = ({"uri": "file:///a", "name": "a"},), ({"uri": "file:///b"},)
TOLD = "notifications/roots/list_changed"


class Peer(JsonRpcPeer):
    """A server's end that notes what it is told."""

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self.notes: list[str] = []

    def respond(self, call_id: Any, answer: Any) -> None:
        self.answers[call_id] = answer["result"]["roots"]

    def notify(self, method: str, params: Any = None) -> None:
        self.notes.append(method)


def answered() -> Deferred[Any]:
    """A ping whose answer is there."""
    return succeed({})


def made(clock: Clock, configured: Sequence[str] | None = None, *, alone: bool = True) -> tuple[ServerRoots, list[int]]:
    """What a process is told, and how often it asked outside of a call."""
    noticed: list[int] = []
    roots = ServerRoots(clock, configured, alone=alone, offered=True, noticed=lambda: noticed.append(1))
    return roots, noticed


def test_a_process_that_asks_at_its_start_waits_for_its_caller() -> None:
    """What was asked before anybody called is answered with the caller's roots, in the order of the questions."""
    roots, noticed = made(Clock())
    peer = Peer()
    assert not roots.answer(peer, "1") and roots.hold(peer, "1") and roots.has_waiting and noticed
    roots.take(A)
    assert peer.answers == {"1": list(A)} and not roots.has_waiting and peer.notes == []
    assert roots.answer(peer, "2") and peer.answers["2"] == list(A)


def test_a_process_that_nobody_calls_is_told_that_there_are_none() -> None:
    """After a while, and at once where too many questions wait; a caller that comes later is told of."""
    clock = Clock()
    roots, _ = made(clock)
    peer = Peer()
    assert all(roots.hold(peer, number) for number in range(MOST_HELD)) and not roots.hold(peer, "more")
    clock.advance(WAIT_SECONDS)
    assert list(peer.answers.values()) == [[]] * MOST_HELD
    roots.take(A)
    assert peer.notes == [TOLD]


def test_other_roots_are_told_and_the_call_waits_until_the_process_has_looked() -> None:
    """The same ones are no news; with others the call waits for the next question, and a moment longer."""
    clock = Clock()
    roots, _ = made(clock)
    peer = Peer()
    roots.take(A)
    roots.answer(peer, 1)
    clock.advance(READ_SECONDS)
    roots.take(A)
    assert peer.notes == []
    roots.take(B)
    assert peer.notes == [TOLD]
    settled = Deferred.fromCoroutine(roots.wait_until_read(answered, asks=True))
    assert not settled.called
    roots.answer(peer, 2)
    assert peer.answers[2] == list(B) and not settled.called
    clock.advance(READ_SECONDS)
    assert settled.called


def test_a_process_that_does_not_ask_again_holds_no_call_up() -> None:
    """One call waits for a while, and the next ones do not; the next process is asked for anew."""
    clock = Clock()
    roots, _ = made(clock)
    roots.take(A)
    for waits in (True, False):
        settled = Deferred.fromCoroutine(roots.wait_until_read(answered, asks=True))
        assert settled.called is not waits
        clock.advance(RENEWAL_SECONDS)
        assert settled.called
    roots.forget_link()
    assert not Deferred.fromCoroutine(roots.wait_until_read(answered, asks=True)).called
    clock.advance(RENEWAL_SECONDS)
    assert clock.getDelayedCalls() == []


def test_a_slow_process_has_time_until_it_answered_pings_and_as_long_again() -> None:
    """A busy machine's server asks and reads late: the call waits for it, and not for a fixed time."""
    clock = Clock()
    roots, _ = made(clock)
    peer = Peer()
    pings: list[Deferred[Any]] = []

    def ping() -> Deferred[Any]:
        pings.append(Deferred())
        return pings[-1]

    roots.take(A)
    settled = Deferred.fromCoroutine(roots.wait_until_read(ping, asks=True))
    clock.advance(3 * RENEWAL_SECONDS)
    assert not settled.called, "it has not answered what it was sent before"
    roots.answer(peer, 1)
    pings[0].callback({})
    for number in range(1, READ_PINGS + 1):
        assert len(pings) == number + 1
        clock.advance(0.5)
        pings[number].callback({})
    assert len(pings) == READ_PINGS + 1 and not settled.called
    clock.advance(0.5 * READ_PINGS - 0.1)
    assert not settled.called, "it answered every 0.5 s"
    clock.advance(0.1)
    assert settled.called
    assert Deferred.fromCoroutine(roots.wait_until_read(ping, asks=True)).called and len(pings) == READ_PINGS + 1


def test_a_process_asks_before_it_answers_a_ping() -> None:
    """The first call of all waits once, so that the caller is asked for roots in time."""
    roots, _ = made(Clock())
    pings: list[Deferred[Any]] = []

    def ping() -> Deferred[Any]:
        pings.append(Deferred())
        return pings[-1]

    settled = Deferred.fromCoroutine(roots.wait_until_asked(ping))
    assert not settled.called and roots.hold(Peer(), 1)
    pings[0].callback({})
    assert settled.called and roots.has_waiting
    assert Deferred.fromCoroutine(roots.wait_until_asked(ping)).called and len(pings) == 1
    roots.forget_link()
    assert not Deferred.fromCoroutine(roots.wait_until_asked(ping)).called, "another process"


def test_a_process_without_an_answer_to_ping_holds_no_call_up() -> None:
    """The call itself tells what is wrong with it."""
    clock = Clock()
    roots, _ = made(clock)
    roots.take(A)
    roots.answer(Peer(), 1)
    settled = Deferred.fromCoroutine(roots.wait_until_read(lambda: fail(UpstreamTimeout("late")), asks=True))
    clock.advance(READ_SECONDS)
    assert settled.called


def test_the_operators_roots_and_a_shared_process() -> None:
    """What the configuration says is said to all; a process that callers share is told that there are none."""
    peer = Peer()
    configured, _ = made(Clock(), ["file:///srv/data"])
    assert configured.answer(peer, 1) and peer.answers[1][0]["uri"] == "file:///srv/data"
    shared, noticed = made(Clock(), alone=False)
    assert shared.answer(peer, 2) and peer.answers[2] == [] and noticed
    assert not shared.hold(peer, 3), "nobody will ever say them"


@each_row(
    "answer",
    [
        [],
        {},
        {"roots": None},
        {"roots": [1]},
        {"roots": [{}]},
        {"roots": [{"uri": ""}]},
        {"roots": [{"uri": "file:///" + "x" * LONGEST_URI}]},
        {"roots": [{"uri": "file:///a", "name": 1}]},
        {"roots": [{"uri": "file:///a"}] * (MOST_ROOTS + 1)},
    ],
)
def test_roots_that_are_none_are_refused(answer: Any) -> None:
    """422, before a process is begun for them."""
    with pytest.raises(Refusal) as caught:
        roots_of({ROOTS: answer})
    assert (caught.value.status, caught.value.reason) == (422, "invalid-payload")


def test_roots_of_a_caller() -> None:
    """Those it says; none where it answered with an error; not known where it said nothing."""
    assert roots_of({}) is None
    assert roots_of({ROOTS: {"error": {"code": -1, "message": "no"}}}) == ()
    assert roots_of({ROOTS: {"roots": [{"uri": "file:///a", "name": "a", "_meta": {}}]}}) == A


async def pid(ask: Host, roots: Any, *, era: str = "2026-07-28", session: str = "s", **members: Any) -> str:
    """The process that a call goes to."""
    meta = {META + "clientCapabilities": {"roots": {}}, META + "protocolVersion": era}
    payload = {"tool": "pid", "_meta": meta, **({} if roots is None else {"inputResponses": {ROOTS: {"roots": roots}}})}
    answer = await ask(CALL, payload, session_id=session, **members)
    if answer.status == 202:
        assert answer.result["inputRequests"] == {ROOTS: {"method": "roots/list", "params": {}}}
        assert "requestState" not in answer.result
        return "asked"
    return str(said(answer))


@pytest_twisted.ensureDeferred
async def test_each_roots_of_a_shared_session_have_a_process() -> None:
    """Requests without a session of their own say their roots first, and meet nobody who has others."""
    async with host("handshake") as ask:
        assert await pid(ask, None) == "asked"
        first, second = await pid(ask, list(A)), await pid(ask, list(B))
        assert first != second
        assert (await pid(ask, list(A)), await pid(ask, list(B))) == (first, second)
        assert await pid(ask, None) == "asked", "what was said before is no other client's"
        assert len(ask.server.instances) == 2


@pytest_twisted.ensureDeferred
async def test_a_session_keeps_its_process_when_its_roots_change() -> None:
    """With a handshake the session is one client's; per agent it is not, and roots tell processes apart."""
    async with host("handshake") as ask:
        first = await pid(ask, list(A), era="2025-11-25")
        assert await pid(ask, list(B), era="2025-11-25") == first
        assert await pid(ask, None, era="2025-11-25") == "asked", "it was told once, and has to be told of changes"
        assert await pid(ask, list(A), era="2025-11-25", session="t") != first
    async with host("handshake", isolation="per-agent") as ask:
        assert await pid(ask, None, era="2025-11-25") == "asked"
        first = await pid(ask, list(A), era="2025-11-25")
        assert await pid(ask, list(B), era="2025-11-25", session="t") != first


@pytest_twisted.ensureDeferred
async def test_the_operators_roots_ask_nobody() -> None:
    """Where the configuration has roots, or one process is for all, a caller's do not count."""
    for settings in ({"roots": ("file:///srv",)}, {"isolation": "shared"}):
        async with host("handshake", **settings) as ask:
            assert (await pid(ask, None)).isdigit()


@pytest_twisted.ensureDeferred
async def test_one_agent_with_many_roots_takes_a_share_of_the_processes() -> None:
    """Its processes that were used longest ago end; there are never more of them than its share."""
    async with host("handshake", max_instances=4) as ask:
        for number in range(8):
            assert (await pid(ask, [{"uri": f"file:///{number}"}])).isdigit()
            assert len(ask.server.instances) <= 3
        assert ask.server.instances.evicted == 5
