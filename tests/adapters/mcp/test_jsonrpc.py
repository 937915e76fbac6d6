"""The JSON-RPC peer over a link that records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import HeaderPairs, Message, Receiver
from agtphost.upstream.failures import (
    CallCancelled,
    ErrorAnswer,
    UpstreamBusy,
    UpstreamFailure,
    UpstreamLost,
    UpstreamTimeout,
)


class RecordingLink:
    """A link that keeps what is sent."""

    pid = None
    takes_headers = True

    def __init__(self, receiver: Receiver) -> None:
        self.sent: list[Message] = []
        self.full = False

    def send(self, message: Message, headers: HeaderPairs = ()) -> None:
        if self.full:
            raise UpstreamBusy("full")
        self.sent.append(message)

    def set_version(self, version: str) -> None: ...

    def close(self) -> Deferred[None]:
        return succeed(None)

    def abort(self, reason: str) -> None: ...

    def facts(self) -> Mapping[str, object]:
        return {}


class Case:
    """A peer and everything it did."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []
        self.losses: list[UpstreamLost] = []
        self.peer = JsonRpcPeer(
            self.clock, RecordingLink, lambda m, p: self.notifications.append((m, p)), self.losses.append
        )
        self.link: RecordingLink = self.peer.link  # type: ignore[assignment]

    def call(self, timeout: float | None = 5.0) -> list[Any]:
        """A call; the list gets its one outcome."""
        outcomes: list[Any] = []
        self.peer.request("tools/call", {"name": "x"}, timeout).addCallbacks(
            outcomes.append, lambda failure: outcomes.append(failure.value)
        )
        return outcomes


def assert_no_deadline_is_left(case: Case) -> None:
    """The one timer that may be there belongs to no call, and goes without a successor."""
    case.clock.advance(5.0)
    assert not case.clock.getDelayedCalls()


@pytest.fixture
def case() -> Case:
    return Case()


def test_answers_reach_their_calls_in_any_order(case: Case) -> None:
    """Calls are told apart by id; results come out as received, unknown members and all."""
    first, second = case.call(), case.call()
    assert [message["id"] for message in case.link.sent] == [1, 2]
    assert case.peer.take_message({"jsonrpc": "2.0", "id": 2, "result": {"new": [1, None]}, "extra": 1})
    assert case.peer.take_message({"jsonrpc": "2.0", "id": 1, "result": None})
    assert case.peer.in_flight == 0
    assert_no_deadline_is_left(case)
    assert (first, second) == ([None], [{"new": [1, None]}])


@pytest.mark.parametrize("wrong", ["1", 1.0, True, None, [1], {"a": 1}, 0, -1, 2, 10**30])
def test_an_answer_with_a_wrong_id_is_ignored(case: Case, wrong: object) -> None:
    """T-MC: only the very id that was sent is an answer, by type too; the call goes on."""
    outcomes = case.call()
    assert case.peer.take_message({"jsonrpc": "2.0", "id": wrong, "result": {}}) is False
    assert (outcomes, case.peer.counters.unknown, case.peer.in_flight) == ([], 1, 1)
    assert case.peer.take_message({"jsonrpc": "2.0", "id": 1, "result": {}})


def test_a_second_answer_is_dropped_and_counted(case: Case) -> None:
    """T-MC: a duplicate id changes nothing."""
    outcomes = case.call()
    for result in ("first", "second"):
        case.peer.take_message({"jsonrpc": "2.0", "id": 1, "result": result})
    assert outcomes == ["first"]
    assert (case.peer.counters.late, case.peer.counters.unknown) == (1, 0)


def test_a_deadline_cancels_at_the_server_and_drops_the_late_answer(case: Case) -> None:
    """Each call ends at its deadline to the tick, tells the server, and its late answer is counted."""
    outcomes = case.call(5.0)
    case.clock.advance(4.999)
    assert outcomes == []
    case.clock.advance(0.001)
    assert isinstance(outcomes[0], UpstreamTimeout)
    assert case.link.sent[1]["method"] == "notifications/cancelled"
    assert case.link.sent[1]["params"]["requestId"] == 1
    assert case.peer.take_message({"jsonrpc": "2.0", "id": 1, "result": {}}) is False
    assert (len(outcomes), case.peer.counters.late) == (1, 1)


def test_a_negotiation_is_not_cancelled_at_the_server(case: Case) -> None:
    """The protocol forbids cancelling initialize and server/discover."""
    for method in ("initialize", "server/discover"):
        case.peer.request(method, {}, 1.0).addErrback(lambda failure: None)
    case.clock.advance(2)
    assert [message["method"] for message in case.link.sent] == ["initialize", "server/discover"]


def test_cancelling_the_deferred_gives_the_call_up(case: Case) -> None:
    """A caller that goes away ends its call, at the server too."""
    outcomes: list[Any] = []
    call = case.peer.request("tools/call", {}, 5.0)
    call.addErrback(lambda failure: outcomes.append(failure.value))
    call.cancel()
    assert_no_deadline_is_left(case)
    assert isinstance(outcomes[0], CallCancelled) and len(outcomes) == 1
    assert [message["method"] for message in case.link.sent] == ["tools/call", "notifications/cancelled"]


def test_the_end_of_the_link_fails_every_call_once(case: Case) -> None:
    """T-MC: EOF fails all pending at once with the exit code, later calls fail with it too."""
    calls = [case.call() for _ in range(50)]
    gone = UpstreamLost("the process ended with exit code 7", exit_code=7)
    case.peer.fail_all(gone)
    case.peer.fail_all(UpstreamLost("again"))
    assert all([str(gone)] == [str(outcome) for outcome in outcomes] for outcomes in calls)
    assert len({id(outcomes[0]) for outcomes in calls}) == 50
    assert case.losses == [gone]
    assert case.call()[0].exit_code == 7
    assert not case.clock.getDelayedCalls()


def test_requests_of_the_server_are_answered(case: Case) -> None:
    """A ping gets an empty result, everything unadvertised -32601, and ids come back as sent."""
    for number, method in enumerate(("ping", "sampling/createMessage", "elicitation/create", "roots/list")):
        assert case.peer.take_message({"jsonrpc": "2.0", "id": f"s{number}", "method": method}) is False
    ping, *others = case.link.sent
    assert ping == {"jsonrpc": "2.0", "id": "s0", "result": {}}
    assert [answer["error"]["code"] for answer in others] == [-32601] * 3
    assert [answer["id"] for answer in others] == ["s1", "s2", "s3"]
    case.link.full = True
    case.peer.take_message({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert case.peer.counters.unanswered == 1


def test_what_is_no_message_is_counted(case: Case) -> None:
    """Numbers, strings, empty objects and oversized batches change nothing."""
    nonsense: list[object] = [
        1,
        "x",
        None,
        {},
        {"id": 1},
        {"method": 3},
        [{}] * 101,
        {"method": "x", "id": [1]},
    ]
    outcomes = case.call()
    for message in nonsense:
        assert case.peer.take_message(message) is False
    assert (outcomes, case.peer.counters.malformed) == ([], len(nonsense))


def test_a_batch_is_taken_apart(case: Case) -> None:
    """Protocol 2025-03-26 may send arrays: every item counts."""
    first, second = case.call(), case.call()
    batch: list[object] = [{"id": 2, "result": "b"}, {"method": "note"}, {"id": 1, "result": "a"}]
    assert case.peer.take_message(batch)
    assert (first, second, case.notifications) == (["a"], ["b"], [("note", {})])


def test_errors_come_out_whole(case: Case) -> None:
    """The error member reaches the caller as received; one that is no object is still an error."""
    outcomes = case.call()
    case.peer.take_message({"id": 1, "error": {"code": -32000, "message": "m", "data": [1], "more": 2}})
    assert isinstance(outcomes[0], ErrorAnswer)
    assert outcomes[0].error == {"code": -32000, "message": "m", "data": [1], "more": 2}
    outcomes = case.call()
    case.peer.take_message({"id": 2, "error": "boom"})
    assert isinstance(outcomes[0], ErrorAnswer)


def test_what_cannot_be_sent_fails_its_own_call(case: Case) -> None:
    """A full queue refuses one call and leaves no trace of it."""
    case.link.full = True
    assert isinstance(case.call()[0], UpstreamBusy)
    assert case.peer.in_flight == 0
    assert_no_deadline_is_left(case)


def test_a_failed_exchange_ends_one_call(case: Case) -> None:
    """HTTP may lose one answer and keep the others."""
    first, second = case.call(), case.call()
    case.peer.fail_call(1, UpstreamFailure("lost"))
    assert isinstance(first[0], UpstreamFailure)
    assert second == []
