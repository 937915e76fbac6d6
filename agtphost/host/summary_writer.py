"""Sign summaries of refusals, anonymous reads and repeated reads of lists: periodically, on request, and at the end."""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable, StreamEvent
from agtphost.audit.host_clock import JUMP
from agtphost.audit.record_text import encode_any
from agtphost.audit.summaries import Summaries
from agtphost.config import Config
from agtphost.dispatch.refusals import RefusalLimits
from agtphost.iagtp import ILedger
from agtphost.identity.envelope import parse_unverified
from agtphost.stores import StoreError
from agtphost.stores.record_search import Search
from agtphost.stores.record_store import IRecordStore
from agtphost.stores.rows import StoredRecord
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import uuid7_milliseconds

log = Logger()

DEVELOPMENT_LIMIT = 100_000
"""Records per minute in the development profile on loopback, where only the owner can fill the disk."""


MOST_TOGETHER = 64
"""Events of one group of records."""

RECORDS_AT_ONCE = 50
"""Records that are read from the store in one turn of the reactor, to look for a summary."""


def refusal_limits(config: Config) -> RefusalLimits:
    """Return the limits of ``[audit]``."""
    audit = config.audit
    relaxed = config.host.development and config.listen.loopback

    def choose(value: int | None, usual: int) -> int:
        return value if value is not None else DEVELOPMENT_LIMIT if relaxed else usual

    return RefusalLimits(
        agent=choose(audit.refusal_records_per_agent, 600),
        address=choose(audit.refusal_records_per_address, 30),
        strangers=choose(audit.refusal_records_of_strangers, 300),
        reads=choose(audit.read_records_per_address, 60),
        strangers_reads=choose(audit.read_records_of_strangers, 300),
        lists=audit.list_summaries,
    )


class SummaryWriter(Service):
    """
    A service that records what was counted.

    A summary that cannot be recorded is kept and retried, while counting continues. What failed may be the answer to a
    COMMIT that was done, so the retry first looks for the summary in the store.

    :param records: where a summary is looked for.
    :param seconds: between two summaries.
    """

    name = "refusals"

    def __init__(
        self, clock: IReactorTime, summaries: Summaries, ledger: ILedger, records: IRecordStore, seconds: float
    ) -> None:
        self._summaries = summaries
        self._ledger = ledger
        self._records = records
        self._seconds = seconds
        self._unwritten: tuple[StreamEvent, ...] = ()
        self._in_doubt = False
        self._writing: Deferred[None] | None = None
        self._again = False
        self._timer = LoopingCall(self._write_if_healthy)
        self._timer.clock = clock

    def find_counted(self, audit_id: str) -> str:
        """Return the id of the summary that counts the read of a list with this Audit-ID; empty for none known."""
        return self._summaries.find_counted(audit_id)

    def startService(self) -> None:
        """Start the periodic summaries."""
        super().startService()  # type: ignore[no-untyped-call]
        self._timer.start(self._seconds, now=False)

    def stopService(self) -> Deferred[None]:
        """Write the remaining summaries, even into the reserved space of the disk, and stop."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._timer.running:
            self._timer.stop()
        return self.write(last=True)

    def _write_if_healthy(self) -> None:
        if self._ledger.healthy:
            self.write()

    def write(self, *, last: bool = False) -> Deferred[None]:
        """Sign everything counted so far; fires when it is durable or cannot be made durable. Never fails."""
        if self._writing is None:
            self._writing = Deferred.fromCoroutine(self._write(last))
            if self._writing.called:
                return self._take_writing()
            self._writing.addCallback(lambda _: self._forget())
        else:
            self._again = True
        waiting: Deferred[None] = Deferred()
        self._writing.addCallback(lambda _: waiting.callback(None))
        return waiting

    def _forget(self) -> None:
        self._writing = None

    def _take_writing(self) -> Deferred[None]:
        ended, self._writing = self._writing, None
        assert ended is not None
        return ended

    async def _write(self, last: bool) -> None:
        taken = False
        while True:
            while events := self._unwritten[:MOST_TOGETHER]:
                draft = Draft(chain=HOST_CHAIN, payload={}, events=events, performed=last)
                try:
                    if not (self._in_doubt and await self._is_recorded(events[0])):
                        self._in_doubt = True
                        waiting: Any = self._ledger.submit(draft)
                        await waiting
                except (LedgerUnavailable, StoreError) as error:
                    log.error("the summary of refusals or reads could not be recorded yet: {why}", why=str(error))
                    return
                self._in_doubt = False
                self._unwritten = self._unwritten[MOST_TOGETHER:]
            # What is counted while this writes waits for the next time; a busy host would otherwise write without end.
            if taken and not self._again and not (last and self._summaries.waiting):
                return
            taken, self._again = True, False
            self._unwritten = tuple(self._summaries.take())

    async def _is_recorded(self, event: StreamEvent) -> bool:
        """
        Return whether an event of a summary is in the host's chain, and with it those that were submitted together.

        :raises StoreError: the store cannot be read.
        """
        # The host's clock may have been set back a little since the id was made.
        since = uuid7_milliseconds(event.fields["summary_id"]) - int(JUMP * 1000)
        search = Search(chain=HOST_CHAIN, since=since)
        before: int | None = None
        while True:
            try:
                found = await self._records.latest(before, RECORDS_AT_ONCE, search)
                recorded = any(_is_of(record, event) for _, record in found.records)
            except Exception as error:
                # Each kind of store has its own errors. Without an answer the summary waits: none is written twice.
                raise StoreError(f"the store cannot say whether it has the summary: {explain(error)}") from error
            before = found.before
            if recorded or before is None:
                return recorded


def _is_of(record: StoredRecord, event: StreamEvent) -> bool:
    """Return whether a record is the one of an event."""
    payload = parse_unverified(record.format, record.signed)
    return payload.get("event_type") == event.event_type and encode_any(event.fields) == encode_any(
        {name: payload[name] for name in event.fields if name in payload}
    )
