"""The interface by which a host reads its records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from zope.interface import Interface

from agtphost.stores.record_search import CountedBy, LatestRecords, RecordCounts, Search
from agtphost.stores.record_summary import RecordSummary
from agtphost.stores.rows import CheckpointRow, Facet, StoredRecord


class IRecordStore(Interface):
    """Reads what the ledger wrote. Never blocks the reactor; never writes."""

    def record(audit_id: str) -> Awaitable[StoredRecord | None]:
        """Return the record with that Audit-ID, after checking its hash."""

    def head(chain: str) -> Awaitable[StoredRecord | None]:
        """Return the newest record of a chain; ``""`` is the host's own."""

    def walk(chain: str, before_seq: int | None, limit: int) -> Awaitable[Sequence[StoredRecord]]:
        """Records of a chain, newest first, those before ``before_seq`` where given."""

    def lifecycle(agent_id: str, limit: int) -> Awaitable[Sequence[StoredRecord]]:
        """Lifecycle events of an agent, newest first."""

    def latest(before: int | None, limit: int, search: Search) -> Awaitable[LatestRecords]:
        """Records of all chains, newest first; see ``IRecordReader.latest``. Cancelling it ends the read."""

    def count(by: CountedBy, before: int | None, search: Search) -> Awaitable[RecordCounts]:
        """Count records of all chains; see ``IRecordReader.count``."""

    def summarize(now: int, search: Search) -> Awaitable[RecordSummary]:
        """Count records of all chains by time and facet; see ``IRecordReader.summarize``."""

    def new_facets(since: int) -> Awaitable[tuple[Sequence[Facet], Sequence[Facet]]]:
        """Return new and other facets; see ``IRecordReader.new_facets``."""

    def last_calls(callers: Sequence[str]) -> Awaitable[Mapping[str, int]]:
        """Return when each of these agents called last; see ``IRecordReader.last_calls``."""

    def number_of(audit_id: str) -> Awaitable[int | None]:
        """Return the position of a record among all records, counted from 1; None if it is not stored."""

    def checkpoint() -> Awaitable[CheckpointRow | None]:
        """Return the newest checkpoint of the tree over all records; None if there is none."""

    def read_proof(prove: Callable[[Callable[[int, int], bytes]], Any]) -> Awaitable[Any]:
        """Call ``prove`` in a thread, with a function that reads tiles of the tree, and return its result."""

    def offload(make: Callable[[], Any]) -> Awaitable[Any]:
        """Call ``make`` in a thread and return its result; used for long reads."""
