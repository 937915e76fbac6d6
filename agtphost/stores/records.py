"""The reading side as the host uses it: off the reactor."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from zope.interface import implementer

from agtphost.stores.interfaces import IRecordReader
from agtphost.stores.record_search import CountedBy, LatestRecords, RecordCounts, Search
from agtphost.stores.record_store import IRecordStore
from agtphost.stores.record_summary import RecordSummary
from agtphost.stores.rows import CheckpointRow, Facet, StoredRecord

Run = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments elsewhere: ``deferToThreadPool`` with reactor and pool filled in."""


@implementer(IRecordStore)
class OffReactorRecords:
    """
    A reader whose blocking calls run in threads.

    :param reader: reads, blocking.
    :param run: runs a function in a thread.
    """

    def __init__(self, reader: IRecordReader, run: Run) -> None:
        self._reader = reader
        self._run = run

    async def record(self, audit_id: str) -> StoredRecord | None:
        found: StoredRecord | None = await self._run(self._reader.record, audit_id)
        return found

    async def head(self, chain: str) -> StoredRecord | None:
        found: StoredRecord | None = await self._run(self._reader.head, chain)
        return found

    async def walk(self, chain: str, before_seq: int | None, limit: int) -> Sequence[StoredRecord]:
        found: Sequence[StoredRecord] = await self._run(self._reader.walk, chain, before_seq, limit)
        return found

    async def lifecycle(self, agent_id: str, limit: int) -> Sequence[StoredRecord]:
        found: Sequence[StoredRecord] = await self._run(self._reader.lifecycle, agent_id, limit)
        return found

    async def latest(self, before: int | None, limit: int, search: Search) -> LatestRecords:
        found: LatestRecords = await self._search(partial(self._reader.latest, before, limit, search))
        return found

    async def count(self, by: CountedBy, before: int | None, search: Search) -> RecordCounts:
        found: RecordCounts = await self._search(partial(self._reader.count, by, before, search))
        return found

    async def summarize(self, now: int, search: Search) -> RecordSummary:
        found: RecordSummary = await self._search(partial(self._reader.summarize, now, search))
        return found

    async def new_facets(self, since: int) -> tuple[Sequence[Facet], Sequence[Facet]]:
        found: tuple[Sequence[Facet], Sequence[Facet]] = await self._search(partial(self._reader.new_facets, since))
        return found

    async def last_calls(self, callers: Sequence[str]) -> Mapping[str, int]:
        found: Mapping[str, int] = await self._search(partial(self._reader.last_calls, callers))
        return found

    async def _search(self, look: Callable[..., Any]) -> Any:
        """Run a look in a thread; it ends early where the call that waits for it is cancelled."""
        over = threading.Event()
        try:
            return await self._run(partial(look, stop=over.is_set))
        finally:
            over.set()

    async def number_of(self, audit_id: str) -> int | None:
        found: int | None = await self._run(self._reader.number_of, audit_id)
        return found

    async def checkpoint(self) -> CheckpointRow | None:
        found: CheckpointRow | None = await self._run(self._reader.checkpoint)
        return found

    async def read_proof(self, prove: Callable[[Callable[[int, int], bytes]], Any]) -> Any:
        return await self._run(prove, self._reader.tile)

    async def offload(self, make: Callable[[], Any]) -> Any:
        return await self._run(make)
