"""
From octets to messages.

How it works. A head is read in the order of its octets, so that it makes no
difference in which portions they come: (1) each line as it grows, its limits and its
line end; (2) the first line's syntax, as soon as it is complete; (3) with the blank
line, the octets of the fields, their syntax, and the length of the body. Where the
whole head lies in the buffer, as it nearly always does, one pass of C calls
establishes (1) and half of (3); any doubt there sends the head down the line by line
way, which finds the error. Nothing is scanned twice, so a slow sender costs no more
than a fast one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from agtphost.errors import RemoteProtocolError
from agtphost.vocabulary.reasons import Reason
from agtphost.wire import grammar
from agtphost.wire.codec import Limits
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from agtphost.wire.heads import Head, Heads

S = TypeVar("S")
M = TypeVar("M")

_CRLF: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_LF: Final = 0x0A
_FIRST_OCTETS: Final = f"{grammar.VERSION} ".encode("ascii")
_FORBIDDEN: Final = re.compile(r"[^\t\x20-\x7e]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[S, M]):
    """The rules by which requests and responses are read: which parser, which limits, which result."""

    parse: Callable[[str], S]
    """Takes the first line apart."""

    invalid: Callable[[str], RemoteProtocolError]
    """Makes the error for a first line that cannot be one."""

    length_required: bool
    """Whether a message without Content-Length is refused instead of read as having no body."""

    repeated: bool
    """Whether the heads of one connection tend to be alike."""

    build: Callable[[Head[S], bytes], M]
    """Puts head and body together."""


def _request(head: Head[tuple[str, str, str | None]], body: bytes) -> Request:
    method, path, query = head.start
    return Request(method=method, path=path, query=query, headers=head.headers, body=body, line=head.line)


def _response(head: Head[tuple[int, str]], body: bytes) -> Response:
    status, text = head.start
    return Response(status=status, text=text, headers=head.headers, body=body)


def _request_form(strict: bool) -> Form[tuple[str, str, str | None], Request]:
    return Form(
        parse=partial(grammar.parse_request_line, strict=strict),
        invalid=grammar.invalid_request_line,
        length_required=strict,
        repeated=True,
        build=_request,
    )


LENIENT_REQUEST: Final = _request_form(False)
"""Two tokens are path ``/``, a missing Content-Length means no body (design decision 2)."""

STRICT_REQUEST: Final = _request_form(True)
"""Core v08 section 5.4.1 to the letter."""

RESPONSE: Final = Form(
    parse=grammar.parse_response_line,
    invalid=grammar.invalid_response_line,
    length_required=True,
    repeated=False,
    build=_response,
)
"""A response has a Content-Length: without it a truncated response would look complete."""


class MessageReader(Generic[S, M]):
    """
    Eats one message after the other from the front of a buffer.

    :param form: which kind of message.
    :param limits: of the sizes; each is checked as octets arrive, a body's by its declared length.
    """

    def __init__(self, form: Form[S, M], limits: Limits) -> None:
        self._build = form.build
        self._head_reader = HeadReader(form, limits)
        self._head: Head[S] | None = None

    @property
    def in_body(self) -> bool:
        """Whether a head is read and its body is not complete."""
        return self._head is not None

    @property
    def line(self) -> bytes:
        """First line of the message being read, CRLF included; empty while it is not complete."""
        return self._head.line if self._head is not None else self._head_reader.line

    def read(self, buffer: bytearray) -> M | None:
        """
        Remove a message from the front of ``buffer`` and return it.

        :return: None if more octets are needed.
        :raises RemoteProtocolError: the first error; nothing may be read afterwards.
        """
        head = self._head or self._head_reader.read(buffer)
        if head is None:
            return None
        length = head.length
        here = len(buffer)
        if here < length:
            self._head = head
            return None
        if here == length:
            body = bytes(buffer)
            buffer.clear()
        else:
            body = bytes(buffer[:length])
            del buffer[:length]
        self._head = None
        return self._build(head, body)


class HeadReader(Generic[S]):
    """Eats one head after the other from the front of a buffer."""

    def __init__(self, form: Form[S, M], limits: Limits) -> None:
        self._parse = form.parse
        self._invalid = form.invalid
        self._length_required = form.length_required
        self._limits = limits
        self._heads = Heads() if form.repeated else None
        self._small = min(limits.request_line, limits.header_line, limits.header_block)
        self._reset()

    def _reset(self) -> None:
        self.line = b""
        self._lines: list[str] = []
        self._begin = 0  # of the line being read, in the buffer
        self._seen = 0  # octets in which no further line end will be found
        self._block = 0  # where the field lines begin

    def read(self, buffer: bytearray) -> Head[S] | None:
        """
        Remove a head from the front of ``buffer``, with the blank line that ends it, and return it.

        :return: None if more octets are needed.
        :raises RemoteProtocolError: for the first error in the order of octets.
        """
        if not self._seen:
            head = None if self._heads is None else self._heads.begins(buffer)
            if head is None:
                head = self._read_small(buffer)
            if head is not None:
                return head
        return self._read_by_line(buffer)

    def _read_small(self, buffer: bytearray) -> Head[S] | None:
        """
        Read a head that is wholly there and so short that no line, nor the block, can exceed its limit.

        Without its field octets, one CRLF a line must remain: that rules out control characters, octets beyond ASCII,
        and a bare CR or LF.
        """
        end = buffer.find(_HEAD_END, 0, self._small)
        if end < 0:
            return None
        octets = buffer[: end + 2]
        lines = octets.decode("latin-1").split("\r\n")
        count = len(lines) - 1  # the piece after the last CRLF is empty
        if count - 1 > self._limits.header_count:
            return None
        if octets.translate(None, grammar.FIELD_OCTETS) != _CRLF * count:
            return None
        self.line = line = bytes(octets[: len(lines[0]) + 2])
        heads = self._heads
        known = None if heads is None else heads.similar(line, lines)
        if known is None:
            start = self._parse(lines[0])
            headers = grammar.parse_fields(lines[1:-1])
        else:
            start, headers = known[0].start, known[1]
        head = Head(start, line, headers, self._body_length(headers))
        if heads is not None:
            heads.keep(bytes(buffer[: end + 4]), lines, head)
        del buffer[: end + 4]
        self.line = b""
        return head

    def _read_by_line(self, buffer: bytearray) -> Head[S] | None:
        if not self._lines:
            prefix = buffer[: len(_FIRST_OCTETS)]
            if not _FIRST_OCTETS.startswith(prefix):
                raise self._invalid(prefix.decode("latin-1"))
        while (line := self._next_line(buffer)) is not None:
            if not self._lines:
                self._first_line(line, buffer)
            elif line:
                self._lines.append(line)
                self._refuse_too_many()
            else:
                return self._complete(buffer)
        return None

    def _complete(self, buffer: bytearray) -> Head[S]:
        _refuse_forbidden(self._lines[1:])
        headers = grammar.parse_fields(self._lines[1:])
        head = Head(self._start, self.line, headers, self._body_length(headers))
        del buffer[: self._begin]
        self._reset()
        return head

    def _refuse_too_many(self) -> None:
        most = self._limits.header_count
        if len(self._lines) - 1 > most:
            raise RemoteProtocolError(Reason.TOO_MANY_HEADERS, f"This host takes at most {most} field lines.")

    def _first_line(self, line: str, buffer: bytearray) -> None:
        self.line = bytes(buffer[: self._begin])
        self._start = self._parse(line)
        self._lines.append(line)
        self._block = self._begin

    def _next_line(self, buffer: bytearray) -> str | None:
        """Return the next complete line without its CRLF; None if its end is not there yet."""
        begin = self._begin
        room, reason = self._room()
        horizon = begin + room
        cr = buffer.find(b"\r", self._seen, horizon + 1)
        if buffer.find(b"\n", self._seen, cr if cr >= 0 else horizon + 1) >= 0:
            raise RemoteProtocolError(Reason.INVALID_LINE_ENDING, "A line ends with CR LF, never with LF alone.")
        if cr < 0 and len(buffer) > horizon:
            raise _too_large(reason, self._limits)
        if cr < 0 or cr + 1 == len(buffer):
            self._seen = cr if cr >= 0 else len(buffer)
            return None
        if buffer[cr + 1] != _LF:
            raise RemoteProtocolError(Reason.INVALID_LINE_ENDING, "A CR is always followed by LF.")
        self._begin = self._seen = cr + 2
        return buffer[begin:cr].decode("latin-1")

    def _room(self) -> tuple[int, Reason]:
        """Return how many octets the line being read may have, and the reason of the limit that a longer one breaks."""
        limits = self._limits
        if not self._lines:
            return limits.request_line, Reason.REQUEST_LINE_TOO_LARGE
        left = limits.header_block - (self._begin - self._block)
        if left < limits.header_line:
            return left, Reason.HEADER_BLOCK_TOO_LARGE
        return limits.header_line, Reason.HEADER_LINE_TOO_LARGE

    def _body_length(self, headers: Headers) -> int:
        """
        Decide how many octets follow: Content-Length is the sole signal (core v08 section 5.4.1).

        A request without the field has no body, because the drafts' examples and
        deployed clients leave it out; octets that follow are the next request and
        must be one. Not so a request with a Content-Type, which announces a body that
        nothing delimits: to run it without, and refuse the body afterwards, would be to
        do something else than what was asked.
        """
        named = headers.by_name
        if "transfer-encoding" in named:
            raise RemoteProtocolError(Reason.TRANSFER_ENCODING_REFUSED, "AGTP has no transfer encodings.")
        value = named.get("content-length")
        if value is None:
            if self._length_required or "content-type" in named:
                raise RemoteProtocolError(Reason.CONTENT_LENGTH_MISSING, "A message states its body's length.")
            return 0
        if "content-length" in headers.repeated_names:
            raise RemoteProtocolError(Reason.INVALID_CONTENT_LENGTH, "A message has exactly one Content-Length.")
        length = grammar.parse_content_length(value)
        if length > self._limits.body:
            raise _too_large(Reason.BODY_TOO_LARGE, self._limits)
        return length


def _too_large(reason: Reason, limits: Limits) -> RemoteProtocolError:
    most = {
        Reason.REQUEST_LINE_TOO_LARGE: limits.request_line,
        Reason.HEADER_LINE_TOO_LARGE: limits.header_line,
        Reason.HEADER_BLOCK_TOO_LARGE: limits.header_block,
        Reason.BODY_TOO_LARGE: limits.body,
    }[reason]
    return RemoteProtocolError(reason, f"This host takes at most {most} octets there.")


def _refuse_forbidden(lines: list[str]) -> None:
    for line in lines:
        if _FORBIDDEN.search(line):
            raise RemoteProtocolError(Reason.INVALID_HEADER_FIELD, "A field holds visible ASCII, spaces and tabs.")
