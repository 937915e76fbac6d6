"""ESCALATE stops a task until somebody entitled has decided (core v08 sections 7.2.10, 7.2.11 and 10.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agtphost.methods.oversight import escalation
from agtphost.vocabulary import quotas
from agtphost.vocabulary.display_names import caller_name
from tests.identity.issued import of_agent, of_key
from tests.identity.samples import key_of
from tests.methods.floor_hosts import CALLER, DESK, ISSUER, JUDGE, KEYS, OPERATOR, OTHER, FloorHost, body_of
from tests.rows import each_row

ASK: dict[str, Any] = {"task_id": "t-1", "reason": "scope_limit", "context": {"resource": "contract", "n": [1, "é"]}}
TASK = {"Task-ID": "t-1"}
CFO, AUDITOR = (of_key(key_of(name)) for name in ("chief financial officer", "auditor"))
ADDRESSES: dict[str, Any] = {
    "notify": {
        "people": {"usr-cfo": CFO.fingerprint, "usr-audit": AUDITOR.fingerprint},
        "groups": {
            "board": ["usr-cfo", "usr-audit", "desk"],
            "watch": [OTHER.agent_id, "operator"],
            "lone": [CALLER.agent_id, "ghost"],
            "ghosts": ["ghost"],
        },
    }
}


def escalate(host: FloorHost, **changes: Any) -> str:
    return str(host.result("ESCALATE", code=202, **{**ASK, **changes})["escalation_id"])


def test_an_escalation_is_accepted_and_its_task_paused() -> None:
    """202 with escalation_id, routed_to and task_paused; the deadline is told back (AGTP-061, AGTP-217)."""
    host = FloorHost(ADDRESSES)
    found = host.result("ESCALATE", code=202, **ASK, deadline="2027-01-31T00:00:00Z", recipient="usr-cfo")
    assert found["escalation_id"]
    assert (found["routed_to"], found["status"], found["task_paused"]) == ("usr-cfo", "pending_review", True)
    assert found["estimated_review_by"] == "2027-01-31T00:00:00Z"
    assert FloorHost().result("ESCALATE", code=202, **ASK)["routed_to"] == "operator"


@each_row(
    "reason",
    ["confidence_threshold", "scope_limit", "ethical_flag", "ambiguous_instruction", "resource_unavailable"],
)
@each_row("priority", ["urgent", "normal", "low"])
def test_every_reason_and_priority(reason: str, priority: str) -> None:
    """Each word of the text is taken, and kept as it is (AGTP-217)."""
    host = FloorHost()
    host.result("ESCALATE", code=202, **{**ASK, "reason": reason, "priority": priority})
    (kept,) = host.result("QUERY", "/escalations")["escalations"]
    assert (kept["reason"], kept["priority"], kept["context"]) == (reason, priority, ASK["context"])


@each_row(
    ("name", "value"),
    [
        ("reason", "tired"),
        ("priority", "asap"),
        ("deadline", "tomorrow"),
        ("task_id", "a b"),
        ("task_id", 3),
        ("context", "x" * 20_000),
        ("recipient", "a b"),
        ("recipient", CALLER.agent_id),
    ],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each names its parameter; nobody is the judge of its own escalation (AGTP-217)."""
    answer = FloorHost().ask("ESCALATE", **{**ASK, name: value})
    assert (answer.status, body_of(answer)["parameter"]) == (422, name)


@each_row("name", ["task_id", "reason", "context"])
def test_a_required_parameter_that_is_left_out_is_named(name: str) -> None:
    """AGTP-217: and nothing is escalated without it; the other parameters are optional."""
    host = FloorHost()
    for given in ({each: value for each, value in ASK.items() if each != name}, {**ASK, name: None}):
        answer = host.ask("ESCALATE", **given)
        assert (answer.status, body_of(answer)["parameter"]) == (422, name)
    assert host.result("QUERY", "/escalations")["escalations"] == []
    assert host.ask("ESCALATE", **ASK).status == 202


@each_row("recipient", ["9" * 64, "no-such-person", "notify:usr-cfo", "infrastructure:broadcast", "ghosts", "lone"])
def test_a_recipient_who_sees_nothing_is_404(recipient: str) -> None:
    """AGTP-334, AGTP-217: unknown names, groups without a member who could see it; nothing is kept, none is named."""
    host = FloorHost(ADDRESSES)
    answer = host.ask("ESCALATE", **ASK, recipient=recipient)
    assert (answer.status, body_of(answer)["reason"]) == (404, "recipient-unknown")
    assert "[notify." in body_of(answer)["remedy"]
    assert list(host.held.all("escalation")) == []
    assert all("routed_to" not in draft.payload.get("extra", {}) for draft in host.ledger.drafts)
    assert host.ask("ECHO", "/text", headers=TASK).status == 200


@each_row("status", ["suspended", "retired"])
def test_an_agent_that_is_stopped_is_no_recipient(status: str) -> None:
    """AGTP-334: it could not see the escalation; an agent that serves can."""
    host = FloorHost(ADDRESSES)
    assert escalate(host, recipient=OTHER.agent_id)
    host.put(OTHER, status)
    answer = host.ask("ESCALATE", **{**ASK, "task_id": "t-2"}, recipient=OTHER.agent_id)
    assert (answer.status, status in body_of(answer)["explanation"]) == (404, True)


def test_a_person_sees_what_is_addressed_to_it_and_nothing_else() -> None:
    """AGTP-334: by certificate alone: a name in a header, and another key, prove nothing."""
    host = FloorHost(ADDRESSES)
    mine, board, other = (
        escalate(host, task_id=f"t-{number}", recipient=name)
        for number, name in enumerate(("usr-cfo", "board", "usr-audit"))
    )
    escalate(host, task_id="t-9")

    def seen(by: Any, **more: Any) -> set[str]:
        listed = host.result("QUERY", "/escalations", by=by, **more)["escalations"]
        assert all("asked_with" not in each for each in listed)
        return {each["escalation_id"] for each in listed}

    assert seen(CFO) == {mine, board}
    assert seen(AUDITOR) == {board, other}
    assert seen(CFO, task_id="t-2") == seen(CFO, escalation_id=other) == set()
    assert seen(DESK) == {board}
    for name in ("usr-cfo", CFO.fingerprint, f"key:{CFO.fingerprint}"):
        answer = host.ask("QUERY", "/escalations", by=None, headers={"Agent-ID": name})
        assert mine not in answer.body.decode()
    assert host.ask("QUERY", "/escalations", by=None).status == 401
    missing, foreign = (
        host.ask("CONFIRM", by=CFO, target_id=name, status="accepted") for name in (f"esc-{'0' * 32}", other)
    )
    assert missing.status == foreign.status == 404
    assert {**body_of(missing), "attribution": 0} == {**body_of(foreign), "attribution": 0}


def test_the_record_of_a_persons_decision_names_the_key() -> None:
    """AGTP-334: who decided is on record, by key and by name, and the task goes on."""
    host = FloorHost(ADDRESSES)
    number = escalate(host, recipient="board")
    assert host.refused("ECHO", "/text", headers=TASK) == (409, "task-paused")
    assert host.result("CONFIRM", by=AUDITOR, target_id="t-1", status="accepted")["escalation_id"] == number
    extra = host.ledger.drafts[-1].payload["extra"]
    assert (extra["confirmed_by"], extra["confirmed_as"]) == (f"key:{AUDITOR.fingerprint}", "usr-audit")
    assert caller_name(host.ledger.drafts[-1].payload, "") == "usr-audit (person)"
    other = {**host.ledger.drafts[-1].payload, "method": "EXECUTE"}
    assert caller_name(other, "") == "", "what an endpoint puts into its record makes no person of the caller"
    (kept,) = host.result("QUERY", "/escalations", by=AUDITOR, escalation_id=number)["escalations"]
    assert kept["decision"]["by_name"] == "usr-audit"
    assert host.ask("ECHO", "/text", headers=TASK).status == 200
    assert host.refused("CONFIRM", by=CFO, target_id=number, status="rejected") == (409, "already-decided")


def test_nobody_decides_its_own_by_another_name() -> None:
    """AGTP-334: an agent whose key is also a person's, or an operator's, asks itself in vain."""
    key = KEYS[CALLER.agent_id]
    me = of_key(key)
    settings = {
        "audit": {"operators": [key.public.fingerprint]},
        "notify": {
            "people": {"me": key.public.fingerprint, "usr-cfo": CFO.fingerprint},
            "groups": {"us": ["me", "usr-cfo"], "only-us": ["me", CALLER.agent_id]},
        },
    }
    host = FloorHost(settings)
    assert host.ask("ESCALATE", **ASK, recipient="me").status == 422
    assert host.refused("ESCALATE", **ASK, recipient="only-us") == (404, "recipient-unknown")
    for recipient in ("us", "operator"):
        number = escalate(host, task_id=f"t-{recipient}", recipient=recipient)
        for by in (me, CALLER):
            assert host.refused("CONFIRM", by=by, target_id=number, status="accepted") == (403, "not-entitled")
    assert host.result("CONFIRM", by=CFO, target_id="t-us", status="accepted")["task_paused"] is False


def test_a_persons_key_counts_with_an_agents_certificate() -> None:
    """AGTP-334: as with operators, the key is the person's, whatever else the certificate says."""
    settings = {"notify": {"people": {"judge": KEYS[JUDGE.agent_id].public.fingerprint}}}
    host = FloorHost(settings)
    number = escalate(host, recipient="judge")
    assert host.result("QUERY", "/escalations", by=JUDGE)["count"] == 1
    stolen = of_agent(JUDGE.agent_id, key_of("thief"), ["none:at-all"])
    assert number not in host.ask("QUERY", "/escalations", by=stolen).body.decode()
    assert host.ask("CONFIRM", by=JUDGE, target_id=number, status="accepted").status == 200


def test_a_paused_task_stands_still_until_confirmed() -> None:
    """Its calls are 409 until the decision, and other tasks and agents go on (AGTP-074, AGTP-218)."""
    host = FloorHost()
    number = escalate(host)
    assert host.refused("ECHO", "/text", headers=TASK) == (409, "task-paused")
    assert host.ask("ECHO", "/text", headers={"Task-ID": "t-2"}).status == 200
    assert host.ask("ECHO", "/text", headers=TASK, by=OTHER).status == 200
    assert host.ask("ECHO", "/text").status == 200
    assert host.ask("DISCOVER", "/methods", headers=TASK).status == 200
    assert host.result("CONFIRM", target_id=number, status="deferred", by=JUDGE)["task_paused"] is True
    assert host.refused("ECHO", "/text", headers=TASK) == (409, "task-paused")
    assert host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE)["task_paused"] is False
    assert host.ask("ECHO", "/text", headers=TASK).status == 200


def test_a_rejected_task_stays_shut() -> None:
    """Rejected is decided as well: the task is not to go on, and says why."""
    host = FloorHost()
    number = escalate(host)
    host.result("CONFIRM", target_id=number, status="rejected", reason="too dear", by=JUDGE)
    assert host.refused("ECHO", "/text", headers=TASK) == (409, "task-rejected")
    (kept,) = host.result("QUERY", "/escalations", escalation_id=number)["escalations"]
    assert kept["decision"]["reason"] == "too dear"
    assert kept["decision"]["by"] == JUDGE.agent_id


def test_the_same_escalation_is_one() -> None:
    """Repeated it has the same number, and is kept once; another one has another (AGTP-218)."""
    host = FloorHost()
    numbers = {escalate(host) for _ in range(3)}
    assert len(numbers) == 1
    assert len(list(host.held.all("escalation"))) == 1
    assert escalate(host, context={"resource": "other"}) not in numbers
    assert host.result("ESCALATE", code=202, by=OTHER, **ASK)["escalation_id"] not in numbers


@each_row(
    ("recipient", "by", "status"),
    [
        (None, JUDGE, 200),
        (None, OTHER, 404),
        (None, CALLER, 403),
        (None, ISSUER, 200),
        (None, OPERATOR, 200),
        ("usr-cfo", CFO, 200),
        ("usr-cfo", JUDGE, 404),
        ("usr-cfo", OTHER, 404),
        ("usr-cfo", AUDITOR, 404),
        ("usr-cfo", CALLER, 403),
        ("usr-cfo", ISSUER, 200),
        ("usr-cfo", OPERATOR, 200),
        ("board", CFO, 200),
        ("board", AUDITOR, 200),
        ("board", DESK, 200),
        ("board", OTHER, 404),
        ("board", JUDGE, 404),
        ("watch", JUDGE, 200),
        ("watch", OTHER, 200),
        ("watch", AUDITOR, 404),
        (None, CFO, 404),
        ("operator", JUDGE, 200),
        ("operator", CFO, 404),
        (OTHER.agent_id, OTHER, 200),
        (OTHER.agent_id, JUDGE, 404),
        (OTHER.agent_id, ISSUER, 200),
        ("desk", DESK, 200),
        ("desk", OTHER, 404),
    ],
)
def test_who_may_decide(recipient: str | None, by: Any, status: int) -> None:
    """
    AGTP-334: the recipient, any member of a group, the scope's holder where the operator is the recipient.

    The registrar and an operator decide everything, and nobody else anything. Who decides sees it, who doesn't, not.
    """
    host = FloorHost(ADDRESSES)
    number = escalate(host, **({} if recipient is None else {"recipient": recipient}))
    listed = host.ask("QUERY", "/escalations", by=by)
    assert host.ask("CONFIRM", target_id=number, status="accepted", by=by).status == status
    assert (number in listed.body.decode()) is (status != 404)


def test_a_task_names_its_escalation() -> None:
    """CONFIRM takes the Task-ID too, where one escalation of it waits (core v08 section 7.2.11)."""
    host = FloorHost()
    number = escalate(host)
    assert host.result("CONFIRM", target_id="t-1", status="deferred", by=JUDGE)["escalation_id"] == number
    escalate(host, reason="ethical_flag")
    assert host.refused("CONFIRM", target_id="t-1", status="accepted", by=JUDGE) == (409, "target-ambiguous")
    assert host.refused("CONFIRM", target_id="t-1", status="accepted", by=OTHER) == (404, "target-unknown")


def test_a_decision_is_made_once() -> None:
    """The same answer again has the same receipt; another one is 409 (AGTP-074, AGTP-220)."""
    host = FloorHost()
    number = escalate(host)
    first, second = (host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE) for _ in range(2))
    assert first == second
    assert first["attestation_id"] and first["timestamp"]
    assert host.refused("CONFIRM", target_id=number, status="rejected", by=JUDGE) == (409, "already-decided")


def test_the_task_of_a_decided_escalation_says_by_whom_it_was_decided() -> None:
    """CONFIRM by a Task-ID answers as by the escalation's identifier: to deciders, to its own agent and to others."""
    host = FloorHost(ADDRESSES)
    number = escalate(host, recipient="board")
    host.result("CONFIRM", by=AUDITOR, target_id="t-1", status="rejected")
    for by, expected in ((CFO, (409, "already-decided")), (CALLER, (403, "not-entitled")), (OTHER, (404,))):
        by_task, by_number = (
            body_of(host.ask("CONFIRM", by=by, target_id=name, status="accepted")) for name in ("t-1", number)
        )
        assert (by_task["status"], by_task["reason"])[: len(expected)] == expected
        assert {**by_task, "attribution": 0} == {**by_number, "attribution": 0}
        assert ("decided_by" in by_task) is (by is CFO)
        assert ("usr-audit" in str(by_task)) is (by is CFO), "as the person is called here"
    again = escalate(host, reason="ethical_flag", recipient="board")
    assert host.result("CONFIRM", by=CFO, target_id="t-1", status="accepted")["escalation_id"] == again
    told = body_of(host.ask("CONFIRM", by=AUDITOR, target_id="t-1", status="rejected", reason="late"))
    assert (told["reason"], told["escalation_id"]) == ("already-decided", again), "the last decision counts"


def test_a_deferred_decision_is_still_to_be_made() -> None:
    """AGTP-220: deferred with its reason and attestation, the task stays paused; later it is decided for good."""
    host = FloorHost()
    number = escalate(host)

    def shown() -> dict[str, Any]:
        (found,) = host.result("QUERY", "/escalations")["escalations"]
        return {
            **{name: found["decision"][name] for name in ("status", "reason", "attestation")},
            "now": found["status"],
        }

    later = {"status": "deferred", "reason": "Ask again on Monday.", "attestation": {"sig": "x"}}
    receipt = host.result("CONFIRM", target_id=number, **later, by=JUDGE)
    assert (receipt["status"], receipt["task_paused"]) == ("deferred", True)
    assert shown() == {**later, "now": "pending"}
    final = {"status": "rejected", "reason": "Too dear.", "attestation": {}}
    decided = host.result("CONFIRM", target_id=number, **final, by=JUDGE)
    assert decided["attestation_id"] != receipt["attestation_id"]
    assert shown() == {**final, "now": "rejected"}


@each_row("status", [None, "", "approved", "ACCEPTED", ["accepted"]])
def test_a_confirmation_says_what_is_decided(status: Any) -> None:
    """AGTP-220: without one of the three words nothing is decided."""
    host = FloorHost()
    number = escalate(host)
    given = {} if status is None else {"status": status}
    assert host.refused("CONFIRM", target_id=number, **given, by=JUDGE)[0] == 422
    assert host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE)["task_paused"] is False


def test_two_deciders_at_once_are_one_decision() -> None:
    """The second of two decisions on one state is 409: the item carries its version into the commit."""
    host = FloorHost()
    number = escalate(host)
    drafts = len(host.ledger.drafts)
    host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE)
    (change,) = [each for each in host.ledger.drafts[drafts].changes if each.kind == "escalation"]
    assert change.expected == 1


def test_the_record_is_the_evidence() -> None:
    """Decision, decider and attestation are in the signed record (core v08 section 7.2.11)."""
    host = FloorHost()
    number = escalate(host)
    receipt = host.result("CONFIRM", target_id=number, status="accepted", attestation={"sig": "x"}, by=JUDGE)
    extra = host.ledger.drafts[-1].payload["extra"]
    assert extra == {
        "attestation_id": receipt["attestation_id"],
        "target_id": number,
        "confirmed_by": JUDGE.agent_id,
        "confirmed": "accepted",
    }


def test_floods_are_marked_and_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """AGTP-314: beyond a measure they are marked, beyond another queued behind all others; none is dropped."""
    monkeypatch.setattr(escalation, "FLOOD", 2)
    monkeypatch.setattr(escalation, "OPEN_PER_AGENT", 4)
    host = FloorHost()
    for number in range(4):
        escalate(host, task_id=f"t-{number}")
    last = escalate(host, task_id="t-9", priority="urgent")
    assert host.ask("ESCALATE", by=OTHER, **ASK).status == 202
    kept = [item.value for item in host.held.items_of("escalation", CALLER.agent_id)]
    assert [value["flood"] for value in kept] == [False, False, True, True, True]
    assert [value["queued"] for value in kept] == [False, False, False, False, True]
    assert host.result("QUERY", "/escalations")["escalations"][-1]["escalation_id"] == last
    # What is queued takes no room of the owner's, and is decided as any other.
    monkeypatch.setattr(escalation, "OPEN_PER_OWNER", 4)
    monkeypatch.setattr(escalation, "URGENT_PER_OWNER", 0)
    escalate(host, task_id="t-10")
    host.result("CONFIRM", target_id=last, status="accepted", by=JUDGE)


def test_the_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host can hold of one agent has an end, and the agent is told so."""
    holding = quotas.ITEM_KINDS["escalation"]
    monkeypatch.setitem(quotas.ITEM_KINDS, "escalation", replace(holding, per_owner=3))  # type: ignore[misc]
    host = FloorHost()
    for number in range(3):
        escalate(host, task_id=f"t-{number}")
    assert host.refused("ESCALATE", **{**ASK, "task_id": "t-9"}) == (429, "too-many-escalations")
    assert host.result("QUERY", "/escalations")["count"] == 3


def test_listing_is_filtered_and_sorted() -> None:
    """Urgent ones first; by status, task and number; each agent sees its own alone."""
    host = FloorHost()
    low, urgent = (escalate(host, priority=priority) for priority in ("low", "urgent"))
    host.result("ESCALATE", code=202, by=OTHER, **ASK)
    found = host.result("QUERY", "/escalations")
    assert [each["escalation_id"] for each in found["escalations"]] == [urgent, low]
    host.result("CONFIRM", target_id=low, status="accepted", by=JUDGE)
    assert host.result("QUERY", "/escalations", status="pending")["count"] == 1
    assert host.result("QUERY", "/escalations", task_id="nope")["count"] == 0
    assert host.result("QUERY", "/escalations", by=JUDGE)["count"] == 3
    assert host.result("QUERY", "/escalations", by=JUDGE, limit=1)["count"] == 3


def test_escalations_have_no_end_of_their_own() -> None:
    """A pending one never expires; a decided one is kept for a week and then forgotten."""
    host = FloorHost()
    number = escalate(host)
    assert host.held.get("escalation", number).expires_at is None  # type: ignore[union-attr]
    host.result("CONFIRM", target_id=number, status="rejected", by=JUDGE)
    assert host.held.get("escalation", number).expires_at is not None  # type: ignore[union-attr]
