"""Count calls of Python functions: a measure of cost that repeats exactly, however busy the machine is."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

CLOCK = ("twisted/internet/task.py", "twisted/internet/base.py")
"""The reactor of tests; modules with ``test`` in their names are left out too."""


ROUNDS = 9


def count_functions(do: Callable[[], object]) -> Counter[str]:
    """
    Return by module how many Python functions a call of a function calls: that of the round in the middle of nine.

    Rounds in which time or the number of records asks for more, such as a checkpoint, are among those above it. Garbage
    is collected before all of them: that takes half a second after thousands of tests, and between any two rounds it
    would be another second, with a new ``Date`` and a note of the host's clock to write.

    :param do: what is done only once should have been done before.
    """
    counted: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "test" not in name and not name.endswith(CLOCK):
            counted[name.rpartition("agtphost/")[2]] += 1

    rounds: list[Counter[str]] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            sys.setprofile(note)
            try:
                do()
            finally:
                sys.setprofile(None)
            rounds.append(counted.copy())
            counted.clear()
    finally:
        gc.enable()
    return sorted(rounds, key=Counter.total)[ROUNDS // 2]
