"""What must never happen with two hosts and one store: no order of steps does it, and each mutant does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agtphost.audit.transaction import Group
from agtphost.audit.writer import GroupWriter
from agtphost.dispatch.gates.idempotency import LeasedStoreGate
from agtphost.host.root import HostService
from agtphost.stores.interfaces import ILease
from agtphost.stores.postgres.transactions import Transactions
from agtphost.stores.postgres.writing import PostgresStore
from tests.models import shared_store
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


def test_actions_have_the_names_of_what_they_stand_for() -> None:
    """A step that names a class, or a method of one, names one that is there."""
    text = Path(shared_store.__file__).read_text()
    named = set(re.findall(r'f"((?:[A-Z]\w*(?:\.\w+)?)|startService) \{number\}', text))
    there = {"startService": hasattr(HostService, "startService"), LeasedStoreGate.__name__: True}
    for kind in (Group, GroupWriter, PostgresStore, Transactions):
        there |= {f"{kind.__name__}.{name}": True for name in dir(kind)}
    there |= {f"ILease.{name}": True for name in ILease.names()}
    assert len(named) == 10
    assert [name for name in named if not there.get(name)] == []
