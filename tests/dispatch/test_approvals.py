"""An approval releases one call, and nothing but the call that was shown (core v08 section 7.2.11)."""

from __future__ import annotations

import timeit
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.dispatch.exchange import Exchange
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer
from tests.dispatch.approval_hosts import DELETION, ApprovalHost
from tests.identity.issued import of_agent, of_key
from tests.memory import request_of
from tests.methods.floor_hosts import CALLER, JUDGE, KEYS, OPERATOR, OTHER, body_of, endpoint
from tests.rows import each_row


def test_a_call_waits_is_approved_and_runs_once() -> None:
    """202 with what is waited for; the repeat has the same; approved it runs, and the next repeat waits anew."""
    host = ApprovalHost()
    first = host.waits()
    assert first["approval_id"].startswith("apr-")
    assert len(first["digest"]) == 64
    assert first["expires_at"]
    answer = host.ask("REMOVE", "/file", DELETION)
    assert answer.headers.get("retry-after") == "5"
    assert body_of(answer)["approval_id"] == first["approval_id"]
    assert not host.ran
    assert host.decide(first["approval_id"]).status == 200
    assert host.result("REMOVE", "/file", body=DELETION) == {"removed": "/tmp/a"}
    assert host.ran == [DELETION]
    assert host.waits()["approval_id"] != first["approval_id"]
    assert len(host.ran) == 1


def test_the_records_of_asking_deciding_and_calling_name_each_other() -> None:
    """Each has the approval's id; the later ones the Audit-IDs of those before; the list has all three."""
    host = ApprovalHost()
    asked = host.ask("REMOVE", "/file", DELETION)
    found = body_of(asked)
    decided = host.decide(found["approval_id"], reason="ticket 4711")
    ran = host.ask("REMOVE", "/file", DELETION)
    proposed, reserved, executed = [
        draft.payload for draft in host.ledger.drafts if draft.payload.get("method") == "REMOVE"
    ]
    assert proposed["extra"]["approval"] == {
        "id": found["approval_id"],
        "digest": found["digest"],
        "state": "pending",
        "expires_at": found["expires_at"],
    }
    said = executed["extra"]["approval"]
    assert (said["id"], said["digest"]) == (found["approval_id"], found["digest"])
    assert said["by"] == f"key:{OPERATOR.fingerprint}"
    assert (said["proposed"], said["decided"]) == (asked.headers.get("audit-id"), decided.headers.get("audit-id"))
    assert (reserved["status"], executed["status"]) == (202, 200)
    (listed,) = host.result("QUERY", "/approvals", by=OPERATOR, id=found["approval_id"])["approvals"]
    assert listed["state"] == "used"
    assert listed["proposed_audit_id"] == asked.headers.get("audit-id")
    assert listed["decided_audit_id"] == decided.headers.get("audit-id")
    assert listed["executed_audit_id"] == ran.headers.get("audit-id")
    (confirmed,) = [d.payload for d in host.ledger.drafts if d.payload.get("method") == "CONFIRM"]
    assert confirmed["extra"]["approval"] == {
        "id": found["approval_id"],
        "digest": found["digest"],
        "state": "approved",
        "proposed": asked.headers.get("audit-id"),
    }


def test_what_is_shown_leaves_out_what_is_named_as_secret() -> None:
    """At any depth, told by where it is; what is not shown is bound all the same."""
    host = ApprovalHost()
    host.waits()
    (shown,) = host.result("QUERY", "/approvals", by=OPERATOR)["approvals"]
    assert shown["input"] == {"path": "/tmp/a", "more": {"n": [1, 2]}}
    assert shown["hidden"] == ["password", "more.api_token"]
    assert (shown["method"], shown["path"], shown["caller"], shown["label"]) == (
        *("REMOVE", "/file", CALLER.agent_id, CALLER.name),
    )
    assert host.waits({**DELETION, "password": "another"})["digest"] != shown["digest"]
    assert host.waits({**DELETION, "password": "another"})["approval_id"] != shown["approval_id"]


def test_the_operator_says_what_is_shown() -> None:
    """``show`` names members of the input."""
    host = ApprovalHost({"approvals": {"show": ["more"]}})
    host.waits()
    (shown,) = host.result("QUERY", "/approvals", by=OPERATOR)["approvals"]
    assert (shown["input"], shown["hidden"]) == ({"more": DELETION["more"]}, ["path", "password"])


@each_row(
    ("by", "expected"),
    [
        (CALLER, (403, "own-approval")),
        (JUDGE, (404, "target-unknown")),
        (OTHER, (404, "target-unknown")),
        (None, (401, "agent-unauthenticated")),
    ],
    ids=["caller", "judge", "other", "nobody"],
)
def test_nobody_decides_who_may_not(by: Agent | None, expected: tuple[int, str]) -> None:
    """Not the caller, not whoever ``by`` does not name; and nothing changes by it."""
    host = ApprovalHost()
    approval_id = host.waits()["approval_id"]
    answer = host.decide(approval_id, by=by)
    assert (answer.status, body_of(answer)["reason"]) == expected
    assert host.waits()["approval_id"] == approval_id


def test_an_agent_with_the_scope_decides_in_the_operators_place() -> None:
    """``by`` names a scope; the operator is not named, and does not decide."""
    host = ApprovalHost({"approvals": {"by": ["escalation:confirm"]}})
    approval_id = host.waits()["approval_id"]
    assert host.decide(approval_id).status == 404
    assert host.decide(approval_id, by=OTHER).status == 404
    assert host.decide(approval_id, by=JUDGE).status == 200
    assert host.ask("REMOVE", "/file", DELETION).status == 200


def test_an_agent_with_the_scope_does_not_approve_its_own_call() -> None:
    host = ApprovalHost({"approvals": {"by": ["escalation:confirm"]}})
    approval_id = host.waits(by=JUDGE)["approval_id"]
    answer = host.decide(approval_id, by=JUDGE)
    assert (answer.status, body_of(answer)["reason"]) == (403, "own-approval")


def test_a_judge_that_is_known_by_header_alone_decides_nothing() -> None:
    host = ApprovalHost({"approvals": {"by": ["escalation:confirm"]}}, floor=Assurance.HEADER)
    approval_id = host.waits()["approval_id"]
    answer = host.ask("CONFIRM", "/", {"target_id": approval_id, "status": "accepted"}, by=JUDGE, certain=False)
    assert answer.status == 404


def test_the_same_key_does_not_approve_what_its_agent_asked_for() -> None:
    """An operator whose key is an agent's too: neither as the agent nor as the operator."""
    key = of_agent(CALLER.agent_id, KEYS[CALLER.agent_id], ["none:at-all"]).fingerprint
    host = ApprovalHost({"audit": {"operators": [key, OPERATOR.fingerprint]}})
    approval_id = host.waits()["approval_id"]
    for by in (CALLER, of_key(KEYS[CALLER.agent_id])):
        answer = host.decide(approval_id, by=by)
        assert (answer.status, body_of(answer)["reason"]) == (403, "own-approval")
    assert host.decide(approval_id, by=OPERATOR).status == 200


def test_a_decision_is_made_once() -> None:
    """409 to whoever decides again, be it the same way; the very same CONFIRM has the receipt of the first."""
    host = ApprovalHost()
    approval_id = host.waits()["approval_id"]
    first = host.result("CONFIRM", "/", by=OPERATOR, target_id=approval_id, status="accepted")
    assert host.result("CONFIRM", "/", by=OPERATOR, target_id=approval_id, status="accepted") == first
    for status in ("accepted", "rejected"):
        answer = host.decide(approval_id, status, reason="again")
        assert (answer.status, body_of(answer)["reason"]) == (409, "already-decided")


def test_what_was_rejected_is_refused_until_it_would_have_expired() -> None:
    """403 with the reason, no new approval for whoever insists; afterwards it may be asked for again."""
    host = ApprovalHost()
    first = host.waits()
    assert host.decide(first["approval_id"], "rejected", reason="not on a Friday").status == 200
    answer = host.ask("REMOVE", "/file", DELETION)
    assert (answer.status, body_of(answer)["reason"]) == (403, "approval-rejected")
    assert body_of(answer)["said"] == "not on a Friday"
    assert host.waits({**DELETION, "path": "/tmp/b"})
    host.clock.advance(901)
    assert host.waits()["approval_id"] != first["approval_id"]
    assert not host.ran


def test_nobody_decides_about_what_has_expired() -> None:
    """408; the repeat asks anew."""
    host = ApprovalHost({"approvals": {"ttl": 60}})
    first = host.waits()
    host.clock.advance(61)
    answer = host.decide(first["approval_id"])
    assert (answer.status, body_of(answer)["reason"]) == (408, "approval-expired")
    (listed,) = host.result("QUERY", "/approvals", by=OPERATOR, state="expired")["approvals"]
    assert listed["approval_id"] == first["approval_id"]
    assert host.waits()["approval_id"] != first["approval_id"]


def test_what_was_approved_is_used_in_time_or_not_at_all() -> None:
    host = ApprovalHost({"approvals": {"use_within": 30}})
    first = host.approved()
    host.clock.advance(31)
    assert host.waits()["approval_id"] != first
    assert not host.ran


def test_an_agent_has_a_hundred_calls_that_wait() -> None:
    """429 for one more, of that agent alone; a decision makes room."""
    host = ApprovalHost()
    first = host.waits({"path": "/0"})
    for number in range(1, 100):
        host.waits({"path": f"/{number}"})
    answer = host.ask("REMOVE", "/file", {"path": "/100"})
    assert (answer.status, body_of(answer)["reason"]) == (429, "too-many-approvals")
    assert host.waits({"path": "/0"})["approval_id"] == first["approval_id"]
    assert host.waits({"path": "/0"}, by=OTHER)
    assert host.decide(first["approval_id"], "rejected").status == 200
    assert host.waits({"path": "/100"})


def test_an_input_that_nobody_can_read_is_not_held() -> None:
    host = ApprovalHost()
    for octets in (40_000, 200_000):
        answer = host.ask("REMOVE", "/file", {"path": "x" * octets})
        assert (answer.status, body_of(answer)["reason"]) == (422, "too-long-to-show")


def test_the_list_shows_each_what_is_its_own() -> None:
    """Whoever decides sees all, the caller its own, others nothing; filters by state and agent."""
    host = ApprovalHost()
    mine, others = host.waits(), host.waits(by=OTHER)

    def ids(**options: Any) -> list[str]:
        return [each["approval_id"] for each in host.result("QUERY", "/approvals", **options)["approvals"]]

    assert ids(by=OPERATOR) == [mine["approval_id"], others["approval_id"]]
    assert ids(by=CALLER) == [mine["approval_id"]]
    assert ids(by=OTHER) == [others["approval_id"]]
    assert ids(by=JUDGE) == []
    assert ids(by=OPERATOR, agent=OTHER.name) == ids(by=OPERATOR, agent=OTHER.agent_id) == [others["approval_id"]]
    assert ids(by=OTHER, id=mine["approval_id"]) == []
    host.decide(mine["approval_id"])
    assert ids(by=OPERATOR, state="approved") == [mine["approval_id"]]
    assert ids(by=OPERATOR, state="pending") == [others["approval_id"]]
    assert host.refused("QUERY", "/approvals", by=None) == (401, "agent-unauthenticated")


def test_an_approval_is_for_its_caller_alone() -> None:
    """Another agent, the same agent by header alone: each waits for its own."""
    host = ApprovalHost(floor=Assurance.HEADER)
    first = host.approved()
    for options in ({"by": OTHER}, {"certain": False}):
        answer = host.ask("REMOVE", "/file", DELETION, **options)
        assert answer.status == 202, answer.body
        assert body_of(answer)["approval_id"] != first
    assert not host.ran
    assert host.ask("REMOVE", "/file", DELETION).status == 200


def test_a_call_without_a_name_is_not_held() -> None:
    host = ApprovalHost(floor=Assurance.HEADER)
    assert host.ask("REMOVE", "/file", DELETION, by=OPERATOR).status == 401


@each_row(
    "change", [{"ttl": 901}, {"use_within": 301}, {"by": ["operators", "escalation:confirm"]}, {"show": ["path"]}]
)
def test_another_policy_releases_nothing_that_was_approved_before(change: dict[str, Any]) -> None:
    """After a restart with the same store."""
    before = ApprovalHost()
    first = before.approved()
    after = ApprovalHost({"approvals": change}, ledger=before.ledger)
    assert after.waits()["approval_id"] != first
    assert not after.ran
    same = ApprovalHost(ledger=before.ledger)
    assert same.ask("REMOVE", "/file", DELETION).status == 200


def test_another_definition_releases_nothing_that_was_approved_before() -> None:
    before = ApprovalHost()
    first = before.approved()
    after = ApprovalHost(ledger=before.ledger, described="Removes a folder.")
    assert after.waits()["approval_id"] != first
    assert not after.ran


def test_a_revoked_agent_has_nothing_released() -> None:
    """Approved, then revoked: 410, and no handler."""
    host = ApprovalHost()
    host.approved()
    host.put(CALLER, "retired")
    assert host.ask("REMOVE", "/file", DELETION).status == 410
    assert not host.ran


def test_a_call_that_fails_has_used_its_approval() -> None:
    """Whatever the handler came to: nobody can tell what it did."""
    host = ApprovalHost()
    host.failing = True
    first = host.approved()
    assert host.ask("REMOVE", "/file", DELETION).status == 500
    (listed,) = host.result("QUERY", "/approvals", by=OPERATOR, id=first)["approvals"]
    assert (listed["state"], listed["cut_off"]) == ("used", False)
    assert host.waits()["approval_id"] != first
    assert len(host.ran) == 1


def test_two_at_once_run_once() -> None:
    """While the call runs its repeat is 409; once it is over, the repeat waits anew."""
    host = ApprovalHost()
    host.waiting = Deferred()
    host.approved()
    running = host.start_as(CALLER, "REMOVE", "/file", DELETION)
    assert len(host.ran) == 1
    answer = host.ask("REMOVE", "/file", DELETION)
    assert (answer.status, body_of(answer)["reason"]) == (409, "approval-in-use")
    host.waiting.callback({"removed": "x"})
    host.clock.settle()
    assert running.result.status == 200
    assert host.ask("REMOVE", "/file", DELETION).status == 202
    assert len(host.ran) == 1


def test_a_process_that_ended_in_the_call_has_used_the_approval() -> None:
    """Another process finds it reserved: it never runs, the list says that it was cut off, and so does the next 202."""
    host = ApprovalHost()
    host.waiting = Deferred()
    first = host.approved()
    host.start_as(CALLER, "REMOVE", "/file", DELETION)
    after = ApprovalHost(ledger=host.ledger)
    answer = after.ask("REMOVE", "/file", DELETION)
    assert answer.status == 202
    assert first in body_of(answer)["explanation"]
    (listed,) = after.result("QUERY", "/approvals", by=OPERATOR, id=first)["approvals"]
    assert (listed["state"], listed["cut_off"]) == ("used", True)
    (asked,) = after.result("QUERY", "/approvals", by=OPERATOR, state="pending")["approvals"]
    assert asked["in_doubt"] == first
    assert not after.ran


def test_the_control_that_reserves_nothing_runs_twice() -> None:
    """Without the durable reservation, a second process runs what the first was running."""
    host = ApprovalHost()
    host.waiting = Deferred()
    host.approved()
    kept = host.ledger._change
    host.ledger._change = lambda changes, proven, audit_id: None  # type: ignore[method-assign]
    host.start_as(CALLER, "REMOVE", "/file", DELETION)
    host.ledger._change = kept  # type: ignore[method-assign]
    after = ApprovalHost(ledger=host.ledger)
    assert after.ask("REMOVE", "/file", DELETION).status == 200
    assert len(host.ran) == len(after.ran) == 1


def test_a_key_and_an_approval_work_together() -> None:
    """No key is taken while the call waits; once it ran, its repeat is answered from the store, another key is not."""
    host = ApprovalHost()
    key = {"Idempotency-Key": "k-1"}
    first = host.waits(headers=key)
    assert not host.ledger.reserved
    host.decide(first["approval_id"])
    answer = host.ask("REMOVE", "/file", DELETION, headers=key)
    again = host.ask("REMOVE", "/file", DELETION, headers=key)
    assert answer.status == again.status == 200
    assert body_of(answer)["result"] == body_of(again)["result"]
    assert len(host.ran) == 1
    assert host.ask("REMOVE", "/file", DELETION, headers={"Idempotency-Key": "k-2"}).status == 202
    assert host.ask("REMOVE", "/file", DELETION).status == 202


def test_a_keyed_call_that_was_cut_off_is_in_doubt() -> None:
    host = ApprovalHost()
    host.waiting = Deferred()
    key = {"Idempotency-Key": "k-1"}
    host.approved(headers=key)
    host.start_as(CALLER, "REMOVE", "/file", DELETION, headers=key)
    after = ApprovalHost(ledger=host.ledger)
    answer = after.ask("REMOVE", "/file", DELETION, headers=key)
    assert answer.status == 409
    assert not after.ran


def test_nothing_is_released_where_its_use_cannot_be_made_durable() -> None:
    """503, and the approval is as good as before."""
    host = ApprovalHost()
    host.approved()
    host.ledger.failing = True
    assert host.ask("REMOVE", "/file", DELETION).status == 503
    assert not host.ran
    host.ledger.failing = False
    assert host.ask("REMOVE", "/file", DELETION).status == 200


def test_a_call_that_needs_nobody_pays_a_microsecond_at_the_most() -> None:
    """The gate's whole check, and what the dispatcher asks before the handler: one attribute each."""
    host = ApprovalHost()
    (gate,) = [each for each in host.gates if each.name == "approval"]
    exchange = Exchange(request_of("ECHO", "/text"), Peer(address="127.0.0.1"), 0.0)
    exchange.binding = endpoint("ECHO", "/text")
    check = gate.check

    def once() -> None:
        check(exchange)
        if exchange.binding.approval:  # type: ignore[union-attr]
            raise AssertionError

    best = min(timeit.repeat(once, number=10_000, repeat=7)) / 10_000
    print(f"{best * 1e9:.0f} ns")
    assert best < 1e-6


def test_a_key_that_counts_for_nothing_is_no_claim_to_an_answer() -> None:
    """Of what changes nothing no answer is kept: the repeat waits for an approval of its own."""
    host = ApprovalHost(bindings=(endpoint("QUERY", "/secrets", approval=True),))
    key = {"Idempotency-Key": "k-1"}
    first = body_of(host.ask("QUERY", "/secrets", {"intent": "all"}, headers=key))
    assert host.decide(first["approval_id"]).status == 200
    assert host.ask("QUERY", "/secrets", {"intent": "all"}, headers=key).status == 200
    again = host.ask("QUERY", "/secrets", {"intent": "all"}, headers=key)
    assert (again.status, body_of(again)["reason"]) == (202, "approval-required")
