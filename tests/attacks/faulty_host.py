"""
``twistd`` with a deliberate fault, so that the rig can show that it notices.

``python faulty_host.py FAULT twistd ARGUMENTS...``; the faults are the functions below.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from twisted.scripts.twistd import run

from agtphost.dispatch.dispatcher import Dispatcher

refuse = Dispatcher.refuse


def make_standing() -> None:
    """Whoever sends garbage holds up everybody for 150 ms."""

    async def standing(self: Dispatcher, *words: Any) -> Any:
        time.sleep(0.15)  # noqa: ASYNC251 - that is the fault
        return await refuse(self, *words)

    Dispatcher.refuse = standing  # type: ignore[method-assign, assignment]


def make_remembering() -> None:
    """Nothing of what is refused is forgotten, and more is kept of it than was sent."""
    kept = []

    async def remembering(self: Dispatcher, *words: Any) -> Any:
        kept.append(bytearray(b"x" * 8 * 1024 * 1024))
        return await refuse(self, *words)

    Dispatcher.refuse = remembering  # type: ignore[method-assign, assignment]


def make_scribbling() -> None:
    """What is refused is written down at length."""

    scribble = open("state/scribble", "ab", buffering=0)  # noqa: SIM115 - as long as the host lives

    async def scribbling(self: Dispatcher, *words: Any) -> Any:
        scribble.write(b"x" * 8 * 1024 * 1024)
        return await refuse(self, *words)

    Dispatcher.refuse = scribbling  # type: ignore[method-assign, assignment]


def make_failing() -> None:
    """After something was refused, the next request of anybody is lost."""
    dispatch, owed = Dispatcher.dispatch, []

    async def failing(self: Dispatcher, request: Any, peer: Any, interim: Any = None) -> Any:
        if owed and request.path == "/text":
            owed.clear()
            request = type(request)(method="QUERY", path="/lost", line=b"QUERY /lost")
        return await dispatch(self, request, peer, interim)

    async def owing(self: Dispatcher, *words: Any) -> Any:
        owed.append(True)
        return await refuse(self, *words)

    Dispatcher.dispatch, Dispatcher.refuse = failing, owing  # type: ignore[method-assign, assignment]


FAULTS = {
    "standing": make_standing,
    "remembering": make_remembering,
    "scribbling": make_scribbling,
    "failing": make_failing,
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.argv = sys.argv[2:]
    run()  # type: ignore[no-untyped-call]
