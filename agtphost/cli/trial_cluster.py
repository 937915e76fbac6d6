"""Supervise trial hosts that share a store: start them, start again those that end, and stop them in order."""

from __future__ import annotations

import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agtphost.cli.trial_database import TrialDatabase, TrialDatabaseError
from agtphost.cli.trial_host import HostRole, TrialHost, role_of
from agtphost.stores.state_lock import NAME as LOCK_FILE

TURN_SECONDS = 0.1

RESTART_SECONDS = 1.0
"""From the end of a host until it is started again."""

TAKEOVER_SECONDS = 60.0
"""
How long a start waits for a takeover by another host: a host that is started again on its machine takes its own lease
back immediately, and then no takeover is seen.
"""

UNFINISHED = f".*.{'[0-9a-f]' * 16}"
"""Files that :mod:`agtphost.identity.files` has begun to write."""

MOST_FAILURES = 5
"""The pause before a start doubles with each start that failed, so often."""

STOP_SECONDS = 90.0


class HostNotStarted(Exception):
    """A host ended before it was ready."""

    def __init__(self, host: TrialHost, status: int) -> None:
        super().__init__(f"host {host.name} ended with status {status} before it was ready")
        self.host = host


@dataclass(frozen=True, kw_only=True)
class RoleChange:
    """The new role of a host, or its end."""

    host: TrialHost
    role: HostRole
    seconds: float | None = None
    """For a host that serves: since another one stopped or died."""

    status: int | None = None
    """For a host that has ended: its exit status, or a negative signal number."""


class TrialCluster:
    """
    Hosts with one store.

    :param hosts: the first one makes the keys, of which the others get a copy.
    :param notify: takes each change after :meth:`start`.
    :param is_stopping: returns whether to stop.
    """

    def __init__(
        self,
        hosts: Sequence[TrialHost],
        database: TrialDatabase,
        notify: Callable[[RoleChange], object],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.hosts = hosts
        self._database = database
        self._notify = notify
        self._is_stopping = is_stopping
        self._left_at: float | None = None
        self._started = False

    def start(self) -> bool:
        """
        Start all hosts; return whether one serves and the others stand by, False where this was to stop before.

        :raises HostNotStarted: one of them ended.
        :raises TrialDatabaseError: the database ended.
        """
        first, *others = self.hosts
        first.start()
        if not self._wait(lambda: first.role in (HostRole.SERVING, HostRole.STANDBY)):
            return False
        for host in others:
            copy_state(first.state, host.state)
            host.start()
        wanted = sorted([HostRole.SERVING.value, *(HostRole.STANDBY.value for _ in others)])
        self._started = self._wait(lambda: sorted(host.role.value for host in self.hosts) == wanted)
        return self._started

    def run(self) -> None:
        """
        Supervise the hosts until this is to stop.

        :raises TrialDatabaseError: the database ended.
        """
        while not self._is_stopping():
            self._turn()
            self._restart()

    def stop(self, is_forced: Callable[[], bool]) -> None:
        """
        Stop the hosts: those that stand by first, so that none takes over.

        :param is_forced: returns whether to kill those that have not ended yet.
        """
        serving = [host for host in self.hosts if host.role in (HostRole.SERVING, HostRole.STOPPING)]
        for hosts in ([host for host in self.hosts if host not in serving], serving):
            for host in hosts:
                host.send(signal.SIGTERM)
                # One that was frozen is to end, too.
                host.send(signal.SIGCONT)
            end = time.monotonic() + STOP_SECONDS
            while any(host.is_alive for host in hosts):
                if is_forced() or time.monotonic() > end:
                    for host in hosts:
                        host.send(signal.SIGKILL)
                time.sleep(0.02)
            for host in hosts:
                host.end_children()
                host.close()

    def _wait(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; return False where this was to stop before."""
        while not condition():
            if self._is_stopping():
                return False
            self._turn()
            for host in self.hosts:
                if host.role is HostRole.ENDED and (status := host.exit_status()) is not None:
                    raise HostNotStarted(host, status)
        return True

    def _turn(self) -> None:
        """Take the notices and ends of a moment."""
        alive = [host for host in self.hosts if host.role is not HostRole.ENDED]
        select.select(alive, [], [], TURN_SECONDS)
        for host in alive:
            for notice in host.read_notices():
                role = role_of(notice)
                if role is not None and role is not host.role and host.role is not HostRole.SILENT:
                    self._change(host, role)
        for host in alive:
            status = host.exit_status()
            if status is not None:
                self._end(host, status)
        if not self._database.is_running:
            raise TrialDatabaseError(f"PostgreSQL has ended; its log is {self._database.log}")

    def _change(self, host: TrialHost, role: HostRole) -> None:
        before, host.role = host.role, role
        host.failures = 0
        seconds = None
        if role is HostRole.SERVING:
            for other in self.hosts:
                # Frozen, or cut off from the database: its last notice has become untrue.
                if other is not host and other.role is HostRole.SERVING:
                    other.role = HostRole.SILENT
                    self._report(RoleChange(host=other, role=HostRole.SILENT))
            seconds = None if self._left_at is None else time.monotonic() - self._left_at
            self._left_at = None
        elif before is HostRole.SERVING:
            self._left_at = time.monotonic()
        self._report(RoleChange(host=host, role=role, seconds=seconds))

    def _end(self, host: TrialHost, status: int) -> None:
        host.ended_at = time.monotonic()
        if host.role is HostRole.SERVING:
            self._left_at = host.ended_at
        host.failures += host.role is HostRole.STARTING
        host.role = HostRole.ENDED
        host.end_children()
        self._report(RoleChange(host=host, role=HostRole.ENDED, status=status))

    def _report(self, change: RoleChange) -> None:
        if self._started:
            self._notify(change)

    def _restart(self) -> None:
        """Start those again that have ended, after a pause."""
        roles = {host.role for host in self.hosts}
        waits = HostRole.STANDBY in roles and HostRole.SERVING not in roles
        seconds = TAKEOVER_SECONDS if waits else RESTART_SECONDS
        for host in self.hosts:
            pause = seconds * 2 ** min(host.failures, MOST_FAILURES)
            if host.role is HostRole.ENDED and time.monotonic() - host.ended_at >= pause:
                host.start()


def copy_state(source: Path, target: Path) -> None:
    """Copy the keys and agents of a host for another one, if that has none yet."""
    if target.exists():
        return
    begun = target.with_name(f"{target.name}.new")
    shutil.rmtree(begun, ignore_errors=True)
    # The host runs, so a file that it has begun to write may be gone before it is copied.
    shutil.copytree(source, begun, ignore=shutil.ignore_patterns(LOCK_FILE, UNFINISHED))
    begun.rename(target)
