"""
Split the octets of a connection into requests: Twisted's HTTP/1.1 parser without ambiguous forms.

A head that arrived completely and is plainly well-formed, as nearly all are, is parsed in one step
(:mod:`.request_heads`), with its body if that is complete too. Twisted parses every other head and body line by line.
"""

from __future__ import annotations

from typing import Any

from twisted.web.http import HTTPChannel

from agtphost.http import request_heads
from agtphost.http.request_heads import LENGTH, LONGEST_HEAD, MOST_FIELDS, REQUEST_LINE
from agtphost.vocabulary.reasons import Reason

KEPT_HEAD = 2_048
"""Octets of a head that is kept until the next one of its connection; a longer one is parsed each time."""

_HTTP_2 = b"PRI * HTTP/2.0"
"""The first line of a client of HTTP/2."""


BAD_REQUEST_LINE = (
    f"Begin a request with method, target and version, separated by single spaces, in at most {LONGEST_HEAD:,} octets."
)
BAD_FIELD = (
    "A field or the framing of the body is invalid in HTTP or ambiguous; "
    f"or the head has more than {MOST_FIELDS} fields or {LONGEST_HEAD:,} octets."
)


class FramedChannel(HTTPChannel):
    """A channel that turns octets into requests; its subclass processes them."""

    maxHeaders = MOST_FIELDS
    totalHeadersSize = LONGEST_HEAD

    _closing = False
    """Whether nothing is read as a request any more."""

    _last_octets = b""
    """The head of the last request, since most clients send the same one again and again."""

    _last_head: request_heads.RequestHead | None = None

    def dataReceived(self, data: bytes) -> None:
        """Take octets from the transport."""
        if self.requests or self.paused or self._busyReceiving or not self._take_whole(self._buffer + data):
            super().dataReceived(data)  # type: ignore[no-untyped-call]

    def _take_whole(self, octets: bytes) -> bool:
        """Return whether the octets begin with a whole request head that was parsed in one step."""
        end = octets.find(b"\r\n\r\n", 0, LONGEST_HEAD + 4)
        if end < 0:
            return False
        if octets[:end] == self._last_octets:
            head = self._last_head
        else:
            head = request_heads.read(octets[:end])
            self._last_octets, self._last_head = (octets[:end], head) if end <= KEPT_HEAD else (b"", None)
        if head is None:
            return False
        self._busyReceiving = True
        try:
            self._take(head, octets[end + 4 :])
        finally:
            self._busyReceiving = False
        if self._buffer and not self.paused:
            super().dataReceived(b"")  # type: ignore[no-untyped-call]
        return True

    def _take(self, head: request_heads.RequestHead, behind: bytes) -> None:
        """Do what Twisted does line by line."""
        self._buffer = behind
        request: Any = self.requestFactory(self, 0)
        self.requests.append(request)
        self._command, self._path, self._version, fields, self.length, request.repeats = head
        request.requestHeaders.by_name.update(fields)
        self.allHeadersReceived()  # type: ignore[no-untyped-call]
        if self._closing:
            return  # it was refused by its head
        if not self.length:
            self.allContentReceived()  # type: ignore[no-untyped-call]
            return
        self.setRawMode()  # type: ignore[no-untyped-call]
        if len(behind) < self.length:
            # Twisted assembles a body that comes in pieces.
            self._maybeChooseTransferDecoder(b"Content-Length", b"%d" % self.length)  # type: ignore[no-untyped-call]
        else:
            self._buffer = b""
            request.handleContentChunk(behind[: self.length])
            self._finishRequestBody(behind[self.length :])

    def _finishRequestBody(self, data: bytes) -> None:
        """Finish a complete body; octets after it wait."""
        if data:
            self._dataBuffer.append(data)
        self.allContentReceived()  # type: ignore[no-untyped-call]

    def lineReceived(self, line: bytes) -> None:
        """
        Take one line of a head; an ambiguous line is rejected.

        Twisted splits a request line at any white space, and joins lines that begin with some.
        """
        first = not hasattr(self, "_command")
        if first and line == _HTTP_2:
            self._refuse(505, Reason.INVALID_REQUEST_LINE, "Only HTTP/1.0 and HTTP/1.1 are supported here.")
            return
        if line and (line[:1] in b" \t" or (first and REQUEST_LINE.fullmatch(line) is None)):
            self._respondToBadRequestAndDisconnect()
            return
        super().lineReceived(line)  # type: ignore[no-untyped-call]

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a head with an excessive line with an answer, where Twisted only disconnects."""
        self._respondToBadRequestAndDisconnect()

    def headerReceived(self, line: bytes) -> bool:
        """Take one field; only one form of length and one coding are accepted, any other is answered 400."""
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        coded = name == b"transfer-encoding"
        wrong = coded and (value.lower() != b"chunked" or self._version != b"HTTP/1.1")
        if wrong or (name == b"content-length" and not LENGTH.fullmatch(value)):
            self._respondToBadRequestAndDisconnect()
            return False
        return bool(super().headerReceived(line))  # type: ignore[no-untyped-call]

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        """
        Return whether the client keeps the connection; it may send ``close`` in a list, which Twisted does not parse.
        """
        values = request.requestHeaders.getRawHeaders(b"Connection")
        if values is None:
            return version == b"HTTP/1.1"
        said = b",".join(values).lower()
        if b"close" in (option.strip() for option in said.split(b",")):
            request.responseHeaders.setRawHeaders(b"Connection", [b"close"])
            return False
        return bool(super().checkPersistence(request, version))  # type: ignore[no-untyped-call]

    def _respondToBadRequestAndDisconnect(self) -> None:
        if hasattr(self, "_command"):
            self._refuse(400, Reason.INVALID_HEADER_FIELD, BAD_FIELD)
        else:
            self._refuse(400, Reason.INVALID_REQUEST_LINE, BAD_REQUEST_LINE)

    def _refuse(self, status: int, reason: Reason, explanation: str) -> None:
        """Answer octets that are not a request, and end the connection."""
        raise NotImplementedError
