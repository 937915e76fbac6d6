"""Numbers of published contents in a store that hosts share: none is used for two contents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agtphost.cluster.shared_numbers import ALLOTTED, SharedNumbers
from agtphost.errors import ConfigurationError
from agtphost.host.publication_history import PublicationHistory
from agtphost.stores.rows import StoreError
from tests.cluster.test_heartbeat import MemoryLease
from tests.rows import each_row


class Hosts:
    """Hosts that share a lease; each has its own state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lease = MemoryLease(lambda: 0.0)
        self.waiting: list[Callable[[], object]] = []

    def start(self, name: str, *, shared: bool = True) -> PublicationHistory:
        """Start a host; what it has not written yet is lost for whoever comes next."""
        self.waiting = []
        (self.folder / name).mkdir(exist_ok=True)
        numbers = SharedNumbers(self.lease, self.waiting.append) if shared else None
        return PublicationHistory(self.folder / name / "manifest.json", lambda: "now", numbers)

    def write(self) -> None:
        """Let the writer's thread carry out what it was asked for."""
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_a_takeover_goes_on_with_the_numbers(hosts: Hosts) -> None:
    """The same content keeps its number at the other host, and another content gets a number of its own."""
    one = hosts.start("a")
    assert (one.number_surface("x", {"/mcp/files": {}}), one.number_document("f", "x").version) == (1, "v1")
    hosts.write()
    other = hosts.start("b")
    assert other.number_surface("x", {}) == 1 and other.upstreams == {"/mcp/files": {}}
    assert other.number_document("f", "x").version == "v1"
    assert other.number_surface("y", {}) > 1


@each_row(("written", "shared"), [(True, True), (False, True), (False, False)])
def test_no_number_is_used_for_two_contents(tmp_path: Path, written: bool, shared: bool) -> None:
    """
    Hosts take over from each other again and again, and each publishes contents of its own.

    Also where what a killed host published was never written. The control has the numbers in the files alone.
    """
    hosts = Hosts(tmp_path / f"{written}{shared}")
    hosts.folder.mkdir()
    contents: dict[int, set[str]] = {}
    for turn in range(6):
        host = hosts.start("ab"[turn % 2], shared=shared)
        for content in (f"{turn}-1", f"{turn}-2"):
            contents.setdefault(host.number_surface(content, {}), set()).add(content)
        if written:
            hosts.write()
    assert all(len(each) == 1 for each in contents.values()) is shared


def test_numbers_wait_for_a_store_that_is_away(hosts: Hosts, capsys: pytest.CaptureFixture[str]) -> None:
    """Some more are given; then there is none until the store has confirmed the next limit."""
    host = hosts.start("a")
    hosts.lease.error = StoreError("away")
    for number in range(1, ALLOTTED + 1):
        assert host.number_surface(f"{number}", {}) == number
    hosts.write()
    with pytest.raises(OSError, match="has not confirmed"):
        host.number_surface("more", {})
    assert host.number_surface(f"{ALLOTTED}", {}) == ALLOTTED
    hosts.lease.error = None
    host.number_document("f", "x")
    hosts.write()
    assert host.number_surface("more", {}) == ALLOTTED + 1


def test_the_file_of_an_earlier_version_counts(hosts: Hosts) -> None:
    """Its host had the numbers there alone, and may have used larger ones than the store has."""
    before = hosts.start("a", shared=False)
    for content in "xyz":
        before.number_surface(content, {})
    hosts.start("b").number_surface("other", {})
    hosts.write()
    assert hosts.start("a").number_surface("new", {}) > 3
    hosts.lease.published = ""
    assert hosts.start("a").number_surface("new", {}) > 3


@each_row(
    "text",
    [
        *("{", "[]", "{}", '{"limits": {"document": -1}}', '{"limits": {"document": "1"}}'),
        '{"limits": {}, "history": []}',
    ],
)
def test_a_broken_row_keeps_the_host_from_starting(tmp_path: Path, text: str) -> None:
    """Counting anew from 1 would use numbers a second time."""
    hosts = Hosts(tmp_path)
    hosts.lease.published = text
    with pytest.raises(ConfigurationError) as refused:
        hosts.start("a")
    (problem,) = refused.value.problems
    assert "the manifest's history in the store cannot be read" in problem.message and "backup" in problem.hint
