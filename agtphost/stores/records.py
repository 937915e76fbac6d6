"""The reading side as the host uses it: off the reactor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from zope.interface import implementer

from agtphost.audit.drafts import StoredRecord
from agtphost.stores.interfaces import IRecordStore
from agtphost.stores.rows import CheckpointRow


class BlockingReader(Protocol):
    """What reads a store in the thread that asks."""

    def record(self, audit_id: str) -> StoredRecord | None:
        """The record of an Audit-ID."""

    def head(self, chain: str) -> StoredRecord | None:
        """The newest record of a chain."""

    def walk(self, chain: str, before_seq: int | None, limit: int) -> list[StoredRecord]:
        """Records of a chain, newest first."""

    def lifecycle(self, agent_id: str, limit: int) -> list[StoredRecord]:
        """Lifecycle events of an agent, newest first."""

    def number_of(self, audit_id: str) -> int | None:
        """The place of a record among all records, counted from 1."""

    def checkpoint(self) -> CheckpointRow | None:
        """The newest checkpoint of the tree over all records."""

    def tile(self, level: int, number: int) -> bytes:
        """One tile of that tree."""


Run = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments elsewhere: ``deferToThreadPool`` with reactor and pool filled in."""


@implementer(IRecordStore)
class OffReactorRecords:
    """
    :param reader: reads, blocking.
    :param run: takes the blocking off the reactor.
    """

    def __init__(self, reader: BlockingReader, run: Run) -> None:
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

    async def number_of(self, audit_id: str) -> int | None:
        found: int | None = await self._run(self._reader.number_of, audit_id)
        return found

    async def checkpoint(self) -> CheckpointRow | None:
        found: CheckpointRow | None = await self._run(self._reader.checkpoint)
        return found

    async def proven(self, prove: Callable[[Callable[[int, int], bytes]], Any]) -> Any:
        return await self._run(prove, self._reader.tile)
