"""How runs of workflows end: while their owner pauses or cancels them, and where the journal cannot be written."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.audit.drafts import Draft, Sealed
from agtphost.contract.grants import Grant
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.methods.standard.orchestration.workflows import Unkept, Workflows
from agtphost.testing.ledger import PromptLedger
from tests.methods.standard.orchestration.hosts import Workshop, book, wait
from tests.methods.standard.orchestration.mortal import MortalStore
from tests.rows import each_row


class WaitingLedger(PromptLedger):
    """Writes nothing for as long as it is told to wait."""

    waits = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._pending: list[tuple[Draft, Deferred[Sealed]]] = []

    def submit(self, draft: Draft) -> Deferred[Sealed]:
        """At once, or when it is its turn."""
        if not self.waits:
            return super().submit(draft)
        waiting: Deferred[Sealed] = Deferred()
        self._pending.append((draft, waiting))
        return waiting

    def write_one(self) -> None:
        """Write what was handed in first, and nothing that came meanwhile."""
        draft, waiting = self._pending.pop(0)
        super().submit(draft).chainDeferred(waiting)

    def write_rest(self) -> None:
        """Write the rest in its order, and wait no longer."""
        while self._pending:
            self.write_one()
        self.waits = False


class Unhurried(Workshop):
    """A host with such a ledger."""

    writing = WaitingLedger


def test_a_schedule_that_is_paused_or_cancelled_in_its_last_step_stays_so() -> None:
    """METH-024, METH-047: the run ends, and there is no next one; its ``timeout`` was the run's."""
    host = Workshop()
    given = {"steps": [wait("a")], "every": 60, "timeout": 30}
    paused, cancelled = (host.result("CHAIN", given)["workflow_id"] for _ in range(2))
    host.turn(0.1)
    nonce = host.result("PAUSE", {"workflow_id": paused, "reason": "maintenance"})["resumption_nonce"]
    host.result("CANCEL", {"target_id": cancelled})
    for waiting in host.waiting:
        waiting.callback({"ok": True})
    host.turn()
    assert [host.workflow(each)["status"] for each in (paused, cancelled)] == ["paused", "cancelled"]
    assert host.workflow(paused)["steps"][0]["state"] == "done"
    host.turn(600)
    assert host.rooms() == ["a", "a"]
    assert host.result("RESUME", {"workflow_id": paused, "resumption_nonce": nonce})["status"] == "scheduled"
    host.turn(1)
    assert host.rooms() == ["a", "a", "a"]


@each_row("first", ["CANCEL", "PAUSE", "end"])
def test_what_is_said_of_a_workflow_as_its_run_ends_is_true(first: str) -> None:
    """METH-024, METH-047: in the instant between the end of a run and its record, one of the two happens."""
    host = Unhurried()
    workflow = host.result("CHAIN", {"steps": [wait("a")], "every": 60})["workflow_id"]
    host.turn(0.1)
    method = "CANCEL" if first == "end" else first
    given = {"target_id" if method == "CANCEL" else "workflow_id": workflow}
    answers: list[Any] = []
    ledger = host.core.services.evidence.ledger
    ledger.waits = True
    host.waiting[0].callback({"ok": True})
    host.turn()
    if first == "end":
        ledger.write_one()
        host.turn()
    host.begin(method, "/", given, caller=host.caller).addCallback(answers.append)
    host.turn()
    if first != "end":
        ledger.write_one()
        host.turn()
    ledger.write_rest()
    host.turn(1)
    assert answers[0].status == (409 if first == "end" else 200), answers[0].document
    expected = {"CANCEL": "cancelled", "PAUSE": "paused", "end": "scheduled"}[first]
    assert host.workflow(workflow)["status"] == expected
    host.turn(120)
    assert len(host.rooms()) == (2 if first == "end" else 1)


def test_a_chain_whose_journal_could_not_be_written_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-042: its caller is told that it runs; without anybody who carries it on it ran until a restart."""
    journal, refused = Workflows.journal, [True, True]

    async def now_and_then(self: Workflows, *given: Any) -> None:
        if refused:
            refused.pop()
            raise Unkept("the disk is full")
        await journal(self, *given)

    monkeypatch.setattr(Workflows, "journal", now_and_then)
    host = Workshop()
    steps = [book("a"), {**book("b"), "when": "step1.booked == 'a'"}]
    answer = host.ask("CHAIN", {"steps": steps, "context_propagation": True})
    assert (answer.status, answer.document["result"]["status"]) == (202, "running")
    host.turn(1)
    assert (host.rooms(), len(refused)) == (["a"], 1), "it is not tried all the time"
    host.turn(60)
    host.turn(60)
    assert host.rooms() == ["a", "b"]
    assert host.workflow(answer.document["result"]["workflow_id"])["status"] == "finished"


def test_nothing_goes_on_for_whoever_is_revoked() -> None:
    """A suspended agent's schedule goes on once it is reinstated; a revoked one's has ended, with the reason."""
    host = Workshop()
    workflow = host.result("CHAIN", {"steps": [book("a")], "every": 60})["workflow_id"]
    host.turn(0.1)
    registrar = host.identities.of_key(host.identities.registrar)
    told = {"agent_id": host.caller.agent_id, "reason": "planned"}
    states = []
    for method in ("DEACTIVATE", "REINSTATE", "REVOKE"):
        answer = host.call(method, "/", told, caller=registrar)
        assert answer.status == 200, answer.document
        host.turn(61)
        states.append(host.core.services.evidence.held.get(workflow_items.WORKFLOW, workflow).value)
    assert [each["state"] for each in states] == ["scheduled", "scheduled", "failed"]
    assert [each.get("why", {}).get("reason", "") for each in states] == ["agent-suspended", "", "agent-retired"]
    assert host.rooms() == ["a", "a"]


def test_who_may_not_order_a_workflow_any_more_has_none_begun() -> None:
    """A schedule, whatever its steps are: CHAIN was granted no longer for one run, and is turned off in the end."""
    store = MortalStore()
    host = Workshop(store=store)
    workflow = host.result("CHAIN", {"steps": [book("a")], "every": 60})["workflow_id"]
    host.turn(0.1)
    for allow, rooms in (("BOOK *", 1), ("*", 2)):
        host.core.services.rights.configure([Grant(agent_id=host.caller.agent_id, allow=allow)])
        host.turn(61)
        assert len(host.rooms()) == rooms
    host.core.services.rights.configure([])
    notes = host.result("QUERY", {}, "/notifications")["notifications"]
    assert [note["content"].get("why", {}).get("reason") for note in notes] == [None, "grant-required", None]
    without = Workshop(store=store, standard=["CANCEL", "FETCH"])
    assert without.core
    without.turn(host.clock.seconds() + 121)
    kept = without.core.services.evidence.held.get(workflow_items.WORKFLOW, workflow).value
    assert (kept["why"]["reason"], kept["state"], without.rooms()) == ("method-not-allowed", "scheduled", [])


@each_row("in_time", [True, False])
def test_a_host_that_stops_waits_for_a_chain_that_outlives_its_call(in_time: bool) -> None:
    """METH-042: its step ends, or is cancelled when the time to stop is over; no further step begins."""
    host = Workshop()
    answers: list[Any] = []
    given = {"steps": [wait("a"), wait("b"), wait("c"), book("d")]}
    host.begin("CHAIN", "/", given, caller=host.caller).addCallback(answers.append)
    for number in range(2):
        host.turn(50)
        host.waiting[number].callback({"ok": True})
    host.turn(30)
    assert answers[0].status == 202, answers[0].document
    stopped: list[object] = []
    Deferred.fromCoroutine(host.core.services.lasting.workflows.stop(10.0)).addCallback(stopped.append)
    host.turn(5)
    assert not stopped
    if in_time:
        host.waiting[2].callback({"ok": True})
    host.turn(5.1)
    assert stopped and host.rooms() == ["a", "b", "c"]
    found = workflow_items.steps_of(host.core.services.evidence.held, answers[0].document["result"]["chain_id"], 4)
    assert [found[number].value["state"] for number in (1, 2, 3)] == ["done", "done", "done" if in_time else "failed"]
    assert 4 not in found
