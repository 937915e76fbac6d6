"""One HTTP request and its answer: admitted before its body is taken, its body of bounded length."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol

from twisted.python.failure import Failure
from twisted.web.http import NO_BODY_CODES, datetimeToString
from twisted.web.server import NOT_DONE_YET, Request
from twisted.web.server import version as SERVER

from agtphost.http.heads import Fields
from agtphost.vocabulary import status as status_text

LONGEST_BODY = 1 << 20
"""Octets of a request's body."""


HARMLESS = frozenset((204, 404))
"""Statuses of what is answered by a head alone and ends no connection: a preflight, and a path that is not there."""

BODIES = 64 << 20
"""Octets of all bodies that one listener holds; one more is answered 503."""


COMPLETE = frozenset((b"Content-Length", b"Content-Type"))
"""Fields of an answer to which Twisted adds none."""

_dated = (0, b"")
"""A second, and how a ``Date`` field says it."""


def _date() -> bytes:
    """The ``Date`` of an answer: it is the same for a second."""
    global _dated
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, datetimeToString(now))  # type: ignore[no-untyped-call]
    return _dated[1]


class Bodies:
    """What the bodies of a listener's requests hold."""

    def __init__(self) -> None:
        self.octets = 0

    def take(self, octets: int) -> bool:
        """Whether there is room for so many more; then they are counted."""
        if self.octets + octets > BODIES:
            return False
        self.octets += octets
        return True

    def give_back(self, octets: int) -> None:
        """So many are needed no more."""
        self.octets -= octets


class Gatekeeper(Protocol):
    """A resource that decides by the head of a request whether its body is taken at all."""

    longest_body: int
    """Octets."""

    def admit(self, request: BoundedRequest) -> bytes | None:
        """None for a request that may go on; the body of its refusal otherwise, by :func:`tail_of`."""


class _Body(io.BytesIO):
    """A body in memory, which counts among all those of its listener."""

    def __init__(self, request: BoundedRequest, longest: int) -> None:
        super().__init__()
        self._request = request
        self._longest = longest
        self._counted = 0

    def write(self, octets: Any) -> int:
        """Some octets; too many end the request."""
        more = len(octets)
        if self._counted + more > self._longest:
            self._request.turn_away(self._request.channel.site.resource.too_large)
        elif not self._request.channel.bodies.take(more):
            self._request.turn_away(self._request.channel.site.resource.too_much)
        else:
            self._counted += more
            self._request.channel.progressed(more)
            return super().write(octets)
        return more

    def count(self) -> int:
        """What it holds; asked once, when it ends."""
        counted, self._counted = self._counted, 0
        return counted


class BoundedRequest(Request):
    """A request whose head is judged first, and whose body is kept in memory."""

    mount: Any = None
    """The :class:`agtphost.http.mounts.Mount` that it is for; None where it is for none."""

    refusal: bytes | None = None
    """The body of what it is refused with by its head, where it needs no hurry; None for one that may go on."""

    agtp_status: int = 0
    """Of the answer of AGTP that it carries; 0 where it carries none."""

    audit_id: str = ""
    """Of the record that it was answered from, where there is one: for its access line."""

    arrived: float | None = None
    """When its head was complete, in the clock's seconds; None before."""

    requestHeaders: Fields
    responseHeaders: Fields

    channel: Any
    """The :class:`agtphost.http.channel.BoundedChannel` that it came by; Twisted says what it makes of it."""

    turned: Any = None
    """The :class:`agtphost.http.refusals.TurnedAway` that it is refused with at the door; None for every other."""

    sealing: bool = False
    """Whether its refusal is being put on record: nothing more of it is read, and the answer comes."""

    admitted: Any = None
    """What the resource found out when it admitted the request; None before."""

    left: Callable[[], None] | None = None
    """Called when the client leaves before its answer is complete."""

    departed: bool = False
    """Whether it has."""

    def __init__(self, channel: Any, queued: object = False) -> None:
        # Forms are nothing that is served here: their parsers meet no stranger's octets.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)  # type: ignore[no-untyped-call]
        self.requestHeaders = Fields()
        self.responseHeaders = Fields()
        self._bodies = channel.bodies

    def begun(self, method: bytes, uri: bytes, version: bytes, length: int | None) -> bool:
        """
        The head is complete.

        :param length: of the body; None where it is not announced.
        :return: whether the body may come; otherwise the request is answered, and its connection ends.
        """
        self.method, self.uri, self.clientproto = method, uri, version
        self.path = uri.partition(b"?")[0]
        self.arrived = self.channel.now()
        refusal: bytes | None = self.channel.site.resource.admit(self)
        if length == 0 and (refusal is None or self.code in HARMLESS):
            self.refusal, self.content = refusal, _Body(self, 0)
            return True
        # Whoever is misled about what it asks, or whom, asks nothing more on this connection.
        if refusal is None:
            keeper: Gatekeeper = self.mount.resource
            refusal, longest = keeper.admit(self), keeper.longest_body
            if refusal is None and length is not None and length > longest:
                refusal = self.channel.site.resource.too_large(self)
        if refusal is not None:
            if not self.settled(self._end):
                self._end(refusal)
            return False
        self.content = _Body(self, longest)
        return True

    def handleContentChunk(self, data: bytes) -> None:
        """Some of the body; what follows a refusal is nothing."""
        if self.content is not None and not self.finished and not self.sealing:
            self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """It is whole: what its head said is known since :meth:`begun`, and no form is looked for in it."""
        self.content.seek(0)  # type: ignore[union-attr]
        self.process()

    def process(self) -> None:
        """It is complete: a refusal is its answer, whatever it asked for."""
        if self.sealing:
            return
        if self.refusal is None:
            self._rendered()
        elif not self.settled(self.complete):
            self.complete(self.refusal)

    def _rendered(self) -> None:
        """Ask the surfaces, which are one leaf: Twisted would look for it along the path."""
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
        """The body of an answer whose head is set, whole."""
        fields = self.responseHeaders.by_name
        if self.startedWriting or self.finished or self._disconnected or not fields.keys() >= COMPLETE:
            self.write(octets)  # type: ignore[no-untyped-call]
        else:
            # As Twisted writes it: see Request.write.
            self.startedWriting = 1
            whole = self.method != b"HEAD" and self.code not in NO_BODY_CODES
            self.sentLength = len(octets) if whole else 0
            head = self.channel.head_of(self.clientproto, b"%d" % self.code, self.code_message, self.responseHeaders)
            self.channel.end_with(head, octets if whole else b"")
        self.finish()  # type: ignore[no-untyped-call]

    def settled(self, finish: Callable[[bytes], object]) -> bool:
        """
        Have what it is refused with at the door put on record, where somebody is named.

        :param finish: takes the body of the refusal, once that is done.
        :return: whether it will be; otherwise the refusal is answered as it is.
        """
        door = None if self.mount is None else self.mount.door
        if door is None or self.turned is None or self.sealing or not door.record(self, finish):
            return False
        self.sealing = True
        if self.content is None and not self.finished:
            self.content = _Body(self, 0)
        return True

    def answer(self, status: int, fields: Iterable[tuple[str, str]], body: bytes) -> None:
        """
        The whole answer, in one piece, its fields spelled as they are given; HEAD gets all but the body.

        :raises ValueError: a field would not be one line.
        """
        self.startedWriting = 1
        own = self.responseHeaders.by_name
        if self.channel.last:
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

    def turn_away(self, refuse: Callable[[BoundedRequest], bytes]) -> None:
        """Answer before the body is whole, and end the connection."""
        refusal = refuse(self)
        if not self.settled(self._end):
            self._end(refusal)

    def _end(self, octets: bytes) -> None:
        self.responseHeaders.setRawHeaders("Connection", ["close"])
        self.channel.persistent = False
        self.write(octets)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """
        It is over: its body is needed no more, and it lets go of what refers to it.

        A circle would stay until garbage is next collected, and collecting that of some thousand requests takes as long
        as hundreds of them.
        """
        if isinstance(self.content, _Body):
            self._bodies.give_back(self.content.count())
        self.admitted = self.left = self.turned = None

    def _cleanup(self) -> None:
        self.release()
        super()._cleanup()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Any) -> None:
        """See :class:`twisted.web.http.Request`."""
        left = self.left
        self.release()
        if not self.finished and self.arrived is not None:
            self.channel.factory.log(self, answered=False)
        self.departed = True
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
    """Set the head of an answer; its body, for the caller to return or write."""
    set_status(request, status)
    everything = (("Content-Type", kind), ("Content-Length", str(len(octets))), ("Cache-Control", cache), *fields)
    for name, value in everything:
        request.responseHeaders.put(name, value)
    return b"" if request.method == b"HEAD" else octets


def set_status(request: Request, status: int) -> None:
    """Set the status of an answer, with the text that belongs to it."""
    request.setResponseCode(status, _phrase(status))


@lru_cache(1024)
def _phrase(status: int) -> bytes:
    return phrase_of(status).encode("ascii")


def phrase_of(status: int) -> str:
    """The text beside a status: HTTP's own, where Twisted knows none too; AGTP's for AGTP's."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return status_text.phrase_of(status)


def field_of(request: Request, name: str) -> str | None:
    """
    A header field's last value, whatever octets it has.

    :return: None where it is absent; what is not ASCII is there as U+FFFD, so that it equals nothing.
    """
    values = request.requestHeaders.getRawHeaders(name.encode("ascii"))
    return values[-1].decode("ascii", "replace") if values else None


def host_of(request: Request) -> str:
    """The address that a client asked, as it sees it."""
    scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
    host = request.getHost()  # type: ignore[no-untyped-call]
    name = getattr(host, "host", "localhost")
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{getattr(host, 'port', 0)}"
