"""
Serve the live feed: calls as they are sealed, as server-sent events.

It watches committed groups and makes no requests: only its beginning and its end are recorded requests. A request per
line would create lines itself.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from agtphost.http.bounded_request import BoundedRequest
from agtphost.page.entrance import PageSession
from agtphost.page.value_text import show_value
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.display_names import caller_or_unnamed, display_name, outcome_word
from agtphost.vocabulary.lru import keep

log = Logger()

MOST_FEEDS = 16
"""Feeds that may be open."""

UPDATE_SECONDS = 0.25
"""Seconds between two updates of one feed."""

LINES_PER_UPDATE = 50
"""Lines of one update; of more, the newest are shown, with the number of the others."""

CACHED_LINES = 4 * LINES_PER_UPDATE
"""Lines that are cached for feeds that show them a moment later."""

MOST_UNREAD = 1 << 20
"""Octets that a viewer may leave unread; beyond that its feed is closed."""

FEED_SECONDS = 300.0
"""Seconds of one feed; after that the browser requests it again, and its right to it is checked again."""

RETRY_FIELD = b"retry: 1000\n"
"""Milliseconds after which a browser reconnects."""


class LiveFeeds:
    """
    The open feeds, each with the records that were committed.

    :param clock: schedules their updates.
    :param counts: returns whether a viewer's session still counts; asked before each update.
    """

    def __init__(self, clock: IReactorTime, counts: Callable[[PageSession], bool] = lambda session: True) -> None:
        self._clock = clock
        self._counts = counts
        self._open: set[LiveFeed] = set()
        self._lines = EventCache()
        self._name = secrets.token_hex(4)
        self._count = 0
        self._recent: deque[Any] = deque(maxlen=LINES_PER_UPDATE)
        self.endings = 0
        """How often every feed was ended."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Return whether no further feed may be opened."""
        return len(self._open) >= MOST_FEEDS

    def saw(self, group: Any) -> None:
        """Take a committed group; for :meth:`agtphost.iagtp.ILedger.watch`."""
        self._count += len(group.records)
        self._recent.extend(group.records)
        for feed in self._open:
            feed.add(group.records)

    @property
    def place(self) -> str:
        """The identifier of the newest record for browsers, which send it when they connect again."""
        return f"{self._name}.{self._count}"

    def find_missed(self, place: str) -> tuple[list[Any], bool]:
        """Return the records after a place that a browser sends, and whether that is all of them."""
        name, _, digits = place.partition(".")
        if name != self._name or not (digits.isascii() and digits.isdigit()):
            return [], False
        # A number that was never sent is too large.
        missed = max(0, self._count - int(digits[:19]))
        return list(self._recent)[-missed:] if missed else [], missed <= len(self._recent)

    def open(
        self,
        request: BoundedRequest,
        closed: Callable[[], object],
        *,
        reads: bool = True,
        session: PageSession | None = None,
        after: str = "",
    ) -> LiveFeed:
        """
        Begin a feed.

        :param closed: called once it has ended.
        :param reads: whether it has what operators only read.
        :param session: of its viewer; the feed ends when it no longer counts.
        :param after: the place that the browser's former feed ended at; empty for its first one.
        """

        def finish() -> None:
            self._open.discard(feed)
            closed()

        def is_allowed() -> bool:
            return session is None or self._counts(session)

        feed = LiveFeed(
            request, self._clock, finish, self._lines, lambda: self.place, reads=reads, is_allowed=is_allowed
        )
        self._open.add(feed)
        records, complete = self.find_missed(after) if after else ([], True)
        feed.add(records)
        feed.begin(complete=complete)
        return feed

    def end_all(self) -> None:
        """End every feed; a browser asks for it again, if its person may still have it, and misses nothing."""
        self.endings += 1
        for feed in tuple(self._open):
            feed.end()


class EventCache:
    """A cache of encoded events, so that a record is encoded once for all feeds, and only if one shows it."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, bytes] = OrderedDict()

    def event(self, record: Any) -> bytes:
        """Return the event of a record."""
        made = self._made.get(record.audit_id)
        if made is None:
            line = b"data: " + jsontext.encode(line_of(record)) + b"\n\n"
            made = keep(self._made, record.audit_id, line, CACHED_LINES)
        return made


class LiveFeed:
    """The feed of one viewer; a push producer, so that it notices a slow viewer."""

    def __init__(
        self,
        request: BoundedRequest,
        clock: IReactorTime,
        closed: Callable[[], object],
        lines: EventCache,
        place: Callable[[], str],
        *,
        reads: bool = True,
        is_allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lines = lines
        self._place = place
        self._sent = ""
        self._reads = reads
        self._is_allowed = is_allowed
        self._request = request
        self._clock = clock
        self._closed = closed
        self._waiting: deque[Any] = deque(maxlen=LINES_PER_UPDATE)
        self._arrived = 0
        self._unread = 0
        self._paused = False
        self._has_ended = False
        self._next: IDelayedCall | None = None
        self._until = clock.seconds() + FEED_SECONDS

    def begin(self, *, complete: bool = True) -> None:
        """
        Send the head; lines follow.

        :param complete: whether the lines follow those of the browser's former feed; otherwise the browser says so.
        """
        fields = self._request.responseHeaders
        fields.setRawHeaders("Content-Type", ["text/event-stream"])
        fields.setRawHeaders("Cache-Control", ["no-store"])
        self._request.notifyFinish().addBoth(lambda _: self._end())
        self._request.registerProducer(self, True)  # type: ignore[no-untyped-call]
        head = RETRY_FIELD + (b"" if complete else b"event: gap\ndata: 1\n")
        if not self._arrived:
            self._sent = self._place()
            head += b"id: %s\n" % self._sent.encode()
        self._write(head + b"\n")
        # What was missed is not to wait for an end that comes before the first update.
        self._next = self._clock.callLater(0 if self._arrived else UPDATE_SECONDS, self._tick)

    def end(self) -> None:
        """End the feed; the browser asks for it again, and learns why."""
        if not self._has_ended:
            self._finish()

    def add(self, records: Any) -> None:
        """Take committed records for the next update."""
        if not self._reads:
            records = [record for record in records if not record.is_operator_read]
        self._arrived += len(records)
        self._waiting.extend(records)

    def _tick(self) -> None:
        self._next = None
        if not self._is_allowed():
            self._finish()
            return
        place = self._place()
        if place != self._sent:
            missed = self._arrived - len(self._waiting)
            events = [b"event: skipped\ndata: %d\n\n" % missed] if missed else []
            events += [self._lines.event(record) for record in self._waiting]
            self._waiting.clear()
            self._arrived = 0
            self._sent = place
            self._write(b"".join((*events, b"id: %s\n\n" % place.encode())))
        if self._has_ended:
            return
        if self._clock.seconds() >= self._until or self._request.channel.is_ending:
            self._finish()
        else:
            self._next = self._clock.callLater(UPDATE_SECONDS, self._tick)

    def _write(self, octets: bytes) -> None:
        self._unread = self._unread + len(octets) if self._paused else 0
        if self._unread > MOST_UNREAD:
            log.info("a live feed was closed: its viewer does not read")
            self._end()
            self._request.loseConnection()  # type: ignore[no-untyped-call]
            return
        self._request.write(octets)  # type: ignore[no-untyped-call]

    def _finish(self) -> None:
        self._request.unregisterProducer()  # type: ignore[no-untyped-call]
        self._request.finish()  # type: ignore[no-untyped-call]

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._closed()

    # IPushProducer

    def pauseProducing(self) -> None:
        """Note that the viewer reads slowly."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Note that the viewer has caught up."""
        self._paused, self._unread = False, 0

    def stopProducing(self) -> None:
        """Note that the viewer is gone."""
        self._end()


def line_of(record: Any) -> Mapping[str, Any]:
    """Return a row of the table of :mod:`agtphost.page.call_list`, for the script."""
    took = "" if record.seconds is None else f"{record.seconds * 1000:.1f}"
    members = record.members or _signed_members(record)
    caller = caller_or_unnamed(members, record.caller or record.caller_id[:12])
    status = str(members.get("new_status") or members.get("status") or "-")
    cells = (record.issued_at, display_name(members), caller, status, _why(record), took)
    href = f"/calls/{record.audit_id}" if record.durable else None
    kind = {"kind": "refused"} if outcome_word(members) == "refused" else {}
    return {"cells": [show_value(cell, 200) for cell in cells], "href": href, "state": status, **kind}


def _signed_members(record: Any) -> Mapping[str, Any]:
    """Return the members of an event of the host, which only the signed text has."""
    try:
        return dict(record.payload())
    except (IndexError, ValueError):
        return {"event_type": "event"}  # Its envelope is COSE.


def _why(record: Any) -> str:
    """Return the reason of a refusal, the missing scopes, and the rule."""
    lacking = f": {', '.join(record.lacking)}" if record.lacking else ""
    rule = f" ({record.rule})" if record.reason and record.rule else ""
    return f"{record.reason}{lacking}{rule}"
