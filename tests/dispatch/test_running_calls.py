"""Calls that wait while their caller or their addressee is stopped."""

from __future__ import annotations

import timeit
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.contract.binding import Binding
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.running_calls import RunningCalls
from agtphost.identity.peer import Assurance, Peer
from tests.dispatch.hosts import CALLER, HOSTED, DispatchHost, Recorder, document, known, payload
from tests.measuring import measured
from tests.rows import each_row


class WaitingHost(DispatchHost):
    """A host whose handlers wait."""

    def __init__(self, **changes: Any) -> None:
        self.working: list[Deferred[Any]] = []
        self.cancelled = 0
        super().__init__(lambda context: self._work(), **changes)

    @property
    def running(self) -> RunningCalls:
        return self.core.services.lasting.running

    def _work(self) -> Deferred[Any]:
        self.working.append(Deferred(lambda _: self._cancel()))
        return self.working[-1]

    def _cancel(self) -> None:
        self.cancelled += 1

    def stop(self, agent_id: str, status: LifecycleStatus) -> None:
        self.put(agent_id, status.value)
        self.clock.advance(0)


CASES = [
    (CALLER, LifecycleStatus.SUSPENDED, 503, "agent-suspended"),
    (CALLER, LifecycleStatus.RETIRED, 410, "agent-retired"),
    (HOSTED, LifecycleStatus.SUSPENDED, 503, "agent-suspended"),
    (HOSTED, LifecycleStatus.RETIRED, 410, "agent-retired"),
]


@each_row(("agent_id", "status", "code", "reason"), CASES)
@each_row("call", [("QUERY", "/words"), ("RESERVE", "/desk")])
def test_a_running_call_ends_with_its_agent(
    agent_id: str, status: LifecycleStatus, code: int, reason: str, call: tuple[str, str]
) -> None:
    """AGTP-233, AGTP-235: also one that changes the world; its handler is cancelled, the refusal sealed."""
    host = WaitingHost()
    answers: list[Any] = []
    host.start(*call, {"text": "x"}).addCallback(answers.append)
    assert not answers and len(host.running) == 1
    host.stop(agent_id, status)
    assert [answer.status for answer in answers] == [code] and host.cancelled == 1
    assert document(answers[0])["reason"] == reason
    assert payload(host)["status"] == code
    assert len(host.running) == 0 and host.clock.getDelayedCalls() == []


def test_waiting_calls_are_listed() -> None:
    """Who waits for what, since when and from where, the longest first; a call that is over is not."""
    host = WaitingHost()
    host.start("RESERVE", "/desk", {"text": "x"})
    host.start("QUERY", "/words", {"text": "x"}, headers={"Task-ID": "task-7"})
    first, second = host.running.list()
    assert (first.method, first.path, first.caller, first.caller_id) == ("RESERVE", "/desk", "caller", CALLER)
    assert (first.agent_id, first.depth, first.task_id) == (HOSTED, 0, "")
    assert (second.method, second.path, second.task_id) == ("QUERY", "/words", "task-7")
    assert first.since <= second.since and first.address and first.response_id != second.response_id
    host.working[0].callback({})
    assert [call.response_id for call in host.running.list()] == [second.response_id]
    host.working[1].callback({})
    assert list(host.running.list()) == []


def test_an_anonymous_call_is_listed() -> None:
    """Nobody's agent ends with it, and yet it waits."""
    host = WaitingHost()
    host.start("QUERY", "/public", {}, peer=Peer(address="192.0.2.7"))
    (call,) = host.running.list()
    assert (call.caller_id, call.caller, call.address) == ("", "", "192.0.2.7")
    host.working[0].callback({})
    assert list(host.running.list()) == []


def test_the_control_goes_on() -> None:
    """A dispatcher without the registry leaves the call running: the test above would notice."""
    host = WaitingHost()
    own = host.core.admission
    deaf = Dispatcher(own.gates, host.ledger, own.sealer, host.clock, 30.0)
    answers: list[Any] = []
    asked = host.request("RESERVE", "/desk", {"text": "x"})
    Deferred.fromCoroutine(deaf.dispatch(asked, known())).addCallback(answers.append)
    host.stop(CALLER, LifecycleStatus.RETIRED)
    assert not answers and host.cancelled == 0


def test_what_ends_by_itself_leaves_nothing() -> None:
    """An entry lasts as long as its call."""
    host = WaitingHost()
    host.start("RESERVE", "/desk", {"text": "x"})
    host.working[0].callback({"done": True})
    assert len(host.running) == 0
    host.stop(CALLER, LifecycleStatus.DEPRECATED)
    assert host.ask("RESERVE", "/desk", {"text": 1}).status == 422


def test_a_handler_that_fails_to_end_keeps_no_other_running() -> None:
    """One that breaks when it is cancelled: the others of the agent end all the same."""
    host = WaitingHost()
    answers: list[Any] = []
    for _ in range(3):
        host.start("RESERVE", "/desk", {"text": "x"}).addCallback(answers.append)
    host.working[1].addErrback(lambda failure: failure.trap(CancelledError) and 1 / 0)
    host.stop(CALLER, LifecycleStatus.RETIRED)
    assert [answer.status for answer in answers] == [410, 410, 410]


def test_an_agent_stopped_while_a_gate_waits_calls_nothing() -> None:
    """What the gates above saw is looked at again, once one of them had to wait."""
    host = WaitingHost()
    waiting: Deferred[None] = Deferred()

    class Waiting:
        name = "waiting"

        def check(self, exchange: object) -> Deferred[None]:
            return waiting

    answers: list[Any] = []
    host.rewire([*host.gates, Waiting()])
    host.start("RESERVE", "/desk", {"text": "x"}).addCallback(answers.append)
    host.stop(CALLER, LifecycleStatus.RETIRED)
    waiting.callback(None)
    assert answers[0].status == 410 and host.recorder.calls == []


def test_a_method_that_reaches_stopped_agents_is_not_ended() -> None:
    """INSPECT of an agent that is being stopped goes on: that is how one sees that it was."""
    working: Deferred[Any] = Deferred()
    handler = Recorder(lambda _: working)
    looking = Binding(method="INSPECT", path="/words", handler=handler, tier="A", min_assurance=Assurance.NONE)
    host = WaitingHost(bindings=[looking])
    answers: list[Any] = []
    host.start("INSPECT", "/words", peer=Peer(address="127.0.0.1")).addCallback(answers.append)
    host.stop(HOSTED, LifecycleStatus.RETIRED)
    assert answers == []
    working.callback({"seen": True})
    assert answers[0].status == 200


@measured
def test_it_costs_next_to_nothing() -> None:
    """Entering and leaving takes about a microsecond, and only calls that wait pay it."""
    host = WaitingHost()
    host.start("RESERVE", "/desk", {"text": "x"})
    exchange = host.recorder.calls[0].invoke.__self__._exchange  # type: ignore[union-attr]

    def once() -> None:
        entry = host.running.entry_for(exchange, None)
        entry.add(print)
        entry.discard(print)

    assert min(timeit.repeat(once, number=1000, repeat=5)) / 1000 < 20e-6
