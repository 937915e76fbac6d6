"""
``twistd`` on a machine whose clock others set: ``python shifted_host.py FILE twistd ARGUMENTS...``.

``FILE`` has eight octets, a double: the seconds by which :func:`time.time` differs from the system's clock. It is read
each time, so a test sets the clock of a running host by writing it. The steady clocks are the system's own.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        shift = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    system, read = time.time, struct.Struct("d").unpack_from

    def shifted() -> float:
        """What a program is told that asks for the time."""
        return system() + float(read(shift)[0])

    # Before anything is imported that keeps it under another name.
    time.time = shifted
    sys.argv = sys.argv[2:]
    from twisted.scripts.twistd import run

    run()  # type: ignore[no-untyped-call]
