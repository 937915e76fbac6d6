"""Trying a configuration in a process that goes on: what is found, and that nothing of it stays."""

from __future__ import annotations

import gc
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.logger import capturedLogs, formatEvent
from zope.interface import implementer

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.interfaces import IWitness
from agtphost.config import load
from agtphost.host.core import Core
from agtphost.host.host_loader import load_host
from agtphost.host.trial_start import find_start_problems
from agtphost.stores import StoreError
from agtphost.stores.settings import locate_store
from tests.host.hosts import configured
from tests.system.hosting import free_port, sample

ALL = """
[gateway]
listen = "tcp:{0}:interface=127.0.0.1"
[registry]
listen = "tcp:{1}:interface=127.0.0.1"
[metrics]
listen = "tcp:{2}:interface=127.0.0.1"
[wellknown]
listen = "tcp:{3}:interface=127.0.0.1"
[a2a.front]
listen = "tcp:{4}:interface=127.0.0.1"
agent_id = "demo"
[[a2a.front.agent]]
name = "librarian"
[mcp.front]
listen = "tcp:{5}:interface=127.0.0.1"
[[http.client]]
name = "ci"
token = "file:token"
agent = "demo"
[admin]
listen = "tcp:{6}:interface=127.0.0.1"
url = "https://127.0.0.1:{6}"
[policies.zones]
nowhere = ["*"]
"""


SQLITE = "agtphost.sqlite3"
"""SQLite makes files next to a database that is read."""

CARD_KEY = """
[[a2a.agent]]
name = "elsewhere"
url = "https://localhost:9"
start = "lazy"
card_keys = {one = "file:missing.pub"}
"""
"""Only the assembly reads the key."""


def resources(folder: Path) -> dict[str, Any]:
    """Return what a process may leave behind."""
    gc.collect()
    running: Any = reactor
    return {
        "threads": sorted(each.name for each in threading.enumerate()),
        "calls": sorted(map(id, running.getDelayedCalls())),
        "readers": len(running.getReaders()),
        "files": {
            str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and SQLITE not in str(path)
        },
        "sockets": sorted(name for name in descriptors() if name.startswith("socket")),
    }


def find_cores() -> list[Core]:
    """Return the cores of all hosts in this process; a list of them keeps those of earlier tests from being freed."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Core)]


def descriptors() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue


@pytest.mark.parametrize("fault", ["", "port", "witness", "card"])
def test_a_trial_finds_what_a_start_would_and_leaves_nothing(tmp_path: Path, fault: str) -> None:
    """With every surface: no thread, timer, port, file or object, and no line in the log, whatever it finds."""
    file = sample(tmp_path, append=ALL.format(*(free_port() for _ in range(7))))
    (file.parent / "token").write_text("a" * 40)
    (file.parent / "token").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1] if fault == "port" else free_port()
        text = re.sub(r"(?m)^port = \d+", f"port = {number}", file.read_text(), count=1)
        if fault == "witness":
            text += f'[audit]\nwitness = "{tmp_path}/missing/witness.txt"\n'
        file.write_text(text + (CARD_KEY if fault == "card" else ""))
        loaded = load_host(load(file, {}), {})
        locate_store(loaded.config.store).open_store(create=True).close()
        find_start_problems(loaded, reactor, {}, serves=True)
        before, cores = resources(tmp_path), find_cores()
        with capturedLogs() as logged:
            found = find_start_problems(loaded, reactor, {}, serves=True)
        assert resources(tmp_path) == before
        assert {*map(id, find_cores())} == {*map(id, cores)}
        assert [formatEvent(each) for each in logged if each["log_level"].name != "info"] == []
    expected = {"port": str(number), "witness": "[audit] witness", "card": "card_keys"}
    assert len(found) == bool(fault) and all(expected[fault] in str(problem) for problem in found)
    free = find_start_problems(loaded, reactor, {}, serves=False)
    assert [str(each) for each in free] == [str(each) for each in found if fault != "port"]


def test_a_store_that_keeps_every_start_from_serving_is_no_problem_of_the_files(tmp_path: Path) -> None:
    """It is raised, so that the host ends, and no file is blamed."""
    loaded = load_host(configured(tmp_path))
    file = locate_store(loaded.config.store).file
    assert file is not None
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError):
        find_start_problems(loaded, reactor, {}, serves=True)
    assert find_start_problems(loaded, reactor, {}, serves=False) == []


@implementer(IWitness)
class Watching:
    """A witness of an operator that has seen a longer log, and notes what it is shown."""

    name = "watching"
    always = True
    remedy = "ask it"

    def __init__(self, seen: Checkpoint | None) -> None:
        self.seen = seen
        self.shown: list[Checkpoint] = []

    def last(self) -> Checkpoint | None:
        return self.seen

    def saw(self, issued: Checkpoint) -> None:
        self.shown.append(issued)


def test_a_trial_asks_witnesses_shows_them_nothing_and_reads_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A witness that contradicts the store is a problem; what the store holds is left to the start, which reads it."""
    loaded = load_host(configured(tmp_path))
    place = locate_store(loaded.config.store)
    place.open_store(create=True).close()
    reads: list[str] = []
    with closing(place.rehearse(create=False, folder=tmp_path)) as rehearsed:
        kind: Any = type(rehearsed)
    items = kind.list_items

    def note_items(store: Any) -> Any:
        reads.append("items")
        return items(store)

    monkeypatch.setattr(kind, "list_items", note_items)
    longer = checkpoint.issue(loaded.config.host.server_id, 5, b"\1" * 32, loaded.key)
    for seen, expected in ((longer, ["watching has seen a checkpoint of 5"]), (None, [])):
        witness = Watching(seen)
        watched = replace(loaded, plugins=replace(loaded.plugins, witnesses=[witness]))
        found = find_start_problems(watched, reactor, {}, serves=True)
        assert [text in str(problem) for text, problem in zip(expected, found, strict=True)] == [True] * len(expected)
        assert witness.shown == [] and reads == []
