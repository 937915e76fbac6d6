"""The ledger as it is, but for its thread."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from agtphost.audit.ledger import Ledger


class PromptLedger(Ledger):
    """
    Signs, links and stores each record before :meth:`submit` returns.

    Groups, chains, the tree and its checkpoints are those of every ledger; only nobody has to wait for them.
    """

    def start(self) -> None:
        """Read what the store holds; see :meth:`agtphost.audit.ledger.Ledger.start`."""
        self.read()
        self.healthy = True

    def stop(self) -> Deferred[None]:
        """Nothing is taken any more. Nothing waits, and the store stays open: a test may want to read it."""
        self.healthy = False
        self._stopping = True
        return succeed(None)

    def _next_turn(self) -> None:
        self._hand_over()
        while (group := self._take(0)) is not None:
            entries, _ = group
            if entries:
                self._write(entries)
            if self._tree is not None and self._tree.cosignatures_wait:
                self._keep_cosignatures(self._tree)

    def _returned(self, count: int) -> None:
        self._under_way -= count
