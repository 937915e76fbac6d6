"""
``twistd`` with a deliberate fault, so that the tests of this folder can show that they notice.

``python faulty_host.py FAULT twistd ARGUMENTS...``; the faults are the functions below.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.scripts.twistd import run

from agtphost.audit.drafts import Draft, Reservation, ReservationKey, ReservationState, Sealed
from agtphost.audit.ledger import Ledger
from agtphost.audit.writer import GroupWriter
from agtphost.handlers.deadlines import Deadlines
from agtphost.protocols import AGTPServerFactory
from agtphost.protocols.connection import ServerConnection
from agtphost.upstream.log import UpstreamLog


def make_hasty() -> None:
    """Every Deferred fires when its group is signed, 20 ms before the group is committed."""
    commit = GroupWriter._commit
    write = Ledger._write

    def late(self: GroupWriter, group: Any) -> None:
        answer_first[self]()
        time.sleep(0.02)
        commit(self, group)

    def hasty(self: Ledger, entries: Any) -> None:
        settle, reactor = self._settle, self._reactor
        answer_first[self._writer] = lambda: reactor.callFromThread(settle, entries, 0.0)
        self._settle = lambda entries, seconds: None  # type: ignore[method-assign]
        try:
            write(self, entries)
        finally:
            self._settle = settle  # type: ignore[method-assign]

    answer_first: dict[GroupWriter, Any] = {}
    GroupWriter._commit = late  # type: ignore[method-assign]
    Ledger._write = hasty  # type: ignore[method-assign]


def make_forgetful() -> None:
    """A keyed request is always a new one, and nothing is written of it before its handler runs or after."""
    submit = Ledger.submit

    def reserve(self: Ledger, key: ReservationKey, digest: bytes) -> Deferred[Reservation]:
        return succeed(Reservation(state=ReservationState.NEW))

    def keyless(self: Ledger, draft: Draft) -> Deferred[Sealed]:
        draft.reservation = None
        return submit(self, draft)

    Ledger.reserve = reserve  # type: ignore[method-assign]
    Ledger.submit = keyless  # type: ignore[method-assign]


def make_abrupt() -> None:
    """A host that is told to stop cuts its connections, whatever they wait for."""
    drain = AGTPServerFactory.drain

    def abrupt(self: AGTPServerFactory) -> Deferred[None]:
        self._drained = Deferred()
        self.cut()
        return drain(self)

    AGTPServerFactory.drain = abrupt  # type: ignore[method-assign]


def make_careless() -> None:
    """A transaction that fails is taken for done."""
    write = GroupWriter.write

    def careless(self: GroupWriter, entries: Any) -> None:
        with suppress(Exception):
            write(self, entries)

    GroupWriter.write = careless  # type: ignore[method-assign]


def make_unpausing() -> None:
    """A connection does not listen when its transport has enough to write."""

    def pause(self: ServerConnection) -> None:
        return None

    ServerConnection.pauseProducing = pause  # type: ignore[method-assign]


def make_patient() -> None:
    """Nothing that an upstream is asked has a deadline."""
    add = Deadlines.add

    def unlimited(self: Deadlines, seconds: float, late: Any) -> float:
        return add(self, 10_000.0, late)

    Deadlines.add = unlimited  # type: ignore[method-assign]
    Deferred.addTimeout = lambda self, *arguments: self  # type: ignore[method-assign,assignment]


def make_talkative() -> None:
    """What servers say is logged as it comes, with whatever secrets they repeat."""

    def clean(self: UpstreamLog, text: str) -> str:
        return text

    UpstreamLog.clean = clean  # type: ignore[method-assign]


FAULTS = {
    "talkative": make_talkative,
    "patient": make_patient,
    "hasty": make_hasty,
    "forgetful": make_forgetful,
    "abrupt": make_abrupt,
    "careless": make_careless,
    "unpausing": make_unpausing,
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.argv = sys.argv[2:]
    run()  # type: ignore[no-untyped-call]
