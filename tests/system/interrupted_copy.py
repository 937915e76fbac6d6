"""
``agtp`` that is killed in the last step of ``agtp store copy``, once it is about to mark the old store, or waits there.

``python interrupted_copy.py NUMBER store copy FROM TO``: it dies before the call with this number, from 0 on, of those
that change a database or a directory; with a number that no call has, it ends with status 0. With ``wait FILE`` in
place of the number it waits for a file, which is said by one that ends in ``.waits``.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from agtphost.cli import main
from agtphost.stores.copying import StoreTables
from agtphost.stores.moves import StoreMove

CALLS = ("execute", "exec_", "exec_params", "exec_prepared", "link", "unlink", "fsync", "close", "finish")
"""Names of functions of sqlite3, psycopg and os. A Python function counts, too: psycopg may be one."""


def before_mark(begin: Callable[[], object]) -> None:
    """Call a function before the old store is marked."""
    mark = StoreTables.mark

    def begin_and_mark(self: StoreTables, move: StoreMove) -> None:
        begin()
        mark(self, move)

    StoreTables.mark = begin_and_mark  # type: ignore[method-assign]


def kill_at(number: int) -> None:
    """Have this process die at a call from now on."""
    numbers = itertools.count()

    def watch(frame: FrameType, event: str, what: Any) -> None:
        name = what.__name__ if event == "c_call" else frame.f_code.co_name
        if event in ("call", "c_call") and name in CALLS and next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)


def wait_for(file: str) -> None:
    """Wait until a file is there."""
    Path(f"{file}.waits").touch()
    while not os.path.exists(file):
        time.sleep(0.02)


if __name__ == "__main__":
    word, _, named = sys.argv[1].partition(" ")
    before_mark(partial(wait_for, named) if named else partial(kill_at, int(word)))
    sys.argv = ["agtp", *sys.argv[2:]]
    main()
