"""
Limits, and messages to octets: core v08 sections 5.4.1 and 5.5.

The serializer is the last check before the wire: a field value with a line break, from a handler, an error text or an
upstream, fails here and never becomes a further line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agtphost.errors import LocalProtocolError
from agtphost.vocabulary.status import Status, phrase_of
from agtphost.wire import grammar
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest sizes that a peer may send, in octets; more is refused with 400 and a specific reason."""

    request_line: int = 8192
    """First line without its CRLF: room for a path of a few kilobytes; what HTTP servers allow."""

    header_line: int = 8192
    """One field line without its CRLF: an Authorization token of 6 KiB, or a record, fits."""

    header_block: int = 32768
    """All field lines with their CRLFs: four times the longest line; what an unknown peer may make the host hold."""

    header_count: int = 100
    """Field lines: core v08 section 5.5 defines fewer than 50."""

    body: int = 1 << 20
    """The body; refused by its declared length, before any of it is read."""


REFUSED_NAMES: Final = {
    "content-length": "is written by the codec",
    "transfer-encoding": "does not exist in AGTP",
    "agtp-version": "was removed: the version is on the first line",
    "agtp-method": "was removed: the method is on the request line",
    "agtp-status": "was removed: the status is on the response line",
    "principal-id": "was removed",
    "server-agent-id": "was removed: it is Server-ID now",
}
"""Fields that no message of ours carries: core v08 sections 5.4.1 and 5.5 (removed headers)."""


_SENDABLE: Final = frozenset(name for name in grammar.USUAL_NAMES if name.lower() not in REFUSED_NAMES)
"""Names that need no look at their syntax; Content-Type in this spelling alone."""

_RESPONSE_STARTS: Final = {int(status): f"{grammar.VERSION} {int(status)} {status.phrase}" for status in Status}
"""The first line of a response with the standard phrase of its status."""


def request_line(request: Request) -> bytes:
    """
    Return the first line that :func:`serialize_request` writes, CRLF included; records hash it.

    :raises LocalProtocolError: if method, path or query break core v08 section 5.4.1.
    """
    return _encode(f"{_request_start(request)}\r\n")


def serialize_request(request: Request) -> bytes:
    """
    Return the octets of a request, Content-Length added; ``request.line`` plays no part.

    :raises LocalProtocolError: if they would not be one well-formed message.
    """
    return _serialize(_request_start(request), request.headers, request.body)


def serialize_response(response: Response) -> bytes:
    """
    Return the octets of a response, Content-Length added.

    :raises LocalProtocolError: if they would not be one well-formed message.
    """
    status = response.status
    if status == 204 and response.body:
        raise LocalProtocolError("A 204 has no body.")
    start = None if response.text else _RESPONSE_STARTS.get(status)
    if start is None:
        if not 100 <= status <= 999:
            raise LocalProtocolError(f"A status has three digits, not {status}.")
        start = f"{grammar.VERSION} {status} {response.text or phrase_of(status)}"
    return _serialize(start, response.headers, response.body)


def _request_start(request: Request) -> str:
    target = request.path if request.query is None else f"{request.path}?{request.query}"
    fault = grammar.fault_of_method(request.method) or grammar.fault_of_target(target)
    if not fault and "?" in request.path:
        fault = "The path of a request holds a '?': pass the query as query."
    if fault:
        raise LocalProtocolError(fault)
    return f"{grammar.VERSION} {request.method} {target}"


def _serialize(start: str, headers: Headers, body: bytes) -> bytes:
    fields = headers.fields
    named = dict(fields)
    lines = [*map(": ".join, fields)]
    text = "\r\n".join((start, *lines, f"Content-Length: {len(body)}\r\n\r\n"))
    head = _encode(text)
    count = len(lines) + 1
    # One space and one CRLF a field: so no value has white space or brings a further line. Nearly all heads are so.
    ends = b" " * start.count(" ") + b"\r\n" + b" \r\n" * count + b"\r\n"
    usual = named.keys() <= _SENDABLE and ("Content-Type" in named) == bool(body)
    if usual and head.translate(None, grammar.VISIBLE_OCTETS) == ends:
        return head + body
    # Three searches in the text are faster than a look at the ends of each value. An empty value is looked at, too.
    if not usual or ":  " in text or " \r\n" in text or "\t" in text:
        head = _encode("\r\n".join((start, *_lines(headers, body), f"Content-Length: {len(body)}\r\n\r\n")))
    # Exactly one CRLF a line, and one for the blank line: so no value brought any.
    if head.translate(None, grammar.FIELD_OCTETS) != b"\r\n" * (count + 2):
        raise LocalProtocolError("A line holds a control character.")
    return head + body


def _lines(headers: Headers, body: bytes) -> list[str]:
    """Return the lines of a head, each checked; for unusual names, and to name the line that cannot be sent."""
    lines = []
    for name, value in headers:
        key = grammar.field_key(name)
        if key is None:
            raise LocalProtocolError(f"{name!r} is not a field name.")
        if key in REFUSED_NAMES:
            raise LocalProtocolError(f"{name} {REFUSED_NAMES[key]}.")
        if value != value.strip(" \t"):
            raise LocalProtocolError(f"The value of {name} starts or ends with white space.")
        lines.append(f"{name}: {value}")
    if ("content-type" in headers) != bool(body):
        raise LocalProtocolError("A body has a Content-Type, and nothing else has one.")
    return lines


def _encode(text: str) -> bytes:
    try:
        return text.encode("ascii")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("A line holds a character that is not ASCII.") from error
