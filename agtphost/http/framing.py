"""
Which octets of a connection are a request: Twisted's reading of HTTP/1.1, without what can be read in two ways.

A head that is there whole and is plainly well-formed, as nearly all are, is read in one step (:mod:`.heads`), and its
body with it, if that is there. Every other head and body is read by Twisted, line by line and piece by piece.
"""

from __future__ import annotations

from typing import Any

from twisted.web.http import HTTPChannel

from agtphost.http import heads
from agtphost.http.heads import LENGTH, LONGEST_HEAD, MOST_FIELDS, REQUEST_LINE
from agtphost.vocabulary.reasons import Reason

_HTTP_2 = b"PRI * HTTP/2.0"
"""What a client of HTTP/2 says first."""


UNREAD = f"A request begins with method, target and version, single spaces between, in {LONGEST_HEAD:,} octets at most."
MISREAD = (
    "A field, or how the body is framed, is not as HTTP has it, or can be read in two ways; "
    f"or the head has more than {MOST_FIELDS} fields or {LONGEST_HEAD:,} octets."
)


class FramedChannel(HTTPChannel):
    """Octets become requests here; what becomes of those is its subclass's."""

    maxHeaders = MOST_FIELDS
    totalHeadersSize = LONGEST_HEAD

    _closing = False
    """Whether nothing is read as a request any more."""

    def dataReceived(self, data: bytes) -> None:
        """Some octets arrived."""
        if self.requests or self.paused or self._busyReceiving or not self._taken(self._buffer + data):
            super().dataReceived(data)  # type: ignore[no-untyped-call]

    def _taken(self, octets: bytes) -> bool:
        """Whether a request begins with these octets whose head is among them, and it was taken in one step."""
        end = octets.find(b"\r\n\r\n", 0, LONGEST_HEAD + 4)
        head = None if end < 0 else heads.read(octets[:end])
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

    def _take(self, head: heads.Head, behind: bytes) -> None:
        """Do what Twisted does line by line."""
        self._buffer = behind
        request: Any = self.requestFactory(self, 0)
        self.requests.append(request)
        self._command, self._path, self._version, fields, self.length = head
        request.requestHeaders.by_name.update(fields)
        self.allHeadersReceived()  # type: ignore[no-untyped-call]
        if self._closing:
            return  # it was refused by its head
        if not self.length:
            self.allContentReceived()  # type: ignore[no-untyped-call]
            return
        self.setRawMode()  # type: ignore[no-untyped-call]
        if len(behind) < self.length:
            # Its body comes in pieces, which Twisted puts together.
            self._maybeChooseTransferDecoder(b"Content-Length", b"%d" % self.length)  # type: ignore[no-untyped-call]
        else:
            self._buffer = b""
            request.handleContentChunk(behind[: self.length])
            self._finishRequestBody(behind[self.length :])

    def _finishRequestBody(self, data: bytes) -> None:
        """A body is whole; what is behind it waits, if there is something."""
        if data:
            self._dataBuffer.append(data)
        self.allContentReceived()  # type: ignore[no-untyped-call]

    def lineReceived(self, line: bytes) -> None:
        """
        One line of a head: what two readers may read in two ways is none.

        Twisted splits a request line at any white space, and joins lines that begin with some.
        """
        first = not hasattr(self, "_command")
        if first and line == _HTTP_2:
            self._refuse(505, Reason.INVALID_REQUEST_LINE, "HTTP is spoken here in its versions 1.0 and 1.1.")
            return
        if line and (line[:1] in b" \t" or (first and REQUEST_LINE.fullmatch(line) is None)):
            self._respondToBadRequestAndDisconnect()
            return
        super().lineReceived(line)  # type: ignore[no-untyped-call]

    def lineLengthExceeded(self, line: bytes) -> None:
        """A line is longer than a head may be: answered as every head that is, where Twisted only hangs up."""
        self._respondToBadRequestAndDisconnect()

    def headerReceived(self, line: bytes) -> bool:
        """One field: only one length, and one coding of it, are read here; any other is answered 400."""
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        coded = name == b"transfer-encoding"
        wrong = coded and (value.lower() != b"chunked" or self._version != b"HTTP/1.1")
        if wrong or (name == b"content-length" and not LENGTH.fullmatch(value)):
            self._respondToBadRequestAndDisconnect()
            return False
        return bool(super().headerReceived(line))  # type: ignore[no-untyped-call]

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        """Whether the client lets the connection live on: it says ``close`` in a list, which Twisted does not read."""
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
            self._refuse(400, Reason.INVALID_HEADER_FIELD, MISREAD)
        else:
            self._refuse(400, Reason.INVALID_REQUEST_LINE, UNREAD)

    def _refuse(self, status: int, reason: Reason, explanation: str) -> None:
        """Answer what is no request, and end the connection."""
        raise NotImplementedError
