"""
Records to take away: a chain, or a range of one, as the file that ``agtp audit verify --file`` checks without any host.

They are read by INSPECT, page by page and as the person who asks, so that each page that left the host is on record.
A file that breaks off has no last line, and does not verify.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from agtphost.page.asking import Asker, Reply
from agtphost.page.evidence import HOST, Refused

PAGE = 200
"""Records of one question: what it takes to answer keeps nobody waiting."""

KIND = "application/x-ndjson"

MOST_AT_ONCE = 4
"""Files that are being written, to all people together."""


Page: TypeAlias = Sequence[Mapping[str, Any]]
"""Records as INSPECT shows them, oldest first."""


class Writing(Protocol):
    """Makes the lines of a file: see :class:`agtphost.audit.export.ExportWriter`."""

    first: bytes

    def line(self, members: Mapping[str, object], /) -> bytes:
        """That of the next record."""

    def last(self) -> bytes:
        """The last one."""


Begin = Callable[[bool], Writing]
"""Begins a file of this host's records: takes whether it has all of a chain."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Which records are asked for."""

    chain: str
    """An Agent-ID, or :data:`agtphost.page.evidence.HOST`."""

    first: int
    """Number of the first in the chain."""

    last: int
    """Number of the last; both are of the chain as it is."""

    whole: bool
    """Whether these are all."""

    @property
    def name(self) -> str:
        """Of the file."""
        part = "" if self.whole else f"-{self.first}-{self.last}"
        return f"records-{self.chain[:16]}{part}.jsonl"


async def asked(ask: Asker, chain: str, first: int | None, last: int | None) -> Range:
    """
    What is meant, as far as the chain goes at this moment.

    :param first: None for the beginning.
    :param last: None for the end.
    :raises Refused: the chain is not shown, or has no record.
    """
    head = await ask.inspect("chain_head", **_named(chain))
    if not head.ok:
        raise Refused(head)
    newest = int(head.result.get("seq") or 0)
    end = newest if last is None else min(last, newest)
    begin = 1 if first is None else first
    return Range(chain=chain, first=begin, last=end, whole=begin == 1 and end == newest)


async def pages(ask: Asker, wanted: Range) -> AsyncIterator[Page]:
    """
    The records in order, by pages.

    :raises Refused: a page is not shown: one of its records is not what was signed, or whoever asks may not any more.
    """
    at = wanted.first
    while at <= wanted.last:
        upto = min(at + PAGE - 1, wanted.last)
        reply = await ask.inspect("chain", **_named(wanted.chain), before=upto + 1, limit=upto - at + 1)
        entries = reply.entries("records")[::-1]
        if not reply.ok or [entry.get("seq") for entry in entries] != list(range(at, upto + 1)):
            raise Refused(reply)
        yield entries
        at = upto + 1


def members(chain: str, entry: Mapping[str, Any]) -> dict[str, object]:
    """What the line of a record says, of what INSPECT says of it."""
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


def _named(chain: str) -> dict[str, str]:
    return {"chain": HOST} if chain == HOST else {"agent_id": chain}


class Broken(Exception):
    """A file that was begun and cannot be finished; :attr:`reply` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.explanation)
        self.reply = reply


@implementer(IPushProducer)
class Flow:
    """Writes to a browser no faster than it reads."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._waiting: Deferred[None] | None = None
        self._paused = False
        self.gone = False
        """Whether nobody reads any more."""

        request.registerProducer(self, True)
        request.notifyFinish().addBoth(lambda _: self.stopProducing())

    async def write(self, octets: bytes) -> None:
        """Some octets, and wait until the browser has taken most of what it was sent."""
        if self.gone:
            return
        self._request.write(octets)
        if self._paused and not self.gone:
            self._waiting = Deferred()
            await self._waiting

    def end(self) -> None:
        """All is written."""
        if not self.gone:
            self._request.unregisterProducer()
            self._request.finish()

    def abort(self) -> None:
        """It cannot be finished: the browser is to notice."""
        if not self.gone:
            self._request.channel.transport.abortConnection()

    def pauseProducing(self) -> None:
        """See :class:`IPushProducer`."""
        self._paused = True

    def resumeProducing(self) -> None:
        """See :class:`IPushProducer`."""
        self._paused = False
        self._go_on()

    def stopProducing(self) -> None:
        """See :class:`IPushProducer`."""
        self.gone = True
        self._go_on()

    def _go_on(self) -> None:
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
    def full(self) -> bool:
        """Whether there are as many as there may be."""
        return self._open >= MOST_AT_ONCE

    async def write(self, wanted: Range, first: Page, others: AsyncIterator[Page], flow: Flow) -> None:
        """
        One file, from its first line to its last.

        :param first: a page that was read already, so that nothing is begun of which nothing is shown.
        :param others: those after it.
        :raises Broken: it breaks off.
        """
        writing = self._begin(wanted.whole)
        self._open += 1
        try:
            await flow.write(writing.first + _lines(writing, wanted.chain, first))
            async for entries in others:
                await flow.write(_lines(writing, wanted.chain, entries))
                if flow.gone:
                    return
            await flow.write(writing.last())
            flow.end()
        except Refused as refused:
            flow.abort()
            raise Broken(refused.reply) from None
        finally:
            self._open -= 1


def _lines(writing: Writing, chain: str, entries: Page) -> bytes:
    return b"".join(writing.line(members(chain, entry)) for entry in entries)
