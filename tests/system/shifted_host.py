"""
``twistd`` on a machine whose clock others set: ``python shifted_host.py FILE twistd ARGUMENTS...``.

``FILE`` has eight octets, a double: the seconds by which :func:`time.time` differs from the system's clock. It is read
each time, so a test sets the clock of a running host by writing it. The steady clocks are the system's own.

The process is forked from one that has imported the host (:mod:`tests.forkserver`), so the function is there under
other names too: in modules, as a default of parameters, as a method. All of them are replaced, and a place that is
none of these ends the process.
"""

from __future__ import annotations

import gc
import mmap
import struct
import sys
import time
from collections.abc import Callable
from types import CellType, FrameType, FunctionType


def replace(old: object, new: object) -> None:
    """
    Put one object into every place where another one is.

    :raises AssertionError: a place is no variable, default of a function, or static method.
    """
    gc.unfreeze()  # What is frozen, nobody finds.
    for holder in gc.get_referrers(old):
        if isinstance(holder, dict):
            holder.update({name: new for name, value in holder.items() if value is old})
        elif isinstance(holder, tuple):
            for user in gc.get_referrers(holder):
                if isinstance(user, FunctionType) and user.__defaults__ is holder:
                    user.__defaults__ = tuple(new if value is old else value for value in holder)
        elif isinstance(holder, staticmethod):
            for kind in _classes_of(holder):
                for name in [name for name, value in vars(kind).items() if value is holder]:
                    setattr(kind, name, staticmethod(new))  # type: ignore[arg-type]
    holder = user = None
    gc.collect()
    left = [place for place in gc.get_referrers(old) if not isinstance(place, (CellType, FrameType))]
    assert not left, f"{old} is still at {left!r}"[:2000]


def _classes_of(member: object) -> list[type]:
    """Return the classes that have a member."""
    spaces = [space for space in gc.get_referrers(member) if isinstance(space, dict)]
    return [kind for space in spaces for kind in gc.get_referrers(space) if isinstance(kind, type)]


def shifted(system: Callable[[], float], file: str) -> Callable[[], float]:
    """Return what a program is told that asks for the time."""
    with open(file, "rb") as opened:
        shift = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)
    read = struct.Struct("d").unpack_from
    return lambda: system() + float(read(shift)[0])


if __name__ == "__main__":
    replace(time.time, shifted(time.time, sys.argv[1]))
    sys.argv = sys.argv[2:]
    from twisted.scripts.twistd import run

    run()  # type: ignore[no-untyped-call]
