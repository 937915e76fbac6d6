"""Handle one HTTP request: admit it by its head, read its bounded body, write its answer."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol

from twisted.python.failure import Failure
from twisted.web.http import NO_BODY_CODES, datetimeToString, toChunk
from twisted.web.server import NOT_DONE_YET, Request
from twisted.web.server import version as SERVER

from agtphost.http.request_heads import SpelledHeaders, spell_text
from agtphost.vocabulary import status as status_text

LONGEST_BODY = 1 << 20
"""Octets of a request's body."""


KEEPING_CONNECTION = frozenset((204, 404))
"""Statuses of answers to a request without a body that keep the connection: a preflight, and a missing path."""

MOST_BODY_OCTETS = 64 << 20
"""Octets of all bodies that one listener holds; beyond that, requests are answered 503."""


FIELDS_OF_COMPLETE = frozenset((b"Content-Length", b"Content-Type"))
"""If an answer has these fields, Twisted adds none."""

_dated = (0, b"")
"""A second, and its ``Date`` field."""


def _date() -> bytes:
    """Return the ``Date`` of an answer, rendered once per second."""
    global _dated
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, datetimeToString(now))  # type: ignore[no-untyped-call]
    return _dated[1]


class BodyCounter:
    """A counter of the octets in all request bodies of a listener."""

    def __init__(self) -> None:
        self.octets = 0

    def take(self, octets: int) -> bool:
        """Count octets if there is room for them; return whether there was."""
        if self.octets + octets > MOST_BODY_OCTETS:
            return False
        self.octets += octets
        return True

    def give_back(self, octets: int) -> None:
        """Stop counting octets that were freed."""
        self.octets -= octets


class Gatekeeper(Protocol):
    """A resource that decides by the head of a request whether its body is read."""

    longest_body: int
    """The longest body, in octets."""

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Return None for a request that may continue, or the body of its refusal, made by :func:`tail_of`."""


class _Body(io.BytesIO):
    """A request body in memory, which counts among those of its listener."""

    def __init__(self, request: BoundedRequest, longest: int) -> None:
        super().__init__()
        self._request = request
        self._longest = longest
        self._counted = 0

    def write(self, octets: Any) -> int:
        """Append octets, unless they are too many: these end the request."""
        more = len(octets)
        if self._counted + more > self._longest:
            self._request.turn_away(self._request.channel.site.resource.too_large)
        elif not self._request.channel.bodies.take(more):
            self._request.turn_away(self._request.channel.site.resource.too_much)
        else:
            self._counted += more
            self._request.channel.note_progress(more)
            return super().write(octets)
        return more

    def count(self) -> int:
        """Return the counted octets and reset the counter; called when the request ends."""
        counted, self._counted = self._counted, 0
        return counted


class BoundedRequest(Request):
    """A request that is admitted by its head, and whose body is kept in memory."""

    mount: Any = None
    """Its :class:`agtphost.http.mounts.Mount`; None if no surface has its path."""

    refusal: bytes | None = None
    """The body of the refusal by its head, if the connection can continue; None for an admitted request."""

    agtp_status: int = 0
    """The status of the AGTP answer that it carries; 0 for none."""

    audit_id: str = ""
    """The Audit-ID of the record that it was answered from, for its access line; empty for none."""

    repeats: bool = True
    """Whether a field may occur more than once; whether it does is known of heads that were parsed in one step."""

    arrived_at: float | None = None
    """When its head was complete, in the clock's seconds; None before."""

    requestHeaders: SpelledHeaders
    responseHeaders: SpelledHeaders

    channel: Any
    """Its :class:`agtphost.http.channel.BoundedChannel`; Twisted declares another type."""

    turned_away: Any = None
    """The :class:`agtphost.http.refusals.TurnedAway` of a request refused before any call; None otherwise."""

    is_sealing: bool = False
    """Whether its refusal is being recorded: nothing more of it is read, and the answer follows."""

    admission: Any = None
    """What the resource found when it admitted the request; None before."""

    on_disconnect: Callable[[], None] | None = None
    """Called when the client disconnects before its answer is complete."""

    is_disconnected: bool = False
    """Whether the client has disconnected."""

    def __init__(self, channel: Any, queued: object = False) -> None:
        # No surface takes forms, so Twisted's form parsers never read clients' octets.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)  # type: ignore[no-untyped-call]
        self.requestHeaders = SpelledHeaders()
        self.responseHeaders = SpelledHeaders()
        self._bodies = channel.bodies

    def admit_head(self, method: bytes, uri: bytes, version: bytes, length: int | None) -> bool:
        """
        Admit or refuse the request by its complete head.

        :param length: of the body; None if it is not announced.
        :return: whether the body may follow; otherwise the request is answered, and its connection ends.
        """
        self.method, self.uri, self.clientproto = method, uri, version
        self.path = uri.partition(b"?")[0]
        self.arrived_at = self.channel.seconds()
        refusal: bytes | None = self.channel.site.resource.admit(self)
        if length == 0 and (refusal is None or self.code in KEEPING_CONNECTION):
            self.refusal, self.content = refusal, _Body(self, 0)
            return True
        # A client that sent an invalid request may have lost track of this connection, so it ends.
        if refusal is None:
            keeper: Gatekeeper = self.mount.resource
            refusal, longest = keeper.admit(self), keeper.longest_body
            if refusal is None and length is not None and length > longest:
                refusal = self.channel.site.resource.too_large(self)
        if refusal is not None:
            if not self.record_refusal(self._end):
                self._end(refusal)
            return False
        self.content = _Body(self, longest)
        return True

    def handleContentChunk(self, data: bytes) -> None:
        """Take a piece of the body; after a refusal it is dropped."""
        if self.content is not None and not self.finished and not self.is_sealing:
            self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Process the complete request; :meth:`admit_head` has read its head, and forms are not parsed."""
        self.content.seek(0)  # type: ignore[union-attr]
        self.process()

    def process(self) -> None:
        """Answer the complete request: with its refusal if it has one."""
        if self.is_sealing:
            return
        if self.refusal is None:
            self._render()
        elif not self.record_refusal(self.complete):
            self.complete(self.refusal)

    def _render(self) -> None:
        """Render by the surfaces; they are one leaf, so Twisted's search along the path is skipped."""
        self.site = self.channel.site
        fields = self.responseHeaders.by_name
        fields[b"Server"], fields[b"Date"] = [SERVER], [_date()]
        try:
            answered = self.site.resource.render(self)
            if answered is NOT_DONE_YET:
                return
            if answered or self.method != b"HEAD":
                fields.setdefault(b"Content-Length", [b"%d" % len(answered)])
            self.complete(answered)
        except BaseException:
            self.processingFailed(Failure())  # type: ignore[no-untyped-call]

    def complete(self, octets: bytes) -> None:
        """Write the whole body of an answer whose head is set."""
        fields = self.responseHeaders.by_name
        if self.startedWriting or self.finished or self._disconnected or not fields.keys() >= FIELDS_OF_COMPLETE:
            self.write(octets)  # type: ignore[no-untyped-call]
        else:
            # As Request.write of Twisted does.
            self.startedWriting = 1
            whole = self.method != b"HEAD" and self.code not in NO_BODY_CODES
            self.sentLength = len(octets) if whole else 0
            head = self.channel.head_of(self.clientproto, b"%d" % self.code, self.code_message, self.responseHeaders)
            self.channel.end_with(head, octets if whole else b"")
        self.finish()  # type: ignore[no-untyped-call]

    def record_refusal(self, finish: Callable[[bytes], object]) -> bool:
        """
        Have a refusal recorded if it names a sender.

        :param finish: called with the body of the refusal once that is done.
        :return: whether it is being recorded; otherwise the caller answers the refusal directly.
        """
        door = None if self.mount is None else self.mount.door
        if door is None or self.turned_away is None or self.is_sealing or not door.record(self, finish):
            return False
        self.is_sealing = True
        if self.content is None and not self.finished:
            self.content = _Body(self, 0)
        return True

    def answer(self, status: int, fields: Iterable[tuple[str, str]], body: bytes) -> None:
        """
        Write the whole answer in one piece, its fields spelled as given; HEAD gets everything except the body.

        :raises ValueError: a field has more than one line.
        """
        self.startedWriting = 1
        own = self.responseHeaders.by_name
        if self.channel.is_last:
            own[b"Connection"] = [b"close"]
        set_status(self, status)
        lines = [b"HTTP/1.1 %d %s" % (status, self.code_message)]
        for name, values in own.items():
            lines += [b"%s: %s" % (name, value) for value in values]
        said = [f"{name}: {value}" for name, value in fields]
        if status not in NO_BODY_CODES:
            said.append(f"Content-Length: {len(body)}")
        lines.append("\r\n".join(said).encode("latin-1"))
        head = b"\r\n".join((*lines, b"\r\n"))
        if head.count(b"\n") != len(lines) + len(said) or head.count(b"\r") != head.count(b"\n"):
            raise ValueError("a field of the answer is more than one line")
        whole = self.method != b"HEAD" and status not in NO_BODY_CODES
        self.channel.end_with(head, body if whole else b"")
        self.sentLength = len(body) if whole else 0
        self.finish()  # type: ignore[no-untyped-call]

    def end_stream(self, octets: bytes) -> None:
        """Write the last octets of an answer that was begun by :meth:`write`, and finish; all leaves at once."""
        if self.chunked and not self._disconnected:
            self.sentLength += len(octets)
            self.channel.end_with(b"".join(toChunk(octets)) if octets else b"", b"0\r\n\r\n")
            self.chunked = 0
        elif octets:
            self.write(octets)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    def turn_away(self, refuse: Callable[[BoundedRequest], bytes]) -> None:
        """Answer before the body is complete, and end the connection."""
        refusal = refuse(self)
        if not self.record_refusal(self._end):
            self._end(refusal)

    def _end(self, octets: bytes) -> None:
        self.responseHeaders.setRawHeaders("Connection", ["close"])
        self.channel.persistent = False
        self.write(octets)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """
        Release the body of a finished request, and drop its references.

        A reference cycle would stay until the next garbage collection; collecting some thousand requests takes as long
        as answering hundreds.
        """
        if isinstance(self.content, _Body):
            self._bodies.give_back(self.content.count())
        self.admission = self.on_disconnect = self.turned_away = None

    def _cleanup(self) -> None:
        self.release()
        super()._cleanup()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Any) -> None:
        """Note that the client is gone; see :class:`twisted.web.http.Request`."""
        left = self.on_disconnect
        self.release()
        if not self.finished and self.arrived_at is not None:
            self.channel.factory.log(self, answered=False)
        self.is_disconnected = True
        if left is not None:
            left()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


def tail_of(
    request: BoundedRequest,
    status: int,
    octets: bytes,
    *fields: tuple[str, str],
    kind: str = "text/plain",
    cache: str = "no-store",
) -> bytes:
    """Set the head of an answer, and return its body for the caller to return or write."""
    set_status(request, status)
    everything = (("Content-Type", kind), ("Content-Length", str(len(octets))), ("Cache-Control", cache), *fields)
    for name, value in everything:
        request.responseHeaders.put(name, value)
    return b"" if request.method == b"HEAD" else octets


def set_status(request: Request, status: int) -> None:
    """Set the status of an answer, with its reason phrase."""
    request.setResponseCode(status, _phrase(status))


@lru_cache(1024)
def _phrase(status: int) -> bytes:
    return phrase_of(status).encode("ascii")


def phrase_of(status: int) -> str:
    """Return the reason phrase of a status: HTTP's, or AGTP's for its own statuses."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return status_text.phrase_of(status)


def field_of(request: Request, name: str) -> str | None:
    """
    Return the last value of a header field.

    :return: None if it is absent; octets that are not ASCII become U+FFFD, so that they equal nothing.
    """
    # Not by getRawHeaders, which is a function more for each of a dozen fields.
    values = request.requestHeaders._rawHeaders.get(spell_text(name))
    return values[-1].decode("ascii", "replace") if values else None


def host_of(request: Request) -> str:
    """Return the address at which a client called, as the client sees it."""
    scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
    host = request.getHost()  # type: ignore[no-untyped-call]
    name = getattr(host, "host", "localhost")
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{getattr(host, 'port', 0)}"
