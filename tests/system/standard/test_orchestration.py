"""CHAIN, BATCH, MONITOR, ROUTE, RETRY, PAUSE, RESUME and RUN over TLS: methods v01 section 8."""

from __future__ import annotations

from tests.system.pages import playing, steps
from tests.system.standard.hosted import Standard
from tests.system.standard.paged import played

ECHO = {"method": "ECHO", "path": "/text"}


def test_steps_use_what_earlier_ones_gave(standard: Standard) -> None:
    """METH-042: CHAIN, its receipt, and what its owner sees of it."""
    steps = [
        {**ECHO, "parameters": {"text": "weekly"}, "capture": "found"},
        {**ECHO, "parameters": {"text": "=found.text"}},
    ]
    made = standard.result("CHAIN", {"steps": steps, "context_propagation": True})
    assert [step["state"] for step in made["steps"]] == ["done", "done"]
    assert made["steps"][1]["result"]["text"] == "weekly" and made["status"] == "finished"
    shown = standard.result("INSPECT", {"target": "workflow", "workflow_id": made["chain_id"]})
    assert shown["steps"] == made["steps"]
    asked = {"target": "workflow", "workflow_id": made["chain_id"]}
    assert standard.ask("INSPECT", asked, by="stranger").status == 404


def test_twenty_calls_are_one_round_trip(standard: Standard) -> None:
    """METH-043: BATCH, with the outcome of each."""
    calls = [{**ECHO, "parameters": {"text": str(number)}} for number in range(20)]
    made = standard.result("BATCH", {"calls": calls})
    assert [outcome["result"]["text"] for outcome in made["outcomes"]] == [str(number) for number in range(20)]
    assert len({outcome["audit_id"] for outcome in made["outcomes"]}) == 20


def test_a_payload_is_routed(standard: Standard) -> None:
    """METH-045: by topic, tier and availability."""
    given = {
        "payload": {"topic": "books", "tier": "gold"},
        "criteria": [{"when": "topic == 'books' && tier == 'gold'", "to": "librarian"}],
        "fallback": "ECHO /text",
    }
    made = standard.result("ROUTE", given)
    assert made["handler"] == "librarian" and made["decision"] == {"by": "rule", "rule": 1}
    assert standard.ask("ROUTE", {"payload": {}, "criteria": [{"when": "x", "to": "librarian"}]}).status == 404


def test_only_a_failed_call_is_made_again(standard: Standard) -> None:
    """METH-046: RETRY of a Task-ID under which nothing failed."""
    assert standard.ask("ECHO", {"text": "x"}, path="/text", task_id="task-7").status == 200
    answer = standard.ask("RETRY", {"original_task_id": "task-7"})
    assert (answer.status, answer.json()["reason"]) == (404, "retry-unknown")


def test_a_schedule_is_paused_resumed_and_observed(standard: Standard) -> None:
    """METH-044, METH-047, METH-048, METH-060: and all of it is there after SIGKILL."""
    watched = standard.result("MONITOR", {"target": "own", "events": ["workflow"], "callback": "inbox"})
    refused = standard.ask("MONITOR", {"target": "own", "events": ["workflow"], "callback": "https://evil.example/"})
    assert refused.status == 403
    steps = [{**ECHO, "parameters": {"text": "x"}}]
    made = standard.result("CHAIN", {"steps": steps, "start_at": "2027-06-01T00:00:00Z"})
    paused = standard.result("PAUSE", {"workflow_id": made["workflow_id"], "reason": "maintenance window"})
    assert paused["status"] == "paused"
    assert standard.ask("PAUSE", {"workflow_id": made["workflow_id"]}).status == 409
    assert standard.ask("PAUSE", {"workflow_id": "wf-none"}).status == 404
    resumed = {"workflow_id": made["workflow_id"], "resumption_nonce": paused["resumption_nonce"]}
    assert standard.result("RESUME", resumed)["status"] == "scheduled"
    listed = standard.result("QUERY", {"state": "scheduled"}, path="/workflows")
    assert made["workflow_id"] in {each["workflow_id"] for each in listed["workflows"]}
    cancel = {"event_type": "monitor_cancel", "subscription_id": watched["subscription_id"]}
    assert standard.result("NOTIFY", {"recipient": "analyst", "content": cancel})["status"] == "cancelled"


def test_what_stands_in_the_registry_runs(standard: Standard) -> None:
    """METH-049, METH-057, METH-058: RUN by name; nothing else, and not without the scope."""
    given = {"procedure_id": "repeat", "input": {"text": "as registered"}}
    assert standard.result("RUN", given)["result"] == {"said": "as registered"}
    assert standard.ask("RUN", {"procedure_id": "unregistered"}).status == 404
    assert standard.ask("RUN", {"procedure_id": "rm -rf /"}).status == 422
    assert standard.ask("RUN", {**given, "input": "rm -rf /"}).status == 422
    assert standard.ask("RUN", given, by="stranger").status == 455


def test_the_page_shows_what_the_commands_say(standard: Standard) -> None:
    """The pages on composed calls: each command of them, with its exit status and every line of its output."""
    every = steps("workflows.rst") + steps("batches.rst")
    assert len(every) >= 12
    with playing(every) as player:
        played(player, every, standard)
