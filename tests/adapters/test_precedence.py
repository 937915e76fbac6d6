"""Header fields win over payloads (core v08 section 8.3, AGTP-272)."""

from __future__ import annotations

from typing import Any

from agtphost.adapters.precedence import differences, drop_claims, field_of
from agtphost.handlers.built_in import BuiltInContext
from tests.adapters.peers import ALICE
from tests.rows import each_row


def context() -> BuiltInContext:
    """A call by Alice."""
    return BuiltInContext(
        input={},
        method="EXECUTE",
        path="/",
        caller=ALICE,
        scopes=frozenset({"a:b", "c:d"}),
        session_id="S",
        task_id="T",
    )


@each_row(
    ("claim", "field"),
    [
        ({"agent_id": "f" * 64}, "Agent-ID"),
        ({"Agent-ID": "f" * 64}, "Agent-ID"),
        ({"agtp.agentId": "f" * 64}, "Agent-ID"),
        ({"agent": {"id": "f" * 64}}, "Agent-ID"),
        ({"authority_scope": "*:*"}, "Authority-Scope"),
        ({"authorityScope": ["a:b"]}, "Authority-Scope"),
        ({"authority_scope": 5}, "Authority-Scope"),
        ({"X-AGTP-Session-ID": "other"}, "Session-ID"),
        ({"taskId": "other"}, "Task-ID"),
        ({"delegation_chain": []}, "Delegation-Chain"),
        ({"owner_id": "mallory"}, "Owner-ID"),
    ],
)
def test_a_contradiction_is_noticed(claim: dict[str, Any], field: str) -> None:
    """However a payload spells it."""
    assert differences(context(), claim) == (field,)


def test_agreement_is_no_contradiction() -> None:
    """A payload that repeats the header fields as they are contradicts nothing."""
    same = {"agent_id": "a" * 64, "authority_scope": "c:d, a:b", "session_id": "S", "task_id": "T"}
    assert differences(context(), same, None, [1]) == ()


def test_claims_are_not_passed_on() -> None:
    """Neither repeated header fields nor members in the host's name; everything else is."""
    given = {"agent_id": "x", "agtp.anything": 1, "agtp/other": 2, "colour": "red", "agents": 3}
    assert drop_claims(given) == {"colour": "red", "agents": 3}
    assert drop_claims(None) == {}


def test_ordinary_names_are_no_claims() -> None:
    """A control: names that merely resemble header fields are left alone."""
    assert [field_of(name) for name in ("agent", "task", "id", "scope", "agent_identity")] == [None] * 5
