"""
Real hosts with one ``host.toml`` and one store, on the test's PostgreSQL, and callers that go where one serves.

The hosts share a port, so a caller calls the same address before a takeover and after it, as through a load balancer.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from agtphost.audit.verify import verify_records
from agtphost.stores import Selection
from tests import postgres
from tests.stores.test_postgres import place_of
from tests.system.hosting import BIN, Host, agtp, free_port, until
from tests.system.raw_link import Answer, RawLink, Reachable, Truncated, client_context
from tests.system.trail import keys, marks, traced

TAKEOVER_AFTER = 3
FAULTY = Path(__file__).with_name("faulty_host.py")


def make_traced(folder: Path, append: str) -> Path:
    """Make a configuration with an endpoint whose handler leaves a mark."""
    return traced(folder, append=append)


class Cluster:
    """
    Hosts that share a store.

    :param folder: for their files.
    :param names: of the hosts; each has a copy of the first one's keys.
    :param append: more TOML.
    :param make: makes the configuration in a directory.
    :param program: see :meth:`start`; it makes the store, and is the first host's.
    :param takeover_after: seconds of the lease.
    """

    def __init__(
        self,
        folder: Path,
        *names: str,
        append: str = "",
        make: Callable[[Path, str], Path] = make_traced,
        program: Path | None = None,
        takeover_after: int = TAKEOVER_AFTER,
    ) -> None:
        server = postgres.server()
        self.url = server.url(server.schema(folder))
        store = f'\n[store]\nurl = "{self.url}"\n\n[cluster]\ntakeover_after = {takeover_after}\n'
        self.config = make(folder, store + append)
        self.folder = self.config.parent
        self.names = names
        made = agtp("store", "init", cwd=self.folder) if program is None else _init_by(program, self.folder)
        assert made.returncode == 0, made.stderr
        self.hosts: dict[str, Host] = {}
        first, *others = names
        self.start(first, program=program).wait()
        for name in others:
            shutil.copytree(self.state(first), self.state(name), ignore=shutil.ignore_patterns("host.lock"))

    def state(self, name: str) -> Path:
        """Return the state directory of a host."""
        return self.folder / f"state-{name}"

    def environ(self, name: str) -> dict[str, str]:
        """Return what distinguishes a host from the others."""
        return {"AGTPHOST_CLUSTER_NAME": name, "AGTPHOST_STATE_DIR": str(self.state(name))}

    def start(
        self,
        name: str,
        fault: str = "",
        config: Path | None = None,
        environ: Mapping[str, str] | None = None,
        program: Path | None = None,
    ) -> Host:
        """
        Start a host.

        :param fault: a name of ``faulty_host.py``.
        :param config: another ``host.toml``.
        :param environ: further variables.
        :param program: a directory with the package ``agtphost`` of another version.
        """
        prefix: tuple[str, ...] = (sys.executable, str(FAULTY), fault) if fault else ()
        own = self.environ(name)
        if program is not None:
            prefix, own["PYTHONPATH"] = (sys.executable,), str(program)
        host = Host(config or self.config, environ={**own, **(environ or {})}, prefix=prefix)
        host.state = self.state(name)
        self.hosts[name] = host
        return host

    def stand_by(self, name: str, **options: Any) -> Host:
        """Start a host, and wait until it stands by."""
        host = self.start(name, **options)
        until(lambda: "agtphost standby" in host.output or host.process.poll() is not None)
        assert "agtphost standby" in host.output, host.output
        return host

    def variant(self, name: str, *edits: tuple[str, str]) -> Path:
        """Return a copy of the ``host.toml`` with another port, and other changes."""
        text = self.config.read_text()
        port = next(line for line in text.splitlines() if line.startswith("port = "))
        for old, new in ((port, f"port = {free_port()}"), *edits):
            assert old in text, old
            text = text.replace(old, new)
        file = self.folder / f"host-{name}.toml"
        file.write_text(text)
        return file

    def take_over(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the host that serves, wait until the other one serves, and start the first again as a standby."""
        leader, standby = self.names
        self.hosts[leader].process.send_signal(how)
        assert gone(self.hosts[leader]) == (0 if how == signal.SIGTERM else -how)
        self.hosts[standby].wait()
        self.names = (standby, leader)
        self.stand_by(leader)

    def term(self) -> int:
        """Return the term of the lease."""
        return int(postgres.server().run("SELECT term FROM store", url=self.url)[0][0])

    def require_alive(self, *names: str) -> None:
        """Assert that hosts have not ended by themselves."""
        assert [name for name in names if self.hosts[name].process.poll() is not None] == [], "ended by itself"

    def stop(self) -> None:
        """End every host."""
        for host in self.hosts.values():
            if host.process.poll() is None:
                host.kill()


def _init_by(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Make the store by a program of another version."""
    environ = {**os.environ, "PYTHONPATH": str(program)}
    command = [sys.executable, str(BIN / "agtp"), "store", "init"]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)


def probed(group: Cluster, name: str, *edits: tuple[str, str]) -> tuple[Path, str]:
    """Return a ``host.toml`` with probes, and where they are."""
    port = free_port()
    file = group.variant(name, *edits)
    file.write_text(f'{file.read_text()}\n[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\n')
    return file, f"http://127.0.0.1:{port}"


def probe(url: str) -> tuple[int, Any]:
    """Return status and document of a probe."""
    answer = httpx.get(url, timeout=30)
    return answer.status_code, answer.json()


@contextmanager
def cluster(folder: Path, *names: str, append: str = "", **options: Any) -> Iterator[Cluster]:
    """Hosts of which the first serves; gone afterwards."""
    made = Cluster(folder, *names, append=append, **options)
    try:
        yield made
    finally:
        made.stop()


@dataclass
class Journal:
    """What callers know."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Audit-IDs of answers with 200, with the record that came with each."""

    times: list[float] = field(default_factory=list)
    """When these came."""

    others: Counter[str] = field(default_factory=Counter)
    """Final answers other than 200, by status and reason."""

    stopping: bool = False

    def longest_gap(self, since: float, until: float) -> float:
        """Return the longest time without a 200 between two moments."""
        times = sorted(each for each in list(self.times) if since <= each <= until)
        return max((after - before for before, after in pairwise(times)), default=until - since)


AGAIN = ("store-unavailable", "idempotency-in-progress")
"""Reasons of refusals after which the same call is made again."""


class Caller(threading.Thread):
    """Makes keyed calls one after the other, each again until it has a final answer; the host may go and come back."""

    def __init__(self, host: Reachable, context: Any, journal: Journal) -> None:
        super().__init__(daemon=True)
        self._host = host
        self._context = context
        self._journal = journal
        self._link: RawLink | None = None

    def run(self) -> None:
        while not self._journal.stopping:
            mark = uuid.uuid4().hex
            while (answer := self._ask(mark)) is None or (answer.status != 200 and answer.reason in AGAIN):
                if self._journal.stopping and answer is None:
                    return
                time.sleep(0.02)
            if answer.status == 200:
                self._journal.acknowledged[answer.audit_id] = answer.record
                self._journal.times.append(time.monotonic())
            else:
                self._journal.others[f"{answer.status} {answer.reason}"] += 1
        self._close()

    def _ask(self, mark: str) -> Answer | None:
        """Make one try; None where the connection did not last."""
        try:
            if self._link is None:
                self._link = RawLink(self._host, context=self._context)
            return self._link.ask("BOOK", "/stay", {"mark": mark}, Idempotency_Key=mark)
        except (OSError, Truncated, AssertionError):
            self._close()
            return None

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


@contextmanager
def load(host: Reachable, callers: int = 4) -> Iterator[Journal]:
    """Keyed load at the port of a host."""
    journal, context = Journal(), client_context(host)
    threads = [Caller(host, context, journal) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield journal
    finally:
        journal.stopping = True
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def answers_after(journal: Journal, moment: float, count: int = 10) -> None:
    """Wait until callers have had so many answers since a moment."""
    until(lambda: sum(1 for each in journal.times[-1000:] if each > moment) >= count)


def check(group: Cluster, journal: Journal) -> None:
    """Assert that what was acknowledged is stored as it was sent, that chains are sound, and that no key ran twice."""
    reader = place_of(group.url).open_reader()
    try:
        records = list(reader.records(Selection()))
        faults = list(reader.faults())
    finally:
        reader.close()
    host = next(iter(group.hosts.values()))
    assert [str(fault) for fault in verify_records(records, keys(host)).faults] == []
    assert faults == []
    by_id = {record.audit_id: record.signed.decode() for record in records}
    lost = [audit_id for audit_id, sent in journal.acknowledged.items() if by_id.get(audit_id) != sent]
    assert lost == [], "acknowledged, and not stored"
    assert [mark for mark, runs in marks(group.config).items() if runs > 1] == [], "carried out twice"


def describe(what: str, seconds: Sequence[float]) -> str:
    """Return the distribution of times in one line."""
    ordered = sorted(seconds)
    return f"{what}: n={len(ordered)} p50={ordered[len(ordered) // 2]:.2f} s max={ordered[-1]:.2f} s"


def gone(host: Host, seconds: float = 60) -> int:
    """Wait until a process has ended, and return its exit status."""
    with suppress(ProcessLookupError):
        return host.process.wait(seconds)
    return 0
