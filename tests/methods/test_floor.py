"""The floor as a whole: every method answers, accepts a context and names what is missing (core v08 section 7.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agtphost.contract.reserved import MECHANICS, OPEN, RESERVED
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.catalog import FLOOR
from tests.methods.floor_hosts import CALLER, DESK, ISSUER, FloorHost, body_of, endpoint
from tests.rows import each_row

PROOF = {"Session-ID": "s-1"}
VALID: dict[str, dict[str, Any]] = {
    "QUERY": {"intent": "returns the text"},
    "SUMMARIZE": {"source": "One sentence. And another one."},
    "PLAN": {"goal": "have a text returned"},
    "ESCALATE": {"task_id": "t", "reason": "scope_limit", "context": {}},
    "CONFIRM": {"target_id": "t", "status": "accepted"},
    "SUSPEND": {"session_id": "s-1"},
    "NOTIFY": {"recipient": "desk", "content": "hello"},
    "DISCOVER": {},
    "DESCRIBE": {},
    "INSPECT": {"target": "chain_head", "agent_id": DESK.agent_id},
    "ACTIVATE": {"agent_id": DESK.agent_id},
    "DEACTIVATE": {"agent_id": DESK.agent_id},
    "REINSTATE": {"agent_id": DESK.agent_id},
    "REVOKE": {"agent_id": DESK.agent_id, "reason": "test"},
    "DEPRECATE": {"agent_id": DESK.agent_id},
}
MINE = ("QUERY", "SUMMARIZE", "PLAN", "ESCALATE", "SUSPEND", "NOTIFY")


@each_row("method", VALID)
def test_no_floor_method_is_unknown(method: str) -> None:
    """Called with valid parameters, none is 404 for its path, 405, 459 or 501 (AGTP-183)."""
    answer = FloorHost().ask(method, headers=PROOF, **VALID[method])
    assert answer.status not in (405, 459, 501)
    assert body_of(answer).get("reason") not in ("not-found", "method-not-allowed")


def test_the_list_of_the_floor_is_complete() -> None:
    """What is tried here and what others answer for is the whole floor (AGTP-183)."""
    assert set(VALID) | {"EXECUTE", "DELEGATE", "PROPOSE"} == set(FLOOR)


@each_row("method", MINE)
@each_row("wrapped", [False, True])
def test_a_context_is_accepted(method: str, wrapped: bool) -> None:
    """``context: {}`` is accepted among the parameters and in the envelope (AGTP-184)."""
    given = {**VALID[method], "context": {}}
    body = {"method": method, "parameters": given, "context": {}} if wrapped else given
    assert FloorHost().ask(method, body=body, headers=PROOF).status in (200, 202)


def test_lower_case_is_no_method() -> None:
    """Method names are upper-case (AGTP-184)."""
    assert FloorHost().ask("query", intent="x").status == 459


@each_row(
    ("method", "name"),
    [
        ("QUERY", "intent"),
        ("SUMMARIZE", "source"),
        ("PLAN", "goal"),
        ("ESCALATE", "task_id"),
        ("ESCALATE", "reason"),
        ("ESCALATE", "context"),
        ("CONFIRM", "target_id"),
        ("CONFIRM", "status"),
        ("SUSPEND", "session_id"),
        ("NOTIFY", "recipient"),
        ("NOTIFY", "content"),
    ],
)
def test_what_is_missing_is_named(method: str, name: str) -> None:
    """A missing parameter is 422 and named; the same call with it is not (AGTP-077)."""
    host, given = FloorHost(), {key: value for key, value in VALID[method].items() if key != name}
    answer = host.ask(method, headers=PROOF, **given)
    assert (answer.status, body_of(answer)["reason"], body_of(answer)["parameter"]) == (422, "missing-parameter", name)
    assert host.ask(method, headers=PROOF, **VALID[method]).status != 422


def test_who_is_not_sure_enough_changes_nothing() -> None:
    """Design decision 4: a header alone reads nothing and changes nothing, unless the host is relaxed."""
    strict, relaxed = FloorHost(), FloorHost(floor=Assurance.HEADER)
    for method in ("ESCALATE", "CONFIRM", "SUSPEND", "NOTIFY"):
        refused = strict.refused(method, certain=False, headers=PROOF, **VALID[method])
        assert refused == (401, "agent-unauthenticated")
        # CONFIRM names the task that the same caller has escalated just before.
        assert relaxed.ask(method, certain=False, headers=PROOF, **VALID[method]).status in (200, 202, 403, 404)
    for method in ("QUERY", "SUMMARIZE", "PLAN"):
        assert strict.ask(method, **VALID[method]).status == 200
        assert relaxed.ask(method, certain=False, **VALID[method]).status == 200
        assert strict.refused(method, certain=False, **VALID[method]) == (401, "agent-unauthenticated")
        assert strict.refused(method, by=None, **VALID[method]) == (401, "agent-unauthenticated")
    for path in ("/escalations", "/notifications"):
        assert strict.refused("QUERY", path, certain=False) == (401, "agent-unauthenticated")
        assert strict.refused("QUERY", path, by=None) == (401, "agent-unauthenticated")


def test_every_method_is_listed_and_described() -> None:
    """DISCOVER /methods and DESCRIBE name them all, with a sentence each (AGTP-183)."""
    host = FloorHost()
    listed = json.loads(host.ask("DISCOVER", "/methods").body)
    statements = {(entry["method"], entry["path"]): entry["description"] for entry in listed}
    floor = [place for place in (*OPEN, *MECHANICS) if place != ("QUOTE", "/")]
    for method, path in floor:
        assert len(statements[method, path]) > 10
    methods = set(host.result("DESCRIBE")["methods"])
    assert {method for method, _ in floor} <= methods


def test_an_operators_endpoint_takes_the_place_of_a_cognitive_method() -> None:
    """QUERY, SUMMARIZE and PLAN on / are the operator's where one is declared there; the mechanics never are."""
    cognitive = [place for place in OPEN if place != ("QUOTE", "/")]
    own = [endpoint(method, path, "Mine.", lambda context: {"mine": True}) for method, path in cognitive]
    host = FloorHost(endpoints=own)
    for method, path in cognitive:
        assert host.result(method, path) == {"mine": True}
        assert (method, path) not in RESERVED
    assert set(MECHANICS) <= set(RESERVED)


@pytest.mark.parametrize("method", ["ESCALATE", "SUSPEND", "NOTIFY"])
def test_a_keyed_request_is_done_once(method: str) -> None:
    """An Idempotency-Key answers a repeat with what was answered before, and keeps nothing twice."""
    host = FloorHost()
    headers = {**PROOF, "Idempotency-Key": "k-1"}
    first, second = (host.ask(method, headers=headers, **VALID[method]) for _ in range(2))
    assert first.body == second.body
    kinds = ("escalation", "suspension", "notification")
    assert sum(len(list(host.held.all(kind))) for kind in kinds) == 1


@pytest.mark.parametrize("method", ["ESCALATE", "SUSPEND", "NOTIFY"])
def test_what_changes_state_says_so_in_its_record(method: str) -> None:
    """The record has an action_id and names what was made; one that only reads has neither (companion section 5.2)."""
    host = FloorHost()
    host.ask(method, headers=PROOF, **VALID[method])
    record = host.ledger.drafts[-1].payload
    assert record["action_id"]
    assert any(name.endswith("_id") for name in record["extra"])  # type: ignore[attr-defined]
    host.ask("QUERY", **VALID["QUERY"])
    assert "action_id" not in host.ledger.drafts[-1].payload


def test_reading_and_planning_keep_nothing() -> None:
    """QUERY, SUMMARIZE and PLAN change no state item (AGTP-206)."""
    host = FloorHost()
    for method in ("QUERY", "SUMMARIZE", "PLAN"):
        host.ask(method, **VALID[method])
        assert host.ledger.drafts[-1].changes == ()


def test_a_registrar_is_no_agent() -> None:
    """What belongs to an agent needs one: a registrar's certificate alone escalates nothing."""
    host = FloorHost(floor=Assurance.NONE)
    for method in ("ESCALATE", "SUSPEND", "NOTIFY"):
        assert host.refused(method, by=ISSUER, **VALID[method]) == (401, "agent-unauthenticated")
    assert host.ask("NOTIFY", by=CALLER, **VALID["NOTIFY"]).status == 202
