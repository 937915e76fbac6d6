"""What must never happen when a store is copied: no order of steps does it, and each mutant does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agtphost.cli import store_move
from agtphost.stores.copying import StoreTables
from agtphost.stores.location import StoreLocation
from tests.models import store_copies
from tests.models.store_copies import MUTANTS, explore


def test_no_order_of_steps_violates_a_rule() -> None:
    """Every world that three places, commands that die and people can reach is allowed."""
    worlds, found = explore()
    assert found == {} and worlds > 100_000


@pytest.mark.parametrize("mutant", MUTANTS)
def test_control_a_mutant_is_refuted(mutant: str) -> None:
    """Each part of the design is needed: without it a rule is violated."""
    _, found = explore(mutant, until=MUTANTS[mutant])
    assert MUTANTS[mutant] in found


def test_actions_have_the_names_of_what_they_stand_for() -> None:
    """A step that names a function names one that is there."""
    named = set(re.findall(r'f"([a-z]+_[a-z]+|StoreTables\.mark) \{', Path(store_copies.__file__).read_text()))
    there = {*dir(store_move), *dir(StoreLocation), *(f"StoreTables.{name}" for name in dir(StoreTables))}
    assert len(named) == 7 and named <= there
