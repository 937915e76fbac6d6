"""
Long runs: thousands of kills and power cuts, the whole table of upstream faults, each attack for seconds.

The suite has a shortened run of each, with every kind of case at least once. ``python -m pytest --programmes`` runs
the tests that are marked ``programme``, and those alone, at full length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

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
