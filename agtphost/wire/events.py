"""
What the wire layer yields and takes: core v08 section 5.4.1.

Bodies and lines are octets, names and values are ``str`` of visible ASCII. Messages
are made once and never changed; they are not frozen, which would take twice as long
for each call inside the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agtphost.wire.headers import Headers


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A client's original request, which a surface put into the body of another request."""

    content: bytes
    """As the client sent it."""

    enclose: Callable[[Any], Any]
    """Puts the decoded content into the decoded body."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Request:
    """A complete AGTP request."""

    method: str
    """The method token of the request line, as sent."""

    path: str = "/"
    """The path-absolute, still percent-encoded; ``/`` where the line had two tokens."""

    query: str | None = None
    """What stood after the first ``?``, still percent-encoded; None where there was none."""

    headers: Headers = field(default_factory=Headers)
    """All fields, Content-Length included."""

    body: bytes = b""
    """Exactly Content-Length octets."""

    line: bytes = b""
    """The request line as received, CRLF included: what ``request_hash`` covers besides the body."""

    enclosed: Enclosed | None = field(default=None, compare=False)
    """
    What of the body the client sent, where a surface wrote the rest of it. Only this is decoded, so that nothing in it
    can become a member of what is around it. None: the client sent all of the body.
    """

    own: bool = field(default=False, compare=False)
    """Whether this process wrote the whole body, as JSON, of what it had decoded: it is read without its checks."""

    value: Any = field(default=None, compare=False, repr=False)
    """With :attr:`own`: what the body was written of, where all of it was decoded from JSON; None: the body is read."""

    @property
    def two_tokens(self) -> bool:
        """Whether the line has no request-target, as deployed clients write it (design decision 2)."""
        return self.line.count(b" ") == 1


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Response:
    """A complete AGTP response."""

    status: int
    """The three-digit code, all that decisions may rest on."""

    text: str = ""
    """The status text; informational. Empty means: the standard text of the code."""

    headers: Headers = field(default_factory=Headers)
    """All fields; Content-Length is written by the codec and must not be among those to send."""

    body: bytes = b""
    """The body octets."""

    close: bool = False
    """Whether the sender ends the connection after this message."""

    own: bool = field(default=False, compare=False)
    """Whether this process wrote the body, as JSON: calls made inside the host read it again without its checks."""

    result: Any = field(default=None, compare=False, repr=False)
    """
    The ``result`` of the body for readers in this process, as :class:`agtphost.vocabulary.jsonslices.Encoded`: the
    octets that a server behind the host wrote, and their value. None: the body has to be decoded.
    """

    @property
    def audit_id(self) -> str:
        """
        Return the Audit-ID of the response's record, or an empty string; the fields are scanned, without an index.
        """
        for name, value in self.headers.fields:
            if name == "Audit-ID":
                return value
        return ""


class Signal(Enum):
    """The reasons why :meth:`~agtphost.wire.connection.Connection.next_event` returns no message."""

    NEED_DATA = "need data"
    """Nothing more until further octets arrive."""

    PAUSED = "paused"
    """A complete request is out and not yet answered; nothing is parsed until it is."""

    CLOSED = "closed"
    """The peer ended its side, or framing is lost: no message will ever follow."""
