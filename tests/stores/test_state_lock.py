"""One host per state directory: the kernel's lock, which goes with the process that has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agtphost.stores import StoreError
from agtphost.stores.state_lock import NAME, StateLock

HOLD = (
    "import sys, pathlib\n"
    "from agtphost.stores.state_lock import StateLock\n"
    "lock = StateLock(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
    "lock.acquire()\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def holder(state: Path, store: Path) -> subprocess.Popen[str]:
    """Another process that has it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state), str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_it_is_one_process_s_until_that_ends(how: signal.Signals, tmp_path: Path) -> None:
    """However it ends: nothing is to be cleaned up after it."""
    lock = StateLock(tmp_path, tmp_path / "records.sqlite3")
    with holder(tmp_path, tmp_path / "records.sqlite3") as process:
        with pytest.raises(StoreError, match=f"^another host, pid {process.pid}, uses this state"):
            lock.acquire()
        process.send_signal(how)
        process.wait(30)
    lock.acquire()
    assert (tmp_path / NAME).read_text() == f"{os.getpid()}\n"
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    lock.release()
    lock.acquire()
    lock.release()


def test_a_store_elsewhere_is_locked_as_well(tmp_path: Path) -> None:
    """Two state directories, one database: the second host is refused, and lets go of its own directory."""
    store = tmp_path / "disk" / "records.sqlite3"
    states = [tmp_path / "one", tmp_path / "two"]
    for folder in (store.parent, *states):
        folder.mkdir()
    with holder(states[0], store) as process:
        with pytest.raises(StoreError, match=r"records\.sqlite3\.lock is locked"):
            StateLock(states[1], store).acquire()
        StateLock(states[1], states[1] / "own.sqlite3").acquire()
        process.kill()


def test_what_cannot_be_locked_is_said(tmp_path: Path) -> None:
    """A directory that is not there, a link that somebody put in place: no start, and why."""
    with pytest.raises(StoreError, match=r"host\.lock cannot be opened"):
        StateLock(tmp_path / "none", tmp_path / "none" / "r").acquire()
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"host\.lock cannot be opened"):
        StateLock(tmp_path, tmp_path / "r").acquire()
