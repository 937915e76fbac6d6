"""CHAIN and BATCH give nobody more than it has: made-up calls, compared with the same calls made one by one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from agtphost.dispatch import resumption
from agtphost.dispatch.exchange import Exchange
from agtphost.vocabulary import scopes as scope_words
from tests.methods.standard.orchestration.hosts import CHANGES, SCOPES, Workshop, book, teas
from tests.programmes import length

SEED = 16
CASES = length(60, 2_000)
WAYS = ("batch", "sequential", "chain", "behind", "later", "behind", "later")

CALLS: list[Mapping[str, Any]] = [
    book("g", path="/guarded"),
    {"method": "BOOK", "path": "/agents/planner/guarded", "parameters": {"room": "g"}},
    book("s"),
    teas(),
    {"method": "INSPECT", "parameters": {"target": "upstreams"}},
    {"method": "INSPECT", "parameters": {"target": "agents"}},
    {"method": "RUN", "parameters": {"procedure_id": "quality-check", "input": {"dataset": "x"}}},
    {"method": "QUERY", "path": "/escalations"},
    {"method": "PURCHASE", "parameters": {"item": "tea", "principal_id": "acme", "amount": 1}},
    {"method": "ACTIVATE", "path": "/agents/planner", "parameters": {}},
    {"method": "EXECUTE", "parameters": {"action": "files.read"}},
]


def cases(host: Workshop, count: int) -> Any:
    """So many: a caller, what it claims, calls, and the way they are ordered."""
    chance = random.Random(SEED)
    callers = [
        *(host.caller,) * 4,
        *(host.agent(f"agent{n}", scopes=s) for n, s in enumerate((SCOPES[:1], SCOPES[:2]))),
    ]
    for _ in range(count):
        caller = chance.choice(callers)
        held = sorted(caller.agent.scopes)
        claims = (None, [], held, *(chance.sample(held, chance.randrange(len(held))) for _ in range(3)))
        claim = chance.choice(claims)
        yield caller, claim, [chance.choice(CALLS) for _ in range(chance.randrange(1, 5))], chance.choice(WAYS)


def gains(host: Workshop, count: int) -> list[str]:
    """Calls that succeeded inside and are refused alone, or were sealed with scopes beyond the caller's."""
    found = []
    for caller, claim, calls, way in cases(host, count):
        headers = {} if claim is None else {"Authority-Scope": scope_words.render(claim)}
        alone = [
            host.call(
                call["method"],
                call.get("path", "/"),
                call.get("parameters", {}),
                caller=caller,
                headers=headers,
            ).status
            for call in calls
        ]
        inside = statuses(host, caller, headers, calls, way)
        for call, single, together in zip(calls, alone, inside, strict=False):
            if single in (262, 401, 403, 455) and together is not None and together != single:
                found.append(f"{way} {call['method']} {call.get('path', '/')} by {caller.agent.name} claiming {claim}")
    return found


def statuses(host: Workshop, caller: Any, headers: Any, calls: Any, way: str) -> list[int | None]:
    """What each call came to; None for those that were not made."""
    if way in ("batch", "sequential"):
        given = {"calls": calls, "partial_success": True, "execution_mode": "parallel" if way == "batch" else way}
        answer = host.call("BATCH", "/", given, caller=caller, headers=headers)
        return [outcome["status"] for outcome in answer.document["result"]["outcomes"]]
    more: dict[str, Any] = {"on_failure": "skip"}
    if way == "behind":
        more["background"] = True
    if way == "later":
        from agtphost.methods.standard.orchestration import workflow_items

        more["start_at"] = workflow_items.stamp(host.seconds() + 20)
    answer = host.call("CHAIN", "/", {"steps": calls, **more}, caller=caller, headers=headers)
    result = answer.document["result"]
    if way in ("behind", "later"):
        host.turn(25)
        asked = {"target": "workflow", "workflow_id": result["workflow_id"]}
        result = host.call("INSPECT", "/", asked, caller=caller).document["result"]
    made = {step["step"]: step.get("status") for step in result["steps"]}
    return [made.get(number) for number in range(1, len(calls) + 1)]


@pytest.mark.programme
def test_nobody_gains_by_a_chain_or_a_batch() -> None:
    """METH-042, METH-043: over all ways, with whatever is claimed: 0."""
    assert gains(Workshop(LOOSE), CASES) == [], f"seed {SEED}"


def test_a_claim_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what goes on by itself goes on with all that the agent has, and not with what its call had."""
    standing = resumption.caller_to_json

    def generous(exchange: Exchange) -> Any:
        kept = standing(exchange)
        assert kept is not None and exchange.caller is not None
        return {**kept, "scopes": scope_words.render(exchange.caller.scopes)}

    monkeypatch.setattr("agtphost.methods.standard.orchestration.chain.caller_to_json", generous)
    assert gains(Workshop(LOOSE), 60), f"seed {SEED}"


LOOSE = {
    "limits": {"requests_per_minute": 1_000_000, "requests_per_minute_per_principal": 1_000_000},
    "audit": {"refusal_records_per_agent": 1_000_000},
}
"""Thousands of calls, none of which is too many."""


def test_a_budget_holds_for_all_that_is_done_in_its_course() -> None:
    """METH-056: of each call of a chain and a batch, now or later, and of all together, before any."""
    host = Workshop()
    host.endpoint("BOOK", "/dear", host._booked, {"room": "string"}, semantic=CHANGES, cost="USD=5")
    dear = {**book("a"), "path": "/dear"}
    asked: list[tuple[str, dict[str, Any], str, int]] = [
        ("BATCH", {"calls": [dear]}, "USD=4", 456),
        ("BATCH", {"calls": [dear, book("b"), dear]}, "USD=9", 456),
        ("BATCH", {"calls": [dear, dear]}, "USD=10", 200),
        ("CHAIN", {"steps": [dear]}, "USD=4", 456),
        ("CHAIN", {"steps": [dear, dear]}, "USD=9", 456),
        ("CHAIN", {"steps": [dear, {**dear, "when": "`false`"}], "context_propagation": True}, "USD=9", 200),
        ("CHAIN", {"steps": [{**dear, "when": "`true`"}], "context_propagation": True}, "USD=4", 422),
        ("CHAIN", {"steps": [dear, dear]}, "tokens=1", 200),
        ("CHAIN", {"steps": [dear]}, "much", 400),
        ("CHAIN", {"steps": [dear], "every": 60}, "USD=4", 456),
    ]
    for method, given, limit, status in asked:
        before = len(host.rooms())
        answer = host.ask(method, given, headers={"Budget-Limit": limit})
        assert (answer.status, len(host.rooms()) > before) == (status, status == 200), (method, given, limit)
