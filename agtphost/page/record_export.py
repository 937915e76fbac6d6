"""
Export records: a chain, or a range of one, as a file that ``agtp audit verify --file`` checks without a host.

They are read by INSPECT, page by page and in the name of the person, so each page that left the host is on record. An
incomplete file has no last line and does not verify.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from agtphost.page.evidence import HOST, EvidenceRefused
from agtphost.page.person_client import PageReply, PersonClient

RECORDS_PER_PAGE = 200
"""Records of one request, few enough not to delay others."""

KIND = "application/x-ndjson"

MOST_FILES = 4
"""Files that are being written, for all people."""


Page: TypeAlias = Sequence[Mapping[str, Any]]
"""Records as INSPECT shows them, oldest first."""


class ExportLines(Protocol):
    """A writer of the lines of a file: see :class:`agtphost.audit.export.ExportWriter`."""

    first: bytes

    def line(self, members: Mapping[str, object], /) -> bytes:
        """Return the line of the next record."""

    def last(self) -> bytes:
        """Return the last line."""


Begin = Callable[[bool], ExportLines]
"""Begins a file of this host's records, given whether it has the whole chain."""


@dataclass(frozen=True, kw_only=True)
class RecordRange:
    """The range of records of an export."""

    chain: str
    """An Agent-ID, or :data:`agtphost.page.evidence.HOST`."""

    first: int
    """The number of the first record in the chain."""

    last: int
    """The number of the last record; both are within the chain."""

    whole: bool
    """Whether it is the whole chain."""

    @property
    def name(self) -> str:
        """Return the name of the file."""
        part = "" if self.whole else f"-{self.first}-{self.last}"
        return f"records-{self.chain[:16]}{part}.jsonl"


async def find_range(ask: PersonClient, chain: str, first: int | None, last: int | None) -> RecordRange:
    """
    Return the requested range, limited to the present length of the chain.

    :param first: None for the beginning.
    :param last: None for the end.
    :raises EvidenceRefused: the chain is not shown, or has no record.
    """
    head = await ask.inspect("chain_head", **_chain_parameters(chain))
    if not head.ok:
        raise EvidenceRefused(head)
    newest = int(head.result.get("seq") or 0)
    end = newest if last is None else min(last, newest)
    begin = 1 if first is None else first
    return RecordRange(chain=chain, first=begin, last=end, whole=begin == 1 and end == newest)


async def pages(ask: PersonClient, wanted: RecordRange) -> AsyncIterator[Page]:
    """
    Yield the records in order, by pages.

    :raises EvidenceRefused: a page is not shown, because a record is damaged or the person may not read it any more.
    """
    at = wanted.first
    while at <= wanted.last:
        upto = min(at + RECORDS_PER_PAGE - 1, wanted.last)
        reply = await ask.inspect("chain", **_chain_parameters(wanted.chain), before=upto + 1, limit=upto - at + 1)
        entries = reply.entries("records")[::-1]
        if not reply.ok or [entry.get("seq") for entry in entries] != list(range(at, upto + 1)):
            raise EvidenceRefused(reply)
        yield entries
        at = upto + 1


def members(chain: str, entry: Mapping[str, Any]) -> dict[str, object]:
    """Return the members of an export line for a record of INSPECT."""
    payload = entry.get("payload")
    form = str(entry.get("format", ""))
    return {
        "chain": "" if chain == HOST else chain,
        "seq": entry.get("seq"),
        "audit_id": entry.get("audit_id"),
        "previous_audit_id": payload.get("previous_audit_id") if isinstance(payload, dict) else None,
        "kind": entry.get("kind"),
        "format": form,
        "signed": entry.get(form),
    }


def _chain_parameters(chain: str) -> dict[str, str]:
    return {"chain": HOST} if chain == HOST else {"agent_id": chain}


class IncompleteExport(Exception):
    """A file that was begun and cannot be finished; :attr:`reply` says why."""

    def __init__(self, reply: PageReply) -> None:
        super().__init__(reply.explanation)
        self.reply = reply


@implementer(IPushProducer)
class PacedWriter:
    """A writer that waits for a slow browser."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._waiting: Deferred[None] | None = None
        self._paused = False
        self.is_gone = False
        """Whether the browser has disconnected."""

        request.registerProducer(self, True)
        request.notifyFinish().addBoth(lambda _: self.stopProducing())

    async def write(self, octets: bytes) -> None:
        """Write octets, and wait until the browser has read most of what was sent."""
        if self.is_gone:
            return
        self._request.write(octets)
        if self._paused and not self.is_gone:
            self._waiting = Deferred()
            await self._waiting

    def end(self) -> None:
        """Finish the answer."""
        if not self.is_gone:
            self._request.unregisterProducer()
            self._request.finish()

    def abort(self) -> None:
        """Abort the connection, so that the browser notices the incomplete file."""
        if not self.is_gone:
            self._request.channel.transport.abortConnection()

    def pauseProducing(self) -> None:
        """Note that the browser reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Continue, as the browser has caught up."""
        self._paused = False
        self._resume()

    def stopProducing(self) -> None:
        """Note that the browser is gone."""
        self.is_gone = True
        self._resume()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)


class Exports:
    """
    The files that are being written.

    :param begin: begins one.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._open = 0

    @property
    def is_full(self) -> bool:
        """Return whether no further file may be begun."""
        return self._open >= MOST_FILES

    async def write(self, wanted: RecordRange, first: Page, others: AsyncIterator[Page], flow: PacedWriter) -> None:
        """
        Write a file from its first line to its last.

        :param first: a page that was read already, so that a refusal of it begins no file.
        :param others: the pages after it.
        :raises IncompleteExport: the file cannot be finished.
        """
        writing = self._begin(wanted.whole)
        self._open += 1
        try:
            await flow.write(writing.first + _lines(writing, wanted.chain, first))
            async for entries in others:
                await flow.write(_lines(writing, wanted.chain, entries))
                if flow.is_gone:
                    return
            await flow.write(writing.last())
            flow.end()
        except EvidenceRefused as refused:
            flow.abort()
            raise IncompleteExport(refused.reply) from None
        finally:
            self._open -= 1


def _lines(writing: ExportLines, chain: str, entries: Page) -> bytes:
    return b"".join(writing.line(members(chain, entry)) for entry in entries)
