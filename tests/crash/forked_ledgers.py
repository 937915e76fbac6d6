"""
Forks ledgers that are meant to be killed, for :mod:`tests.crash.test_kill`.

Everything is imported once; for each line ``DATABASE KIND`` on standard input
a child is forked whose ledger runs under load. The child's number is answered
on standard output after one line with the public key, followed by ``ack AUDIT_ID`` for each record that the
ledger acknowledged, and by ``gone`` when the child was killed.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor

from agtphost.audit.drafts import ReservationKey
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.stores import open_store
from tests.audit.drafting import BOB, KEY, draft


class Hasty(Ledger):
    """The control: answers first, commits afterwards."""

    def _write(self, entries: Any) -> None:
        commit = self._store.commit

        def answered_first() -> None:
            self._reactor.callFromThread(self._settle, entries, 0.0)
            time.sleep(0.003)
            commit()

        self._store.commit = answered_first  # type: ignore[method-assign]
        self._writer.write(entries)
        self._store.commit = commit  # type: ignore[method-assign]


def acknowledge(audit_id: str) -> None:
    """One write: a line is whole or absent, even when the process is killed."""
    os.write(1, f"ack {audit_id}\n".encode())


def run(database: str, kind: str) -> None:
    """A ledger with 32 clients, each waiting for its answer before it asks again."""
    reactor: Any = EPollReactor()
    store = open_store(f"sqlite:{database}", create=True)
    make = Hasty if kind == "hasty" else Ledger
    ledger = make(store, KEY, reactor, server_id="s", lifecycle=LifecycleTable())
    ledger.start()
    seed = os.urandom(8).hex()

    async def client(number: int) -> None:
        turn = 0
        while True:
            turn += 1
            one = draft()
            if number % 4 == 0:
                key = ReservationKey(agent_id=BOB, key=f"{seed}-{number}-{turn}")
                await ledger.reserve(key, b"digest")
                one.reservation, one.result = key, b"answer"
            sealed = await ledger.submit(one)
            acknowledge(sealed.audit_id)

    for number in range(32):
        reactor.callWhenRunning(lambda number=number: Deferred.fromCoroutine(client(number)))
    reactor.run(installSignalHandlers=False)


def main() -> None:
    os.write(1, f"key {KEY.public.text}\n".encode())
    for line in sys.stdin:
        database, kind = line.split()
        child = os.fork()
        if child == 0:
            try:
                run(database, kind)
            finally:
                os._exit(1)
        os.write(1, f"child {child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
