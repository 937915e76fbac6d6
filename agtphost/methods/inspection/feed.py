"""
INSPECT ``target=feed``: new records in the order of the store, for overseers.

Followers poll from where the last answer ended, so the host keeps no state for them, and a slow reader delays no other.
An answer waits until there are new records. Records of these polls are left out, as a feed would feed itself; the
opening and closing of a feed are included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.observed_records import ObservedGroup
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.handlers.rights_listeners import WaitEnd
from agtphost.iagtp import IRecordStore, Search
from agtphost.identity import envelope
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Peer

OPENS, GOES_ON, CLOSES = "opens", "goes on", "closes"
MOMENTS = (OPENS, GOES_ON, CLOSES)

LINES = 200
"""Records of one answer."""

PATIENCE = 25
"""Seconds that an answer waits at the most."""

GATHERING = 0.25
"""Seconds between the first record that an answer waited for and the answer: others may follow."""

FOLLOWERS = 16
"""Answers that may wait at the same time; further ones are empty without waiting."""


class RecordFeed:
    """
    Answers INSPECT ``target=feed``, and lets requests wait for new records.

    :param records: the store's reading side.
    :param clock: for answers that wait.
    :param listening: ends the waits when the host stops.
    :param still_counts: returns whether the caller still has the rights that it had when its request came.
    """

    def __init__(
        self,
        records: IRecordStore,
        authorization: Authorization,
        clock: IReactorTime,
        listening: ListeningRequests,
        still_counts: Callable[[Peer | None, Agent | None], bool],
    ) -> None:
        self._records = records
        self._authorization = authorization
        self._clock = clock
        self._listening = listening
        self._still_counts = still_counts
        self._waiting: set[Deferred[WaitEnd]] = set()
        self._following = 0
        self._seen = 0

    def saw(self, group: ObservedGroup) -> None:
        """Note a group of records that is on disk (:meth:`agtphost.iagtp.ILedger.watch`)."""
        if not self._following or all(not record.durable or _of_feed(record.members) for record in group.records):
            return
        self._seen += 1
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.called:
                each.callback(WaitEnd.NEWS)

    async def read(self, context: BuiltInContext) -> Answer:
        """
        Return the records after the ``after`` of the request, oldest first, and where to continue.

        The result is ``{"records": [...], "after": N}``. A ``moment`` of ``opens`` without ``after`` begins now.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, "Only operators see the records of all agents.")
        moment = parameters.choice(context.input, "moment", MOMENTS)
        extra = {"feed": {"moment": moment}}
        after = parameters.start(context.input, "after", 2**53)
        if moment == OPENS and "after" not in context.input:
            after = await self._newest()
        if moment != GOES_ON:
            return Answer(result={"records": [], "after": after}, extra=extra)
        wait = parameters.count(context.input, "wait", 0, PATIENCE)
        self._following += 1
        try:
            seen = self._seen
            records, last = await self._read_after(after)
            if not records and wait and len(self._waiting) < FOLLOWERS:
                if self._seen == seen:  # Nothing came while the store was asked.
                    await self._wait_for_record(wait)
                records, last = await self._read_after(last)
        finally:
            self._following -= 1
        if not self._still_counts(context.peer, context.caller):
            # The rights were checked before the wait. The next poll is judged, and refused with the reason.
            records, last = [], after
        return Answer(result={"records": records, "after": last}, extra=extra)

    async def _newest(self) -> int:
        newest = (await self._records.latest(None, 1, Search())).records
        return newest[0][0] if newest else 0

    async def _read_after(self, after: int) -> tuple[list[Mapping[str, Any]], int]:
        """Return the records after a position, and the last position that was read."""
        while True:
            found = await self._records.latest(after + LINES + 1, LINES, Search())
            places = [number for number, _ in (*found.records, *found.damaged) if number > after]
            told = [_record_to_json(number, record) for number, record in reversed(found.records) if number > after]
            shown = [each for each in told if not _of_feed(each["payload"], GOES_ON)]
            shown += [{"number": number, "damaged": why} for number, why in found.damaged if number > after]
            after = max(places, default=after)
            if shown or len(places) < LINES:
                return sorted(shown, key=lambda each: int(each["number"])), after

    async def _wait_for_record(self, seconds: float) -> None:
        """Wait until a record is written, the time is over, or the host stops."""
        waiting: Deferred[WaitEnd] = Deferred()
        self._waiting.add(waiting)
        try:
            await self._listening.wait(seconds, waiting)
            if waiting not in self._waiting:  # A record was written.
                await self._listening.wait(GATHERING)
        finally:
            self._waiting.discard(waiting)


def _of_feed(payload: Mapping[str, Any], moment: str = "") -> bool:
    """Return whether a record is of a feed's own answers, optionally of one time."""
    extra = payload.get("extra")
    feed = extra.get("feed") if isinstance(extra, Mapping) else None
    return isinstance(feed, Mapping) and (not moment or feed.get("moment") == moment)


def _record_to_json(number: int, record: StoredRecord) -> dict[str, Any]:
    return {
        "number": number,
        "audit_id": record.audit_id,
        "chain": record.chain,
        "seq": record.seq,
        "kind": record.kind,
        "format": record.format,
        record.format: envelope.to_text(record.format, record.signed),
        "payload": envelope.parse_unverified(record.format, record.signed),
    }
