"""
Keep messages of streams for clients whose connection breaks: resumption of Streamable HTTP, up to 2025-11-25.

Each message gets an id. A client that comes back with ``Last-Event-ID`` gets what it missed, and then what follows. The
revision 2026-07-28 does not have resumption: there a stream that ends cancels its call, and nothing is kept.

Ids are random, and each session has separate events: an id of one is invalid in another.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

MOST_OCTETS = 64 << 20
"""Octets of the messages that are kept for all sessions."""

MOST_OCTETS_OF_SESSION = 8 << 20
MOST_EVENTS_OF_SESSION = 1_000

_OVERHEAD = 256
"""Octets that an event counts besides its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A message on a stream."""

    stream: str
    message: bytes
    """The message; empty for the beginning of a stream."""

    last: bool
    """Whether it is the last on its stream."""

    @property
    def octets(self) -> int:
        """The octets that it counts."""
        return len(self.message) + _OVERHEAD


class StreamJournal:
    """
    The events of all sessions. At the limit, the oldest events of the largest session are evicted.

    :param most_octets: the limit for all sessions.
    """

    def __init__(
        self,
        *,
        most_octets: int = MOST_OCTETS,
        most_octets_of_session: int = MOST_OCTETS_OF_SESSION,
        most_events_of_session: int = MOST_EVENTS_OF_SESSION,
    ) -> None:
        self.most_octets = most_octets
        self.most_octets_of_session = most_octets_of_session
        self.most_events_of_session = most_events_of_session
        self.sessions: set[SessionEvents] = set()
        self.octets = 0
        """The octets that are kept."""

    def session(self) -> SessionEvents:
        """Add a new session and return its events."""
        events = SessionEvents(self)
        self.sessions.add(events)
        return events


class SessionEvents:
    """The events of one session; made by :meth:`StreamJournal.session`."""

    def __init__(self, journal: StreamJournal) -> None:
        self._journal = journal
        self._events: OrderedDict[str, Event] = OrderedDict()
        self.octets = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._events)

    def add(self, stream: str, message: bytes, *, last: bool = False) -> str:
        """Store an event, evicting old ones if needed, and return its id."""
        event = Event(stream=stream, message=message, last=last)
        key = secrets.token_urlsafe(16)
        self._events[key] = event
        journal = self._journal
        self._count(event.octets)
        while self.octets > journal.most_octets_of_session or len(self._events) > journal.most_events_of_session:
            self._forget()
        while journal.octets > journal.most_octets:
            max(journal.sessions, key=lambda session: session.octets)._forget()
        return key

    def find(self, key: str) -> Event | None:
        """Return an event; None for one of another session, or an evicted one."""
        return self._events.get(key)

    def list_after(self, key: str) -> list[tuple[str, Event]]:
        """Return the events after an event on its stream, without a gap, since the oldest are evicted first."""
        found = self._events[key]
        keys = list(self._events)
        later = ((each, self._events[each]) for each in keys[keys.index(key) + 1 :])
        return [(each, event) for each, event in later if event.stream == found.stream]

    def end(self) -> None:
        """Remove the session's events."""
        self._journal.sessions.discard(self)
        self._events.clear()
        self._count(-self.octets)

    def _forget(self) -> None:
        self._count(-self._events.popitem(last=False)[1].octets)

    def _count(self, octets: int) -> None:
        self.octets += octets
        self._journal.octets += octets
