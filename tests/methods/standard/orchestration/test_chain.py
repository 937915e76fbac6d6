"""CHAIN: order, propagation, failure, time, and what is kept (methods v01 section 8.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.methods.standard.orchestration.hosts import Workshop, book, teas, wait
from tests.methods.standard.orchestration.mortal import MortalStore
from tests.rows import each_row


@pytest.fixture(scope="module")
def host() -> Workshop:
    return Workshop()


def test_steps_run_in_order_and_hand_on_what_they_gave(host: Workshop) -> None:
    """METH-042: the draft's use case: each step uses the one before; a receipt with the status of each."""
    host.done.clear()
    steps = [
        teas(capture="found"),
        {"method": "QUERY", "path": "/teas/{kind}", "path_parameters": {"kind": "=found.kind"}},
        book("=found.teas[0]", when="length(found.teas) > `1`"),
        book("=previous.booked", when="found.none"),
    ]
    made = host.result("CHAIN", {"steps": steps, "context_propagation": True})
    assert made["status"] == "finished" and made["chain_id"].startswith("wf-")
    assert [(step["step"], step["state"]) for step in made["steps"]] == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
        (4, "left-out"),
    ]
    assert host.done == [("teas", "green"), ("teas", "green"), ("stay", "green tea")]
    records = host.records()
    assert all(any(record.audit_id == step["audit_id"] for record in records) for step in made["steps"][:3])
    assert host.workflow(made["workflow_id"])["steps"] == made["steps"]


def test_what_grows_from_step_to_step_is_kept_and_read_again() -> None:
    """Each result is inside the next one: the host keeps what it let happen, and the next start reads it."""
    host = Workshop(store=MortalStore())
    criteria = {"v": {"exists": True}}
    steps = [
        {"method": "FILTER", "path": "/", "parameters": {"data": [{"v": value}], "criteria": criteria}}
        for value in (1, *["=previous"] * 23)
    ]
    made = host.result("CHAIN", {"steps": steps, "context_propagation": True, "on_failure": "skip"})
    left = host.result("CHAIN", {"steps": steps, "context_propagation": True, "on_failure": "skip", "background": True})
    host.turn()
    assert (made["status"], host.workflow(left["workflow_id"])["status"]) == ("finished", "finished")
    assert {step["status"] for step in made["steps"]} == {200, 400}, "beyond 64 deep no call is taken"
    assert {"result" in step for step in made["steps"] if step["status"] == 200} == {True, False}
    again = Workshop(store=host.mortal)
    assert again.workflow(made["workflow_id"])["steps"] == made["steps"]


def test_without_propagation_every_text_is_itself(host: Workshop) -> None:
    """METH-042: nothing of what a step gives reaches another unless that is asked for."""
    host.done.clear()
    made = host.result("CHAIN", {"steps": [teas(), book("=step1.kind")]})
    assert made["status"] == "finished" and host.rooms() == ["=step1.kind"]


@each_row(
    ("on_failure", "rooms", "status", "states"),
    [
        ("abort", ["a", "b"], 422, ["done", "failed"]),
        ("skip", ["a", "b", "c"], 200, ["done", "failed", "done"]),
        ("escalate", ["a", "b"], 202, ["done", "failed"]),
    ],
)
def test_what_happens_where_a_step_fails(on_failure: str, rooms: list[str], status: int, states: list[str]) -> None:
    """METH-042: abort, skip, escalate; a step that changes something is not repeated."""
    host = Workshop()
    failing = {"method": "BOOK", "path": "/failing", "parameters": {"room": "b"}}
    given = {"steps": [book("a"), failing, book("c")], "on_failure": on_failure}
    answer = host.ask("CHAIN", given, headers={"Task-ID": "weekly"})
    assert answer.status == status and host.rooms() == rooms, answer.document
    shown = answer.document.get("result") or answer.document["outcome"]
    assert [step["state"] for step in shown["steps"]] == states
    if on_failure == "abort":
        assert answer.document["reason"] == "chain-failed" and answer.document["failed_step"] == 2
    if on_failure == "escalate":
        assert shown["status"] == "paused" and shown["pause"]["escalation_id"].startswith("esc-")


def test_a_step_that_may_be_repeated_is_tried_again() -> None:
    """METH-042: retry; and once its attempts are used up, the chain has failed."""
    host = Workshop()
    host.failures = 2
    steps = [{"method": "QUERY", "path": "/flaky"}, book("a")]
    assert host.ask("CHAIN", {"steps": steps}).status == 422
    answers: list[Any] = []
    pending = host.begin("CHAIN", "/", {"steps": steps, "on_failure": "retry"}, caller=host.caller)
    pending.addCallback(answers.append)
    host.turn(5)
    assert [answer.status for answer in answers] == [200] and host.rooms() == ["a"]
    assert answers[0].document["result"]["steps"][0]["attempt"] == 2
    host.failures = 9
    host.done.clear()
    host.begin("CHAIN", "/", {"steps": steps, "on_failure": "retry"}, caller=host.caller).addCallback(answers.append)
    for _ in range(10):
        host.turn(5)
    assert answers[-1].status == 422 and [kind for kind, _ in host.done] == ["flaky"] * 4


def test_the_time_of_the_whole_is_bounded() -> None:
    """METH-042: the total timeout is 408, with what was done by then."""
    host = Workshop()
    answers: list[Any] = []
    given = {"steps": [book("a"), wait("b"), book("c")], "timeout": 5}
    host.begin("CHAIN", "/", given, caller=host.caller).addCallback(answers.append)
    host.turn(5.1)
    assert [answer.status for answer in answers] == [408], answers and answers[0].document
    outcome = answers[0].document["outcome"]
    begun, until = (datetime.fromisoformat(outcome[name]) for name in ("created_at", "until"))
    assert (until - begun).total_seconds() == 5
    assert host.rooms() == ["a", "b"]
    outcome = answers[0].document["outcome"]
    assert outcome["status"] == "failed" and [step["state"] for step in outcome["steps"]] == ["done", "failed"]


@each_row(
    ("given", "says"),
    [
        ({}, "steps"),
        ({"steps": []}, "steps"),
        ({"steps": [teas()] * 51}, "steps"),
        ({"steps": [{"method": "CHAIN", "parameters": {"steps": [teas()]}}]}, "steps"),
        ({"steps": [{"method": "BATCH"}]}, "steps"),
        ({"steps": [{"method": "book"}]}, "steps"),
        ({"steps": [{"method": "BOOK", "path": "stays"}]}, "steps"),
        ({"steps": [{"method": "QUERY", "path": "/teas?kind=x"}]}, "steps"),
        ({"steps": [{"method": "BOOK", "path": "/a\r\nAgent-ID: x"}]}, "steps"),
        ({"steps": [{"method": "BOOK", "headers": {}}]}, "steps"),
        ({"steps": [book("=step2.x"), teas()], "context_propagation": True}, "steps"),
        ({"steps": [teas(), book("=step1.[")], "context_propagation": True}, "steps"),
        ({"steps": [teas(), book("=[step1,step1]|[@,@]")], "context_propagation": True}, "steps"),
        ({"steps": [teas()] + [book("=step1" + ".x" * 50)] * 40, "context_propagation": True}, "steps"),
        ({"steps": [teas(capture="a"), teas(capture="a")]}, "steps"),
        ({"steps": [teas()], "on_failure": "shrug"}, "on_failure"),
        ({"steps": [teas()], "timeout": 0}, "timeout"),
        ({"steps": [teas()], "every": 1}, "every"),
        ({"steps": [teas()], "runs": 2}, "runs"),
        ({"steps": [teas()], "start_at": "2020-01-01T00:00:00Z"}, "start_at"),
        ({"steps": [teas()], "callback": "https://evil.example"}, "callback"),
    ],
)
def test_what_cannot_be_a_chain_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    """METH-042: 422 that names the parameter, before anything is called."""
    host = SHARED()
    host.done.clear()
    answer = host.ask("CHAIN", given)
    assert (answer.status, answer.document["parameter"]) == (422, says), answer.document
    assert host.done == []


_SHARED: list[Workshop] = []


def SHARED() -> Workshop:
    """One host for rows that leave nothing behind."""
    if not _SHARED:
        _SHARED.append(Workshop())
    return _SHARED[0]
