"""
What was said on streams, for clients whose connection breaks: resumption of Streamable HTTP, up to 2025-11-25.

Each message gets an id. A client that comes back with ``Last-Event-ID`` hears what it missed, and then what comes. The
revision 2026-07-28 has no such thing: there a stream that ends is a call that is cancelled, and nothing is kept.

Ids are random, and each session has events of its own: an id of one means nothing in another.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

MOST_OCTETS = 64 << 20
"""Of the messages that are kept for all sessions."""

MOST_OCTETS_OF_SESSION = 8 << 20
MOST_EVENTS_OF_SESSION = 1_000

_OVERHEAD = 256
"""Octets that an event counts besides its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One message on a stream."""

    stream: str
    message: bytes
    """Empty for the beginning of a stream."""

    last: bool
    """Whether nothing follows on its stream."""

    @property
    def octets(self) -> int:
        """What it counts."""
        return len(self.message) + _OVERHEAD


class Journal:
    """
    The events of all sessions. What does not fit any more is forgotten, oldest first, of the session that has most.

    :param most_octets: of all sessions.
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
        """How much is kept."""

    def session(self) -> SessionEvents:
        """A new session's."""
        events = SessionEvents(self)
        self.sessions.add(events)
        return events


class SessionEvents:
    """One session's events; made by :meth:`Journal.session`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._events: OrderedDict[str, Event] = OrderedDict()
        self.octets = 0

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._events)

    def add(self, stream: str, message: bytes, *, last: bool = False) -> str:
        """Keep an event, at the cost of the oldest; its id."""
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
        """An event; None for another session's, and for one that is forgotten."""
        return self._events.get(key)

    def after(self, key: str) -> list[tuple[str, Event]]:
        """What came after an event on its stream; as the oldest go first, there is no gap."""
        found = self._events[key]
        keys = list(self._events)
        later = ((each, self._events[each]) for each in keys[keys.index(key) + 1 :])
        return [(each, event) for each, event in later if event.stream == found.stream]

    def end(self) -> None:
        """The session is over."""
        self._journal.sessions.discard(self)
        self._events.clear()
        self._count(-self.octets)

    def _forget(self) -> None:
        self._count(-self._events.popitem(last=False)[1].octets)

    def _count(self, octets: int) -> None:
        self.octets += octets
        self._journal.octets += octets
