"""
Long runs: thousands of kills and power cuts, the whole table of upstream faults, each attack for seconds.

The suite has a shortened run of each, with every kind of case at least once. ``python -m pytest --programmes`` runs
the tests that are marked ``programme``, and those alone, at full length.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


@dataclass
class _Chosen:
    whole: bool = False


CHOSEN = _Chosen()
"""Set by ``tests/conftest.py``, before any test module is imported."""


def length(shortened: T, whole: T) -> T:
    """
    What a run has: times, seconds, or cases.

    :param shortened: in the suite.
    :param whole: with ``--programmes``.
    """
    return whole if CHOSEN.whole else shortened


def sampled(values: Iterable[str], every: int) -> list[ParameterSet]:
    """
    Return parameters of a test of which the suite runs some: the first, and each that comes ``every`` places later.

    The others are release tests.
    """
    return [
        pytest.param(value, marks=pytest.mark.release if number % every else ()) for number, value in enumerate(values)
    ]


def seed_of_chance() -> int:
    """
    Return the seed of a test's random material, and print it.

    It is the same in every run of the suite, so that the same tree passes or fails the same way on every machine;
    ``--programmes`` draws one. ``AGTP_SEED`` gives another, and ``AGTP_SEED=drawn`` draws one.
    """
    given = os.environ.get("AGTP_SEED", "drawn" if CHOSEN.whole else "1")
    seed = random.SystemRandom().randrange(1, 1 << 31) if given == "drawn" else int(given)
    print(f"AGTP_SEED={seed}")
    return seed
