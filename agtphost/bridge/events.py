"""
What was said on streams, for clients whose connection breaks: resumption of Streamable HTTP, up to 2025-11-25.

Each message gets an id. A client that comes back with ``Last-Event-ID`` hears what it missed, and then what comes. The
revision 2026-07-28 has no such thing: there a stream that ends is a call that is cancelled, and nothing is kept.

Ids are random, and each session has events of its own: an id of one means nothing in another.
"""

from __future__ import annotations

import asyncio
import secrets
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field

from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

MOST_OCTETS = 64 << 20
"""Of the messages that are kept for all sessions."""

MOST_OCTETS_OF_SESSION = 8 << 20
MOST_EVENTS_OF_SESSION = 1_000

_OVERHEAD = 256
"""Octets that an event counts besides its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    session: int
    stream: str
    message: JSONRPCMessage | None
    """None: the beginning of a stream."""

    octets: int

    @property
    def is_last(self) -> bool:
        """Whether nothing follows on its stream."""
        return self.stream != GET_STREAM_KEY and isinstance(self.message, (JSONRPCResponse, JSONRPCError))


@dataclass(slots=True)
class _Use:
    """What one session takes."""

    events: OrderedDict[str, None] = field(default_factory=OrderedDict)
    octets: int = 0


class Journal:
    """
    The events of all sessions, oldest first; what does not fit any more is forgotten from there.

    :param most_octets: of all sessions.
    """

    def __init__(
        self,
        *,
        most_octets: int = MOST_OCTETS,
        most_octets_of_session: int = MOST_OCTETS_OF_SESSION,
        most_events_of_session: int = MOST_EVENTS_OF_SESSION,
    ) -> None:
        self._most_octets = most_octets
        self._session_octets = most_octets_of_session
        self._session_events = most_events_of_session
        self._events: OrderedDict[str, _Event] = OrderedDict()
        self._uses: dict[int, _Use] = {}
        self._octets = 0
        self._sessions = 0

    def __len__(self) -> int:
        """How many events are kept."""
        return len(self._events)

    @property
    def octets(self) -> int:
        """How much is kept."""
        return self._octets

    def session(self) -> SessionEvents:
        """A new session's store; when nobody has it any more its events are forgotten."""
        self._sessions += 1
        number = self._sessions
        self._uses[number] = _Use()
        store = SessionEvents(self, number)
        weakref.finalize(store, self._end, number)
        return store

    def add(self, session: int, stream: str, message: JSONRPCMessage | None) -> str:
        """Keep an event, at the cost of the oldest."""
        text = "" if message is None else message.model_dump_json(by_alias=True, exclude_unset=True)
        event = _Event(session=session, stream=stream, message=message, octets=len(text.encode()) + _OVERHEAD)
        key = secrets.token_urlsafe(16)
        use = self._uses[session]
        self._events[key] = event
        use.events[key] = None
        use.octets += event.octets
        self._octets += event.octets
        while use.octets > self._session_octets or len(use.events) > self._session_events:
            self._forget(next(iter(use.events)))
        while self._octets > self._most_octets:
            self._forget(next(iter(self._events)))
        return key

    def find(self, session: int, key: str) -> _Event | None:
        """A session's event; None if it is another's, or forgotten."""
        event = self._events.get(key)
        return event if event is not None and event.session == session else None

    def after(self, session: int, key: str) -> list[str]:
        """The ids of the session's events after one that is kept; as those go first, there is no gap."""
        keys = list(self._uses[session].events)
        return keys[keys.index(key) + 1 :]

    def _forget(self, key: str) -> None:
        event = self._events.pop(key)
        self._octets -= event.octets
        use = self._uses[event.session]
        use.octets -= event.octets
        del use.events[key]

    def _end(self, session: int) -> None:
        for key in list(self._uses[session].events):
            self._forget(key)
        del self._uses[session]


class SessionEvents(EventStore):
    """
    One session's events; made by :meth:`Journal.session`.

    :param journal: where they are kept.
    :param number: the session's.
    """

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal = journal
        self._number = number
        self._arrived = asyncio.Event()
        self._listeners: dict[str, object] = {}

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message; its id."""
        key = self._journal.add(self._number, stream_id, message)
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()
        return key

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """
        Send what came after an event on its stream.

        On the stream of a call that goes on until its answer is sent, whenever that comes; the transport has no
        more to do with it then. Whoever resumes a stream last has it.

        :return: the stream of notifications, which the transport goes on with; else None.
        """
        event = self._journal.find(self._number, last_event_id)
        if event is None or event.is_last:
            return None
        stream, last = event.stream, last_event_id
        mine = self._listeners[stream] = object()
        try:
            while self._listeners.get(stream) is mine and self._journal.find(self._number, last) is not None:
                arrived = self._arrived
                for key in self._journal.after(self._number, last):
                    found = self._journal.find(self._number, key)
                    if found is None:
                        return None  # It was forgotten while the client took its time: no stream with a gap.
                    last = key
                    if found.stream != stream or found.message is None:
                        continue
                    await send_callback(EventMessage(found.message, key))
                    if found.is_last:
                        return None
                if stream == GET_STREAM_KEY:
                    return stream
                if arrived is self._arrived:
                    await arrived.wait()
            return None
        finally:
            if self._listeners.get(stream) is mine:
                del self._listeners[stream]
