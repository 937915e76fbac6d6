"""
A host on a reactor of its own, whose turns are counted in CPU time: what one of them takes, everybody else waits for.

The reactor is the one that hosts run on, with its threads and the ledger's; only the sockets are missing, and the clock
can be moved ahead. What runs in other threads is not the reactor's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.epollreactor import EPollReactor

from agtphost.audit.ledger import Ledger
from agtphost.stores.rows import ItemRow
from agtphost.testing import Answer, MemoryHost
from agtphost.testing.connection import MemoryConnection
from agtphost.vocabulary import jsontext

CHUNK = 65_536
"""Octets that a turn reads."""

PATIENCE = 120.0
"""Seconds of wall time until a test gives up."""


class Turns(EPollReactor):
    """Counts the CPU seconds of each of its turns in :attr:`taken`."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.elsewhere = 0.0
        """CPU seconds of this thread that are not the reactor's."""

        super().__init__()
        self.taken: list[float] = []
        self.startRunning(installSignalHandlers=False)  # type: ignore[no-untyped-call]

    def seconds(self) -> float:  # type: ignore[override]
        """As far as it was moved ahead."""
        return time.monotonic() + self.ahead

    def turn(self) -> None:
        """One, as soon as there is something to do."""
        wait = self.timeout()  # type: ignore[no-untyped-call]
        self.counted(self.iterate, 0.05 if wait is None else min(max(wait, 0.0), 0.05))

    def counted(self, function: Callable[..., object], *arguments: Any) -> None:
        """As a turn."""
        before = time.thread_time() - self.elsewhere
        function(*arguments)
        self.taken.append(time.thread_time() - self.elsewhere - before)

    def until(self, done: Callable[[], object]) -> None:
        """Turn after turn."""
        late = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < late, "nothing has come of it"
            self.turn()

    def settle(self, busy: Callable[[], object] = bool) -> None:
        """Until nothing is due, and neither a thread is at work nor something else."""
        pool = self.getThreadPool()
        quiet, late = 0, time.monotonic() + PATIENCE
        while quiet < 3:
            assert time.monotonic() < late, "it never rests"
            wait = self.timeout()  # type: ignore[no-untyped-call]
            due = wait is not None and wait <= 0.001
            quiet = 0 if due or pool.working or self.threadCallQueue or busy() else quiet + 1
            if quiet < 3:
                self.counted(self.iterate, 0.002)

    def advance(self, seconds: float) -> None:
        """Time goes by."""
        self.ahead += seconds
        self.turn()

    def end(self) -> None:
        """Its threads, and itself."""
        self.getThreadPool().stop()
        self.removeAll()
        self._poller.close()


class TurnHost(MemoryHost):
    """That host."""

    writing = Ledger

    def __init__(self, settings: Mapping[str, Any], **more: Any) -> None:
        super().__init__(settings, **more)
        self.turns = Turns()
        self.clock = self.turns  # type: ignore[assignment]

    def keep(self, kept: Iterable[ItemRow]) -> None:
        """State items that it has from the start, as another process left them."""
        self.store._held.update({(row.kind, row.key): row for row in kept})

    def seconds(self) -> float:
        return time.time() + self.turns.ahead

    def connect(self, caller: Any = None, **more: Any) -> MemoryConnection:
        """What the other side does with what it sends and gets is none of the host's time."""
        made = super().connect(caller, **more)
        receive, send = made._receive, made.send

        def received(octets: bytes) -> None:
            began = time.thread_time()
            receive(octets)
            self.turns.elsewhere += time.thread_time() - began

        def sent(octets: bytes) -> None:
            for at in range(0, len(octets), CHUNK):
                self.turns.counted(send, octets[at : at + CHUNK])

        made._receive, made.send = received, sent  # type: ignore[method-assign]
        return made

    def settle(self) -> None:
        """Until everything that is under way is over, in the ledger as well."""
        ledger = self.core.services.evidence.ledger
        self.turns.settle(lambda: len(ledger._collecting))

    def passes(self, seconds: float) -> float:
        """Let time go by, and what is due then happen: the seconds of the longest turn."""
        self.settle()
        self.turns.taken.clear()
        self.turns.ahead += seconds
        self.settle()
        return max(self.turns.taken)

    def longest(self, method: str, path: str = "/", input: Any = None, **options: Any) -> tuple[Answer, float]:
        """The answer to a call, and the seconds of its longest turn; what it leaves behind to do is part of it."""
        self.settle()
        self.turns.taken.clear()
        answers: list[Answer] = []
        self.begin(method, path, input, **options).addCallback(answers.append)
        self.turns.until(lambda: answers)
        self.settle()
        return answers[0], max(self.turns.taken)

    def close(self) -> None:
        if self._core is not None:
            stopped = self._core.services.evidence.ledger.stop()
            self.turns.until(lambda: stopped.called)
        self.turns.end()


def row(kind: str, key: str, owner: str, value: Mapping[str, Any], expires_at: int | None = None) -> ItemRow:
    """A state item, as it is stored."""
    return ItemRow(kind, key, bytes.fromhex(owner), 1, expires_at, jsontext.encode(value))
