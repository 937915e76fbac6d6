"""Count calls of Python functions: a measure of cost that repeats exactly, however busy the machine is."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

CLOCK = ("twisted/internet/task.py", "twisted/internet/base.py")
"""The reactor of tests; modules with ``test`` in their names are left out too."""


def count_functions(do: Callable[[], object], rounds: int) -> Counter[str]:
    """
    Call a function several times, and return by module how many Python functions were called in all.

    :param do: called ``rounds`` times; what is done only once should have been done before.
    """
    counted: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "test" not in name and not name.endswith(CLOCK):
            counted[name.rpartition("agtphost/")[2]] += 1

    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        for _ in range(rounds):
            do()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted
