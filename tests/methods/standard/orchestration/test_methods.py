"""BATCH, ROUTE, RETRY, PAUSE, RESUME, RUN and MONITOR in memory: the draft's use cases and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.grants import Grant
from agtphost.dispatch import generated_code
from agtphost.methods.oversight import notification
from agtphost.methods.standard.orchestration import batch, monitor_state, workflow_items
from tests.methods.standard.orchestration.hosts import RECIPES, Workshop, book, teas, wait
from tests.methods.standard.orchestration.mortal import MortalStore
from tests.rows import each_row


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    file: Path = tmp_path_factory.mktemp("recipes") / "recipes.toml"
    file.write_text(RECIPES, encoding="utf-8")
    return Workshop(
        {"recipes": {"file": str(file)}, "methods": {"standard": "*", "procedures": {"quality-check": "quality"}}}
    )


# BATCH


def test_a_batch_tells_the_outcome_of_each_call(host: Workshop) -> None:
    """METH-043: twenty calls, each with a record of its own, in the order in which they were given."""
    calls = [teas(str(number)) for number in range(19)] + [{"method": "QUERY", "path": "/nowhere"}]
    before = len(host.records())
    made = host.result("BATCH", {"calls": calls, "partial_success": True})
    assert [outcome["status"] for outcome in made["outcomes"]] == [200] * 19 + [404]
    assert [outcome["result"]["kind"] for outcome in made["outcomes"][:19]] == [str(number) for number in range(19)]
    assert (made["succeeded"], made["failed"]) == (19, 1) and len(host.records()) == before + 21


def test_without_partial_success_nothing_new_begins_behind_a_failure(host: Workshop) -> None:
    """METH-043: 422 with the outcome of each, and those that were not made."""
    host.done.clear()
    calls = [book("a"), {"method": "QUERY", "path": "/nowhere"}, book("b")]
    answer = host.ask("BATCH", {"calls": calls, "execution_mode": "sequential"})
    assert (answer.status, answer.document["reason"]) == (422, "batch-failed")
    assert [outcome["reason"] for outcome in answer.document["outcomes"] if not outcome["ok"]] == [
        "not-found",
        "not-made",
    ]
    assert host.rooms() == ["a"]


def test_a_batch_says_of_results_that_do_not_fit_that_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-043: what a hundred long answers come to is bounded, and how deep they are; each call has its record."""
    monkeypatch.setattr(batch, "MOST_OCTETS", 100_000)
    deep: Any = 1
    for _ in range(batch.MOST_DEEP):
        deep = {"in": deep}
    host = Workshop()
    answers = {"/long": {"text": "x" * 40_000}, "/deep": deep, "/deeper": {"in": deep}}
    for path, answer in answers.items():
        host.endpoint("QUERY", path, lambda context, answer=answer: answer)
    paths = ["/long", "/long", "/long", "/teas", "/deep", "/deeper"]
    calls = [
        {"method": "QUERY", "path": path, "parameters": {"kind": "a"} if path == "/teas" else {}} for path in paths
    ]
    before = len(host.records())
    outcomes = host.result("BATCH", {"calls": calls})["outcomes"]
    assert len(host.records()) == before + 7 and all(outcome["ok"] for outcome in outcomes)
    assert ["result" in outcome for outcome in outcomes] == [True, True, False, True, True, False]
    assert [outcome.get("omitted") for outcome in outcomes] == [None, None, "long", None, None, "deep"]
    assert outcomes[2]["octets"] > 40_000 and outcomes[2]["audit_id"]


def test_eight_that_change_something_are_made_at_a_time(host: Workshop) -> None:
    """METH-043: parallel, and bounded; sequential takes one after the other."""
    host.waiting.clear()
    answers: list[Any] = []
    host.begin("BATCH", "/", {"calls": [wait(str(n)) for n in range(10)]}, caller=host.caller).addCallback(
        answers.append
    )
    host.turn()
    assert len(host.waiting) == 8
    for waited in list(host.waiting):
        waited.callback({"ok": True})
    host.turn()
    assert len(host.waiting) == 10
    for waited in host.waiting[8:]:
        waited.callback({"ok": True})
    host.turn()
    assert [answer.status for answer in answers] == [200]


@each_row(
    ("given", "says"),
    [
        ({}, "calls"),
        ({"calls": []}, "calls"),
        ({"calls": [teas()] * 101}, "calls"),
        ({"calls": [{"method": "BATCH"}]}, "calls"),
        ({"calls": [{"method": "RETRY"}]}, "calls"),
        ({"calls": [{"method": "QUERY", "path": 5}]}, "calls"),
        ({"calls": [{"method": "QUERY", "parameters": []}]}, "calls"),
        ({"calls": [teas()], "execution_mode": "wild"}, "execution_mode"),
        ({"calls": [teas()], "partial_success": "yes"}, "partial_success"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    """METH-043: 422 that names the parameter, and nothing is called."""
    host = _shared()
    host.done.clear()
    answer = host.ask("BATCH", given)
    assert (answer.status, answer.document["parameter"]) == (422, says), answer.document
    assert host.done == []


_SHARED: list[Workshop] = []


def _shared() -> Workshop:
    if not _SHARED:
        _SHARED.append(Workshop())
    return _SHARED[0]


# ROUTE


@each_row(
    ("given", "expected"),
    [
        ({"criteria": [{"when": "topic == 'tea'", "to": "QUERY /teas"}]}, ("QUERY /teas", "rule")),
        (
            {"criteria": [{"when": "topic == 'x'", "to": "BOOK /stays"}], "fallback": "QUERY /teas"},
            ("QUERY /teas", "fallback"),
        ),
        (
            {
                "criteria": {"tier": "gold"},
                "candidates": [{"id": "QUERY /teas", "tier": ["silver"]}, {"id": "BOOK /stays", "tier": ["gold"]}],
            },
            ("BOOK /stays", "criteria"),
        ),
        (
            {"criteria": {}, "candidates": ["BOOK /stays", {"id": "QUERY /teas", "topics": "tea leaves"}]},
            ("QUERY /teas", "search"),
        ),
        ({"criteria": [{"when": "topic == 'x'", "to": "BOOK /stays"}]}, 404),
        ({"criteria": [{"when": "topic == 'tea'", "to": "BOOK /nowhere"}]}, 503),
        (
            {"criteria": {"tier": "gold"}, "candidates": [{"id": "QUERY /teas", "tier": "gold", "available": False}]},
            503,
        ),
        ({"criteria": [{"when": "topic ==", "to": "x"}]}, 422),
        ({"criteria": [{"when": "topic"}]}, 422),
    ],
)
def test_a_payload_finds_its_handler(given: dict[str, Any], expected: Any) -> None:
    """METH-045: topic, tier and availability; rules, then search; the fallback, else 404; 503."""
    answer = _shared().ask("ROUTE", {"payload": {"topic": "tea"}, **given})
    if isinstance(expected, int):
        assert answer.status == expected, answer.document
        return
    result = answer.document["result"]
    assert (result["handler"], result["decision"]["by"]) == expected, answer.document


# RETRY


def test_what_may_not_happen_twice_is_not_made_again() -> None:
    """METH-046: neither idempotent nor keyed is 409; with its key, the host answers from what it kept."""
    host = Workshop()
    for key in ("", "k-1"):
        headers = {"Task-ID": f"t{key}", **({"Idempotency-Key": key} if key else {})}
        failed = host.ask("BOOK", {"room": "b"}, "/failing", headers=headers)
        assert failed.status == 500
    runs = len(host.rooms())
    answer = host.ask("RETRY", {"original_task_id": "t"})
    assert (answer.status, answer.document["reason"]) == (409, "retry-not-repeatable")
    assert host.ask("RETRY", {"original_task_id": "tk-1"}).status == 500
    assert len(host.rooms()) == runs, "a keyed call ran twice"
    assert host.ask("RETRY", {"original_task_id": "tk-1", "max_attempts": 2}).document["reason"] == "retry-exhausted"
    # A stranger has no such call.
    other = host.agent("other", scopes=("documents:query",))
    assert host.ask("RETRY", {"original_task_id": "t"}, caller=other).status == 404


def test_what_the_service_behind_an_endpoint_was_not_there_for_is_made_again() -> None:
    """METH-046: an endpoint says by a declared error that its upstream was slow; any other one of it is an answer."""
    host = Workshop()
    for error, status in (("upstream_timeout", 200), ("upstream_error", 404)):
        host.failures, host.failure = 1, error
        assert host.ask("QUERY", {}, "/flaky", headers={"Task-ID": error}).status == 422
        assert host.ask("RETRY", {"original_task_id": error}).status == status, error


def test_a_read_is_made_again_now_or_later() -> None:
    """METH-046: an idempotent call, at once and after a delay, as a workflow of its own."""
    host = Workshop()
    host.broken = 2
    assert host.ask("QUERY", {}, "/breaking", headers={"Task-ID": "t"}).status == 500
    again = host.ask("RETRY", {"original_task_id": "t"})
    assert again.status == 500 and again.document["attempt"] == 2
    made = host.result("RETRY", {"original_task_id": "t"})
    assert (made["original_task_id"], made["attempt"], made["status"]) == ("t", 3, 200) and made["audit_id"]
    assert host.ask("RETRY", {"original_task_id": "t"}).document["reason"] == "retry-already-done"
    host.broken = 1
    assert host.ask("QUERY", {}, "/breaking", headers={"Task-ID": "u"}).status == 500
    later = host.result("RETRY", {"original_task_id": "u", "delay": 90})
    assert host.broken == 0 and host.workflow(later["workflow_id"])["status"] == "scheduled"
    host.turn(91)
    assert host.workflow(later["workflow_id"])["status"] == "finished"


# PAUSE and RESUME


def test_a_schedule_is_paused_for_maintenance_and_goes_on_by_itself() -> None:
    """METH-047: the draft's use case: a recurring workflow, a maintenance window, resume_at."""
    host = Workshop()
    begun = host.result("CHAIN", {"steps": [book("=nightly")], "every": 60, "runs": 3})
    host.turn(0.1)
    assert len(host.rooms()) == 1
    workflow = begun["workflow_id"]
    until = workflow_items.stamp(host.seconds() + 200)
    told = host.result("PAUSE", {"workflow_id": workflow, "reason": "maintenance", "resume_at": until})
    assert told["status"] == "paused" and told["resume_at"] == until
    host.turn(150)
    assert len(host.rooms()) == 1 and host.workflow(workflow)["pause"]["reason"] == "maintenance"
    assert host.ask("PAUSE", {"workflow_id": workflow}).document["reason"] == "workflow-not-running"
    host.turn(51)
    assert len(host.rooms()) == 2
    host.turn(61)
    assert len(host.rooms()) == 3 and host.workflow(workflow)["status"] == "finished"
    assert host.ask("RESUME", {"workflow_id": workflow}).document["reason"] == "workflow-not-paused"


def test_a_running_chain_is_paused_between_two_steps() -> None:
    """METH-047, METH-048: the step that runs ends; the nonce of PAUSE resumes, and no other."""
    host = Workshop()
    answers: list[Any] = []
    host.begin("CHAIN", "/", {"steps": [wait("a"), book("b")]}, caller=host.caller).addCallback(answers.append)
    host.turn()
    [listed] = host.result("QUERY", {"state": "running"}, "/workflows")["workflows"]
    workflow = listed["workflow_id"]
    told = host.result("PAUSE", {"workflow_id": workflow})
    assert told["under_way"] == 1
    host.waiting[0].callback({"ok": True})
    host.turn()
    assert answers[0].status == 202 and answers[0].document["result"]["status"] == "paused"
    assert host.rooms() == ["a"]
    other = host.agent("other", scopes=("documents:query",))
    assert host.ask("RESUME", {"workflow_id": workflow, "resumption_nonce": "x"}, caller=other).status == 404
    assert host.ask("RESUME", {"workflow_id": workflow, "resumption_nonce": "x"}).document["reason"] == "nonce-invalid"
    assert host.ask("PAUSE", {"workflow_id": workflow}, caller=other).status == 404
    assert host.ask("INSPECT", {"target": "workflow", "workflow_id": workflow}, caller=other).status == 404
    host.result("RESUME", {"workflow_id": workflow, "resumption_nonce": told["resumption_nonce"]})
    host.turn()
    assert host.rooms() == ["a", "b"] and host.workflow(workflow)["status"] == "finished"
    [note] = host.result("QUERY", {}, "/notifications")["notifications"]
    assert (note["topic"], note["content"]["workflow_id"]) == ("workflow-outcome", workflow)


def test_what_goes_on_by_itself_is_called_off() -> None:
    """METH-024: a schedule ends by CANCEL, and a chain behind the step that runs; what has ended is 409."""
    host = Workshop()
    schedule = host.result("CHAIN", {"steps": [book("=nightly")], "every": 60})["workflow_id"]
    host.turn(0.1)
    other = host.agent("other", scopes=("documents:query",))
    assert host.ask("CANCEL", {"target_id": schedule}, caller=other).status == 404
    told = host.result("CANCEL", {"target_id": schedule, "reason": "no more"})
    assert (told["kind"], host.workflow(schedule)["status"]) == ("workflow", "cancelled")
    host.turn(150)
    assert len(host.rooms()) == 1
    for refused in ("CANCEL", "PAUSE", "RESUME"):
        given = {"target_id" if refused == "CANCEL" else "workflow_id": schedule}
        assert host.ask(refused, given).status == 409, refused
    answers: list[Any] = []
    host.begin("CHAIN", "/", {"steps": [wait("a"), book("b")]}, caller=host.caller).addCallback(answers.append)
    host.turn()
    [listed] = host.result("QUERY", {"state": "running"}, "/workflows")["workflows"]
    host.result("CANCEL", {"target_id": listed["workflow_id"]})
    host.waiting[0].callback({"ok": True})
    host.turn()
    assert (answers[0].status, answers[0].document["outcome"]["status"]) == (422, "cancelled")
    shown = host.workflow(listed["workflow_id"])
    assert [(step["step"], step["state"]) for step in shown["steps"]] == [(1, "done")]
    assert host.rooms() == ["=nightly", "a"], "nothing begins any more"


def test_what_was_called_off_while_it_ran_stays_so_over_a_crash() -> None:
    """Whoever starts next begins nothing of it, and tells what became of its steps."""
    store = MortalStore()
    host = Workshop(store=store)
    left = {"steps": [book("a"), wait("b"), book("c")], "background": True}
    workflow = host.result("CHAIN", left)["workflow_id"]
    host.turn()
    host.result("CANCEL", {"target_id": workflow})
    again = Workshop(store=store)
    again.turn()
    shown = again.workflow(workflow)
    assert (shown["status"], [step["state"] for step in shown["steps"]]) == ("cancelled", ["done", "begun"])
    assert again.rooms() == []


@pytest.mark.parametrize("outcome", ["done", "skip"])
def test_a_scheduled_workflow_is_resumed_with_a_checkpoint(outcome: str) -> None:
    """METH-048: a state override: the step that it stands before has that outcome, and is not called."""
    host = Workshop()
    steps = [{**teas("black"), "capture": "tea"}, book("=tea.kind")]
    start = workflow_items.stamp(host.seconds() + 30)
    order = {"steps": steps, "start_at": start, "every": 60, "runs": 2, "context_propagation": True}
    workflow = host.result("CHAIN", order)["workflow_id"]
    host.result("PAUSE", {"workflow_id": workflow})
    for wrong in (
        {"step": 2, "outcome": "done"},
        {"step": 1, "outcome": "repeat"},
        {"step": 3, "outcome": "skip"},
        {"step": "1", "outcome": "done"},
        {"step": True, "outcome": "done"},
        {"step": 1},
        {"outcome": "done"},
        {"step": 1, "outcome": "done", "more": 1},
        "done",
    ):
        refused = host.ask("RESUME", {"workflow_id": workflow, "checkpoint": wrong})
        assert (refused.status, refused.document["parameter"]) == (422, "checkpoint"), wrong
    told = {"step": 1, "outcome": outcome, **({"result": {"kind": "green"}} if outcome == "done" else {})}
    resumed = host.ask("RESUME", {"workflow_id": workflow, "checkpoint": told})
    assert resumed.status == 200 and resumed.document["result"]["status"] == "scheduled", resumed.document
    assert _payload(host)["extra"]["workflow"]["checkpoint"] == {"step": 1, "outcome": outcome}
    host.turn(31)
    expected = ["green"] if outcome == "done" else []
    assert host.rooms()[:1] == expected
    host.turn(61)
    assert host.rooms()[len(expected) :] == ["black"], "the run after it is as it was ordered"


def test_a_checkpoint_does_not_stand_for_a_validation_of_generated_code(host: Workshop) -> None:
    """VALIDATE between GENERATE and RUN is called, or the workflow stands still."""
    steps = [
        {"method": "GENERATE", "parameters": {"output_type": "code"}, "capture": "code"},
        {"method": "VALIDATE", "parameters": {"target": "=code.content", "schema": "recipe"}},
        {"method": "RUN", "parameters": {"procedure_id": "quality-check", "input": {"dataset": "=code.content"}}},
    ]
    order = {"steps": steps, "start_at": workflow_items.stamp(host.seconds() + 900), "context_propagation": True}
    workflow = host.result("CHAIN", order)["workflow_id"]
    host.result("PAUSE", {"workflow_id": workflow})
    host.result("RESUME", {"workflow_id": workflow, "checkpoint": {"step": 1, "outcome": "done", "result": {}}})
    host.result("PAUSE", {"workflow_id": workflow})
    for outcome in ("done", "skip"):
        told = {"step": 2, "outcome": outcome, "result": {"valid": True}}
        refused = host.ask("RESUME", {"workflow_id": workflow, "checkpoint": told})
        assert (refused.status, refused.document["parameter"]) == (422, "checkpoint"), refused.document
    host.result("CANCEL", {"target_id": workflow})


def test_a_session_is_still_resumed_by_its_nonce(host: Workshop) -> None:
    """METH-048: one RESUME for both, told apart by what the caller has of that name."""
    held = host.result("SUSPEND", {"task_id": "t-9", "reason": "scheduled_pause"})
    assert host.ask("RESUME", {"workflow_id": "t-9"}).status == 422
    resumed = host.result("RESUME", {"workflow_id": "t-9", "resumption_nonce": held["resumption_nonce"]})
    assert resumed["task_id"] == "t-9" and host.ask("RESUME", {"workflow_id": "t-9"}).status in (409, 422)


# RUN


def test_a_registered_procedure_runs_and_its_record_says_so(host: Workshop) -> None:
    """METH-049, METH-058: the draft's use case; the record has procedure, input without secrets, and agent."""
    given = dict.fromkeys(("api_token", "api_key", "Authorization", "db-passwd", "privateKey"), "s3")
    made = host.result("RUN", {"procedure_id": "quality-check", "input": {**given, "dataset": "oolong"}})
    assert made["result"] == {"good": ["oolong tea", "mint"], "of": "oolong"}
    told = _payload(host)["extra"]["procedure"]
    assert told == {
        "procedure_id": "quality-check",
        "agent_id": host.caller.agent_id,
        "input": {"input": {"dataset": "oolong"}},
        "hidden": [f"input.{name}" for name in given],
    }


def test_the_record_of_a_deep_input_can_be_read(host: Workshop) -> None:
    """METH-058: signed documents are read 32 deep; of an input that would be deeper there, there is the hash."""
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert host.ask("RUN", {"procedure_id": "quality-check", "input": {"dataset": deep}}).status == 422
    told = _payload(host)["extra"]["procedure"]
    assert ("input" in told, len(told["input_hash"])) == (False, 64)


def _payload(host: Workshop) -> Any:
    from agtphost.identity.jws import parse_unverified

    return parse_unverified(host.records()[-1].signed.decode())


@each_row(
    ("given", "status"),
    [
        ({"procedure_id": "other"}, 404),
        ({"procedure_id": "rm -rf /"}, 422),
        ({"procedure_id": "quality-check; ls"}, 422),
        ({"procedure_id": ["quality-check"]}, 422),
        ({}, 422),
        ({"procedure_id": "quality-check", "input": "rm -rf /"}, 422),
        ({"procedure_id": "quality-check", "script": "rm -rf /"}, 422),
        ({"procedure_id": "quality-check", "timeout": -1}, 422),
    ],
)
def test_nothing_else_is_ever_run(host: Workshop, given: dict[str, Any], status: int) -> None:
    """METH-057: no name outside the registry, and no free-form text."""
    host.done.clear()
    answer = host.ask("RUN", given)
    assert answer.status == status, answer.document
    assert host.done == []


def test_without_activation_run_nothing_runs(host: Workshop) -> None:
    """METH-049: 455 before anything else is looked at."""
    weak = host.agent("weak", scopes=("documents:query",))
    answer = host.ask("RUN", {"procedure_id": "quality-check", "input": {"dataset": "x"}}, caller=weak)
    assert (answer.status, answer.document["missing_scopes"]) == (455, ["activation:run"])


def test_generated_code_does_not_come_to_run(host: Workshop) -> None:
    """METH-059: neither in a chain, nor from one call to the next, before somebody has looked at it."""
    held, code = host.core.services.evidence.held, "print('x')\n\nprint('y')"
    run = {"method": "RUN", "parameters": {"procedure_id": "quality-check", "input": {"dataset": "=code.content"}}}
    generate = {"method": "GENERATE", "parameters": {"output_type": "code"}, "capture": "code"}
    hop = {"method": "QUERY", "path": "/teas", "parameters": {"kind": "=code.content"}, "capture": "code2"}
    through = {**run, "parameters": {**run["parameters"], "input": {"dataset": "=previous.kind"}}}
    for steps in ([generate, run], [generate, hop, through], [{**generate, "parameters": {"output_type": "=x"}}, run]):
        answer = host.ask("CHAIN", {"steps": steps, "context_propagation": True})
        assert answer.status in (403, 422) and answer.document["reason"] in ("generated-code", "invalid-parameter")
    assert host.ask("CHAIN", {"steps": [generate, run], "context_propagation": True}).status == 403
    # Between calls: the mark that GENERATE leaves, and VALIDATE takes away.
    change = generated_code.mark_change(code, host.caller.agent_id, host.seconds())
    _commit(host, change)
    given = {"procedure_id": "quality-check", "input": {"dataset": "print('x')  \r\nprint('y')\n"}}
    answer = host.ask("RUN", given)
    assert (answer.status, answer.document["reason"]) == (403, "generated-code")
    _commit(host, *generated_code.clear_changes(held, {"target": code}))
    assert host.result("RUN", given)["procedure_id"] == "quality-check"


def _commit(host: Workshop, *changes: Any) -> None:
    from agtphost.audit.drafts import HOST_CHAIN, Draft, StreamEvent

    event = StreamEvent(chain=HOST_CHAIN, event_type="test")
    done = host.core.services.evidence.ledger.submit(
        Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=(event,))
    )
    done.addErrback(lambda failure: failure.raiseException())


# MONITOR


def test_what_is_observed_comes_into_the_inbox_until_it_is_cancelled() -> None:
    """METH-044: a receipt, updates by notification, and NOTIFY with monitor_cancel."""
    host = Workshop()
    made = host.result("MONITOR", {"target": "own", "events": ["workflow"], "callback": "inbox"})
    subscription = made["subscription_id"]
    workflow = host.result("CHAIN", {"steps": [book("a")], "start_at": workflow_items.stamp(host.seconds() + 50)})[
        "workflow_id"
    ]
    host.turn(1)
    host.turn(60)
    told = [
        change
        for note in host.result("QUERY", {}, "/notifications")["notifications"]
        if note["topic"] == "monitor"
        for change in note["content"]["changes"]
    ]
    assert {change["subject"] for change in told} == {workflow}
    assert (told[0]["to"], told[-1]["to"]) == ("scheduled", "finished")
    other = host.agent("other", scopes=("documents:query",))
    cancel = {"recipient": "planner", "content": {"event_type": "monitor_cancel", "subscription_id": subscription}}
    assert host.ask("NOTIFY", cancel, caller=other).status == 404
    assert host.result("NOTIFY", cancel)["status"] == "cancelled"
    assert host.ask("NOTIFY", cancel).status == 404
    assert host.result("QUERY", {}, "/monitors")["count"] == 0


@each_row(
    ("given", "status"),
    [
        ({"callback": "https://evil.example/hook"}, 403),
        ({"callback": "agtp://elsewhere.example/notifications"}, 403),
        ({"callback": "librarian"}, 403),
        ({"callback": "librarian/notifications"}, 403),
        ({"callback": "librarian/inbox"}, 403),
        ({"callback": "/agents/librarian/notifications"}, 403),
        ({"callback": "agtp://elsewhere.example/inbox"}, 403),
        ({"callback": None}, 422),
        ({"callback": ""}, 422),
        ({"target": "nobody", "events": ["lifecycle"]}, 404),
        ({"target": "upstream:files", "events": ["upstream"]}, 403),
        ({"target": "own", "events": ["weather"]}, 422),
        ({"target": "own", "events": []}, 422),
        ({"target": "wf-none", "events": ["workflow"]}, 404),
        ({"target": {"metric": "price"}, "events": ["metric"]}, 422),
        ({"target": "own", "events": ["workflow"], "threshold": "much"}, 422),
        ({"target": [], "events": ["lifecycle"]}, 422),
        ({"target": [7], "events": ["lifecycle"]}, 422),
        ({"target": ["self"] * 101, "events": ["lifecycle"]}, 422),
        ({"target": ["self", "nobody"], "events": ["lifecycle"]}, 404),
        ({"target": ["self", "metric:trust_score"], "events": ["trust_score"]}, 422),
        ({"target": ["own"], "events": ["trust_score"]}, 404),
        ({"target": ["own", "wf-none"], "events": ["workflow"]}, 404),
        ({"target": ["upstream:files", "self"], "events": ["upstream"]}, 403),
        ({"target": ["own", "upstream:none"], "events": ["workflow"]}, 422),
        ({"target": "own", "events": ["workflow"], "interval": 0}, 422),
    ],
)
def test_only_the_own_inbox_and_what_one_may_see(given: dict[str, Any], status: int) -> None:
    """METH-060: the callback is verified first; what the caller could not look at is not observed for it."""
    host = _shared()
    asked = {"target": "own", "events": ["workflow"], "callback": "inbox", **given}
    asked = {name: value for name, value in asked.items() if value is not None}
    answer = host.ask("MONITOR", asked)
    assert answer.status == status, answer.document
    assert host.result("QUERY", {}, "/monitors")["count"] == 0


def test_a_callback_that_takes_nothing_is_subscribed_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-060: an inbox without room is not reachable; what was observed comes in once there is room again."""
    host = Workshop()
    monkeypatch.setattr(notification, "PER_SENDER", 2)
    for number in range(2):
        host.result("NOTIFY", {"recipient": host.caller.agent_id, "content": {"number": number}})
    asked = {"target": "own", "events": ["workflow"], "callback": "inbox"}
    refused = host.ask("MONITOR", asked)
    assert (refused.status, refused.document["reason"]) == (429, "inbox-full")
    assert host.result("QUERY", {}, "/monitors")["count"] == 0
    monkeypatch.setattr(notification, "PER_SENDER", 3)
    assert host.ask("MONITOR", asked).status == 200


def test_who_may_not_subscribe_any_more_is_told_nothing() -> None:
    """METH-044: narrowed, it is told when it may know again; revoked, the subscription is gone."""
    host = Workshop()
    given = {"target": "own", "events": ["workflow"], "callback": "inbox"}
    key = host.result("MONITOR", given)["subscription_id"]
    rights = host.core.services.rights

    def told() -> int:
        found = host.core.services.evidence.held.get("monitor", key)
        return -1 if found is None else int(found.value["told"])

    rights.configure([Grant(agent_id=host.caller.agent_id, allow=allow) for allow in ("CHAIN", "QUERY *")])
    host.result("CHAIN", {"steps": [teas()], "start_at": workflow_items.stamp(host.seconds() + 900)})
    host.turn(200)
    assert told() == 0
    rights.configure([])
    host.turn(61)
    assert told() == 1
    registrar = host.identities.of_key(host.identities.registrar)
    revoked = {"agent_id": host.caller.agent_id, "reason": "planned"}
    assert host.call("REVOKE", "/", revoked, caller=registrar).status == 200
    host.turn(1_000)
    assert told() == -1


def test_a_threshold_is_told_when_it_is_crossed() -> None:
    """METH-044: the draft's use case: a score below what is declared; here a count of one's own above it."""
    host = Workshop()
    target = {"metric": "open_escalations"}
    host.result(
        "MONITOR",
        {"target": target, "events": ["metric"], "callback": "inbox", "threshold": {"above": 1}, "interval": 10},
    )
    for number in range(2):
        given = {"task_id": f"t{number}", "reason": "scope_limit", "context": {}}
        host.result("ESCALATE", given)
        host.turn(11)
        notes = host.result("QUERY", {}, "/notifications")["notifications"]
        assert len(notes) == number, notes
    assert notes[0]["content"]["changes"][0]["to"] == {"above": 1.0, "is": True}


def test_an_upstream_is_watched_by_the_name_that_lists_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-071: ``upstream:files``, as INSPECT and lists of tools name it; with its kind it is the same one."""
    host = Workshop()
    states = {"mcp.files": "up", "a2a.files": "up", "mcp.other": "up"}
    observed = host.core.services.lasting.monitors.observed_states
    monkeypatch.setattr(
        host.core.services.lasting.monitors, "_observed", replace(observed, upstreams=lambda: states.items())
    )
    overseer = host.agent("overseer", scopes=("inspect:all",))

    def subscribe(target: Any) -> int:
        given = {"target": target, "events": ["upstream"], "callback": "inbox", "interval": 10}
        return host.call("MONITOR", "/", given, caller=overseer).status

    assert (subscribe("upstream:files"), subscribe(["upstream:mcp.other"])) == (200, 200)
    assert [subscribe(name) for name in ("upstream:fil", "upstream:mcp", ["upstream:files", "upstream:none"])] == [
        404
    ] * 3
    states.update({"mcp.files": "down", "a2a.files": "down", "mcp.other": "down"})
    host.turn(11)
    notes = host.call("QUERY", "/notifications", caller=overseer).document["result"]["notifications"]
    subjects = [[change["subject"] for change in note["content"]["changes"]] for note in notes]
    assert sorted(map(sorted, subjects)) == [["a2a.files", "mcp.files"], ["mcp.other"]]


def test_the_trust_scores_of_several_agents_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-071: the draft's use case: an event when the score of one of several falls below a threshold."""
    host = Workshop()
    agents = [host.agent(name, hosted=True).agent_id for name in ("scout", "courier")]
    scores = dict.fromkeys(agents, 0.9)
    monkeypatch.setattr(monitor_state, "trust_of", lambda agent: scores.get(agent.agent_id))
    given = {"target": agents, "events": ["trust_score"], "callback": "inbox", "threshold": 0.7, "interval": 10}
    made = host.result("MONITOR", given)
    assert (made["target"], made["threshold"]) == (agents, {"below": 0.7})

    def told() -> list[dict[str, Any]]:
        notes = host.result("QUERY", {}, "/notifications")["notifications"]
        return [change for note in notes for change in note["content"]["changes"]]

    host.turn(11)
    assert told() == []
    scores[agents[1]] = 0.6
    host.turn(11)
    (change,) = told()
    assert (change["event"], change["subject"]) == ("trust_score", agents[1])
    assert change["to"] == {"below": 0.7, "is": True}
    scores[agents[1]] = 0.5
    host.turn(11)
    assert len(told()) == 1, "it is below already"


def test_the_trust_score_of_one_agent_is_watched_as_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-071: the metric ``trust_score`` of an agent, which falls below a threshold."""
    host = Workshop()
    scout = host.agent("scout", hosted=True).agent_id
    scores = {scout: 0.9}
    monkeypatch.setattr(monitor_state, "trust_of", lambda agent: scores.get(agent.agent_id))
    target = {"metric": "trust_score", "agent": scout}
    host.result(
        "MONITOR", {"target": target, "events": ["metric"], "callback": "inbox", "threshold": 0.7, "interval": 10}
    )
    host.turn(11)
    assert host.result("QUERY", {}, "/notifications")["notifications"] == []
    scores[scout] = 0.6
    host.turn(11)
    (note,) = host.result("QUERY", {}, "/notifications")["notifications"]
    (change,) = note["content"]["changes"]
    assert (change["event"], change["subject"], change["to"]) == ("metric", scout, {"below": 0.7, "is": True})


def test_a_list_of_targets_has_agents_and_what_is_ones_own() -> None:
    """Lifecycles of several agents, and the caller's own workflows, in one subscription."""
    host = Workshop()
    scout = host.agent("scout", hosted=True)
    given = {"target": ["own", "scout", "self"], "events": ["workflow", "lifecycle"], "callback": "inbox"}
    key = host.result("MONITOR", given)["subscription_id"]
    item = host.core.services.evidence.held.get("monitor", key)
    assert item is not None
    seen = item.value["seen"]
    assert {name for name in seen if name.startswith("lifecycle:")} == {
        f"lifecycle:{each}" for each in (scout.agent_id, host.caller.agent_id)
    }
    workflow = host.result("CHAIN", {"steps": [teas()], "start_at": workflow_items.stamp(host.seconds() + 900)})[
        "workflow_id"
    ]
    host.turn(61)
    notes = host.result("QUERY", {}, "/notifications")["notifications"]
    assert [change["subject"] for note in notes for change in note["content"]["changes"]] == [workflow]


def test_several_workflows_are_watched_and_no_others() -> None:
    """Items of a list by their identifiers."""
    host = Workshop()
    start = {"steps": [teas()], "start_at": workflow_items.stamp(host.seconds() + 30)}
    keys = [host.result("CHAIN", start)["workflow_id"] for _ in range(3)]
    host.result("MONITOR", {"target": keys[:2], "events": ["workflow"], "callback": "inbox"})
    host.turn(1)
    host.turn(61)
    notes = host.result("QUERY", {}, "/notifications")["notifications"]
    subjects = {
        change["subject"] for note in notes if note["topic"] == "monitor" for change in note["content"]["changes"]
    }
    assert subjects == set(keys[:2])
