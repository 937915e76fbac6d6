"""What must never happen with two hosts and one store: no order of steps does it, and each mutant does."""

from __future__ import annotations

import pytest

from tests.models.shared_store import KEYED, MUTANTS, REVOKED, TOKEN, explore


@pytest.mark.parametrize("kinds", [KEYED, TOKEN, REVOKED], ids=" ".join)
def test_no_order_of_steps_violates_a_rule(kinds: tuple[str, ...]) -> None:
    """Every world that two hosts, a database and a network can reach with these requests is allowed."""
    worlds, found = explore(kinds)
    assert found == {} and worlds > 30_000


@pytest.mark.parametrize("mutant", MUTANTS)
def test_control_a_mutant_is_refuted(mutant: str) -> None:
    """Each part of the design is needed: without it a rule is violated."""
    kinds, rule = MUTANTS[mutant]
    _, found = explore(kinds, mutant, until=rule)
    assert rule in found
