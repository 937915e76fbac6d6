"""The real ledger, without its thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed

from agtphost.audit.ledger import Ledger
from agtphost.audit.submission_queue import EntryCollector
from agtphost.audit.writer import Entry


class PromptCollector(EntryCollector):
    """A collector that hands entries over immediately, and continues immediately."""

    def note_finished(self, entries: Sequence[Entry], settle: Callable[[], None], seconds: float = 0.0) -> None:
        """
        Settle entries without reactor turns and pauses.

        See :meth:`agtphost.audit.submission_queue.EntryCollector.note_finished`.
        """
        self._under_way -= len(entries)
        settle()

    def _next_turn(self) -> None:
        self.hand_over_all()


class PromptLedger(Ledger):
    """
    A ledger that signs, links and stores each record before :meth:`submit` returns.

    Groups, chains, the tree and its checkpoints are those of every ledger, but no caller has to wait for them.
    """

    def __init__(self, store: Any, signer: Any, reactor: Any, **options: Any) -> None:
        super().__init__(store, signer, reactor, **options)
        self._collecting = PromptCollector(reactor, self._write_at_once)

    def start(self) -> None:
        """Read the contents of the store; see :meth:`agtphost.audit.ledger.Ledger.start`."""
        self.read()
        self.healthy = True

    def stop(self) -> Deferred[None]:
        """Stop accepting records. No record waits, and the store stays open so that a test can read it."""
        self.healthy = False
        self._stopping = True
        return succeed(None)

    def _write_at_once(self, entries: list[Entry], octets: int) -> None:
        self._queue.put((entries, octets))
        while (group := self._queue.take(0)) is not None:
            entries, _ = group
            if entries:
                self._write(entries)
            if self._tree is not None and self._tree.cosignatures_wait:
                self._keep_cosignatures(self._tree)
