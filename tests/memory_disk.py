"""
Temporary files of a whole run, in memory where there is room.

A host commits each record durably, and a thousand tests start one: on a disk they wait for ``fsync`` a quarter of the
time. What ``fsync`` is good for, the programmes show, which always use the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

PLACE = Path("/dev/shm")
ROOM = 6 << 30
"""Octets that a whole run may take, at most; half of it was seen."""

SPARE = 6 << 30
"""Octets of memory that the tests themselves need beside it."""


def has_room(place: Path = PLACE, room: int = ROOM) -> bool:
    """Return whether a directory is in memory, with enough of it."""
    try:
        mounted = Path("/proc/mounts").read_text()
        available = re.search(r"^MemAvailable: +([0-9]+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
        free = shutil.disk_usage(place).free
    except OSError:
        return False
    found = re.findall(rf"^\S+ {re.escape(str(place))} (\S+) (\S+) ", mounted, re.MULTILINE)
    # Environments are made in temporary directories, and their programs run.
    in_memory = bool(found) and found[-1][0] == "tmpfs" and "noexec" not in found[-1][1].split(",")
    writable = os.access(place, os.W_OK | os.X_OK)
    return in_memory and writable and free >= room and available is not None and int(available[1]) << 10 >= room + SPARE


def use_for_temporary_files(config: pytest.Config) -> None:
    """
    Have all processes of a run make their temporary files in memory; ``TMPDIR`` and ``--basetemp`` win.

    They are removed at the end, those of failed tests too. A test that is run alone keeps its files, on the disk.
    """
    if hasattr(config, "workerinput") or os.environ.get("TMPDIR") or config.option.basetemp or not has_room():
        return
    made = tempfile.mkdtemp(prefix="agtphost-tests-", dir=PLACE)
    os.environ["TMPDIR"] = made
    tempfile.tempdir = None
    config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))
