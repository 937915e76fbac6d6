"""The state machine of companion section 6.3, cell by cell."""

from __future__ import annotations

from types import SimpleNamespace

from agtphost.audit.lifecycle import (
    TRANSITIONS,
    LifecycleState,
    LifecycleStatus,
    LifecycleTable,
    Noop,
    Transition,
    TransitionRefused,
    decide,
)
from agtphost.stores.rows import StateRow
from tests.rows import each_row

TABLE = """
new        | ACTIVATE   active/agent-genesis-issued        | DEACTIVATE noop | REINSTATE 422 | REVOKE retired | DEPRECATE 422
active     | ACTIVATE   noop                               | DEACTIVATE suspended | REINSTATE noop | REVOKE retired | DEPRECATE deprecated
suspended  | ACTIVATE   active/agent-lifecycle-reinstated  | DEACTIVATE noop | REINSTATE active | REVOKE retired | DEPRECATE 422
deprecated | ACTIVATE   active/agent-lifecycle-reinstated  | DEACTIVATE noop | REINSTATE active | REVOKE retired | DEPRECATE noop
retired    | ACTIVATE   422                                | DEACTIVATE noop | REINSTATE 422 | REVOKE noop | DEPRECATE 422
"""  # noqa: E501

EVENTS = {
    "DEACTIVATE": "agent-lifecycle-suspended",
    "REINSTATE": "agent-lifecycle-reinstated",
    "REVOKE": "agent-genesis-revoked",
    "DEPRECATE": "agent-lifecycle-deprecated",
}


def cells() -> list[tuple[str, str, str]]:
    found = []
    for line in TABLE.strip().splitlines():
        start, *rest = (part.strip() for part in line.split("|"))
        found += [(start, *cell.split()) for cell in rest]
    return found  # type: ignore[return-value]


def state(word: str) -> LifecycleState:
    if word == "new":
        return LifecycleState(status=LifecycleStatus.SUSPENDED)
    return LifecycleState(status=LifecycleStatus(word), recorded=True)


@each_row(("start", "method", "expected"), cells())
def test_every_cell_of_the_table(start: str, method: str, expected: str) -> None:
    """Each method from each state does what the table says (T-LC-1..60, AGTP-228 to AGTP-245)."""
    decision = decide(state(start), method, genesis_loaded=True)
    if expected == "noop":
        assert isinstance(decision, Noop)
    elif expected == "422":
        assert isinstance(decision, TransitionRefused)
        assert decision.reason and decision.explanation
    else:
        new, _, event = expected.partition("/")
        assert isinstance(decision, Transition)
        assert (decision.new.value, decision.event_type) == (new, event or EVENTS[method])


def test_the_table_has_no_other_cells() -> None:
    """Five starts, five methods, nothing else."""
    assert len(TRANSITIONS) == len(cells()) == 25


def test_nothing_leads_out_of_retired() -> None:
    """Retired is terminal (AGTP-236)."""
    assert not [
        key
        for key, outcome in TRANSITIONS.items()
        if key[0] is LifecycleStatus.RETIRED and isinstance(outcome, Transition)
    ]


def test_without_a_genesis_nothing_becomes_active() -> None:
    """ACTIVATE and REINSTATE need a loaded Genesis; the other methods do not (AGTP-229)."""
    refused = decide(state("new"), "ACTIVATE", genesis_loaded=False)
    assert isinstance(refused, TransitionRefused) and refused.reason == "genesis-not-loaded"
    assert isinstance(decide(state("suspended"), "REINSTATE", genesis_loaded=False), TransitionRefused)
    assert isinstance(decide(state("active"), "ACTIVATE", genesis_loaded=False), Noop)
    assert isinstance(decide(state("active"), "REVOKE", genesis_loaded=False), Transition)


def test_a_document_that_says_retired_is_final_too() -> None:
    """A declared state without history follows the row of that state, suspended alone counts as new."""
    declared = LifecycleState(status=LifecycleStatus.RETIRED)
    assert isinstance(decide(declared, "ACTIVATE", genesis_loaded=True), TransitionRefused)


def test_the_stored_state_overrides_the_document() -> None:
    """What an event recorded holds, whatever the Identity Document says (AGTP-139)."""
    table = LifecycleTable()
    agent = SimpleNamespace(agent_id="aa", document_status="active")
    assert table.state_of(agent) == LifecycleState(status=LifecycleStatus.ACTIVE)  # type: ignore[arg-type]
    table.apply("aa", StateRow("deprecated", "2027-01-01T00:00:00.000Z", "old", "bb", "2028-01-01T00:00:00Z"))
    assert table.state_of(agent) == LifecycleState(  # type: ignore[arg-type]
        status=LifecycleStatus.DEPRECATED,
        since="2027-01-01T00:00:00.000Z",
        reason="old",
        successor="bb",
        deadline="2028-01-01T00:00:00Z",
        recorded=True,
    )
    table.replace({})
    assert table.find_recorded("aa") is None
