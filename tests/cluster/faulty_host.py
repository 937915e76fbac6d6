"""
``twistd`` with a deliberate fault, so that the tests of this folder can show that they notice.

``python faulty_host.py FAULT twistd ARGUMENTS...``; the faults are the functions below.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.scripts.twistd import run

from agtphost.cluster import heartbeat, pod_label, standby
from agtphost.config import Config
from agtphost.errors import Problem
from agtphost.host import evidence, root, trial_start
from agtphost.host import standby as host_standby
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import LeaseState
from agtphost.stores.postgres import lease, schema_files
from agtphost.stores.postgres.lease import PostgresLease

log = Logger()


def make_early() -> None:
    """A lease is over from the beginning."""
    LeaseState.is_over = property(lambda self: True)  # type: ignore[method-assign, assignment]
    lease.TAKE = lease.TAKE.replace("beat <", "true OR beat <")  # type: ignore[misc]


def make_clinging() -> None:
    """A host that stops does not give its lease up."""
    PostgresLease.give_up = lambda self: None  # type: ignore[method-assign]


def make_late() -> None:
    """A host learns half a second late that it was replaced."""
    end = PostgresLease.end

    def end_late(self: PostgresLease, seen: LeaseState | None) -> None:
        time.sleep(0.5)
        end(self, seen)

    PostgresLease.end = end_late  # type: ignore[method-assign]


def make_trusting() -> None:
    """The same, and a handler runs however old the last confirmed beat is."""
    make_late()
    evidence.freshness = lambda held: lambda: True  # type: ignore[assignment]


def make_tireless() -> None:
    """A thread sends beats whether the reactor turns or not."""
    heartbeat.Heartbeat.startService = lambda self: None  # type: ignore[method-assign]


def make_later() -> None:
    """No fault: a later program, whose tables no earlier one can use."""
    made = [*schema_files.steps(), Path(os.environ["TEST_SCHEMA_FILE"])]
    schema_files.steps = lambda: made


def make_patient() -> None:
    """No fault: a standby that looks at the lease every ten minutes, so it has to hear that it was given up."""
    standby.POLL_SECONDS = 600.0


def make_thorough() -> None:
    """No fault: reading the files again at a takeover takes until the lease was confirmed; without that it fails."""
    confirmed = threading.Event()
    keep = PostgresLease.keep

    def keep_and_note(self: PostgresLease, ahead: int | None = None) -> None:
        keep(self, ahead)
        confirmed.set()

    def read_slowly(
        config: Config, environ: Mapping[str, str] = os.environ, issued: list[Path] | None = None
    ) -> LoadedHost:
        if not confirmed.wait(20):
            os._exit(9)
        return load_host(config, environ, issued)

    PostgresLease.keep = keep_and_note  # type: ignore[method-assign]
    host_standby.load_host = read_slowly  # type: ignore[attr-defined]


def make_edited() -> None:
    """No fault: an endpoint and a token change after the host has read them, before it stands by."""
    folder = Path(os.environ["TEST_FOLDER"])

    def change_files(config: Config) -> ILease | None:
        endpoint = folder / "endpoints" / "text.toml"
        endpoint.write_text(endpoint.read_text().replace('path = "/text"', 'path = "/repeat"'))
        (folder / "token").write_text("b" * 40)
        return host_standby.lease_of(config)

    root.lease_of = change_files  # type: ignore[attr-defined]


def make_hindered() -> Callable[[], None]:
    """
    No fault: something happens after a trial that found nothing, before the start.

    TEST_EVENTS lists for each such trial what happens then: ``remove`` a file, ``write`` a file and its text,
    ``listen`` at a port, ``bind`` one of UDP, or ``wait`` for a file, which is said by one that ends in ``.waits``.
    Returns what frees the ports.
    """
    events: list[list[list[str]]] = json.loads(os.environ["TEST_EVENTS"])
    listening: list[socket.socket] = []

    def try_start(loaded: LoadedHost, *given: Any, serves: bool) -> list[Problem]:
        problems = trial_start.find_start_problems(loaded, *given, serves=serves)
        for what, named, *text in events.pop(0) if serves and not problems and events else ():
            if what == "remove":
                os.unlink(named)
            elif what == "write":
                Path(named).write_text(*text)
            elif what == "wait":
                Path(f"{named}.waits").touch()
                while not os.path.exists(named):
                    time.sleep(0.05)
            elif what == "bind":
                listening.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                listening[-1].bind(("127.0.0.1", int(named)))
            else:
                listening.append(socket.create_server(("127.0.0.1", int(named))))
        return problems

    def release() -> None:
        while listening:
            listening.pop().close()

    root.find_start_problems = try_start  # type: ignore[attr-defined]
    return release


def make_counted() -> None:
    """No fault: the same, and the log says what the process has before it takes over, and after each undone start."""
    release = make_hindered()
    discard, take_over = root.HostService._discard_start, root.HostService._take_over

    async def take_over_and_count(self: root.HostService, standby: host_standby.StandbyHost, lease: ILease) -> None:
        log.info("left by a start: {left}", left=json.dumps(count_resources(reactor)))
        await take_over(self, standby, lease)

    async def discard_and_count(self: root.HostService, lease: ILease) -> None:
        await discard(self, lease)
        # What the hindrance itself has open.
        release()
        await deferLater(reactor, 0)
        log.info("left by a start: {left}", left=json.dumps(count_resources(reactor)))

    root.HostService._take_over = take_over_and_count  # type: ignore[method-assign]
    root.HostService._discard_start = discard_and_count  # type: ignore[method-assign]


def count_resources(reactor: Any) -> dict[str, list[str]]:
    """Return the threads, child processes, files, sockets that are bound or connected, and timers of this process."""
    own = Path("/proc/self")
    opened = []
    for entry in (own / "fd").iterdir():
        with suppress(OSError):
            opened.append(os.readlink(entry))
    known = {
        inode: kind
        for kind, place in (("tcp", 9), ("udp", 9), ("unix", 6))
        for inode in (line.split()[place] for line in (own / "net" / kind).read_text().splitlines()[1:])
    }
    children = [text for task in (own / "task").iterdir() for text in (task / "children").read_text().split()]
    return {
        # The reactor starts those of its pool as they are needed, up to a bound.
        "threads": sorted(each.name for each in threading.enumerate() if not each.name.startswith("PoolThread")),
        "children": children,
        "files": sorted(each for each in opened if not each.startswith("socket:")),
        "sockets": sorted(known[each[8:-1]] for each in opened if each[8:-1] in known),
        "timers": sorted(f"{each.func!r}" for each in reactor.getDelayedCalls()),
    }


def make_outrun() -> None:
    """No fault: the same, and another host takes the lease as soon as this one gives it up."""
    make_hindered()
    give_up = PostgresLease.give_up

    def give_up_and_wait(self: PostgresLease) -> None:
        held = bool(self.term)
        give_up(self)
        while held and self.look().holder is None:
            time.sleep(0.05)

    PostgresLease.give_up = give_up_and_wait  # type: ignore[method-assign]


def make_pod() -> None:
    """No fault: the credentials of the pod are in a directory that only the test has."""
    pod_label.SERVICE_ACCOUNT = Path(os.environ["TEST_SERVICE_ACCOUNT"])


if __name__ == "__main__":
    globals()[f"make_{sys.argv[1]}"]()
    sys.argv = sys.argv[2:]
    run()  # type: ignore[no-untyped-call]
