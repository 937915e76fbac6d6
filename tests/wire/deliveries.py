"""How the octets of a case reach a connection, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agtphost.errors import RemoteProtocolError
from agtphost.wire import Connection, Headers, Request, Response, Role, Signal
from tests.wire.cases import Case, Message

GOOD = b"AGTP/1.0 FETCH /good\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngood"
GOOD_MESSAGE = Message(
    first=("FETCH", "/good", None),
    fields=(("Content-Type", "text/plain"), ("Content-Length", "4")),
    body=b"good",
)
GOOD_RESPONSE = b"AGTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngood"
GOOD_RESPONSE_MESSAGE = Message(first=(200, "OK"), fields=GOOD_MESSAGE.fields, body=b"good")

SHORT = 120
"""Cases up to this many octets are cut in two at every place."""

_ANSWER = Response(status=204)
_QUESTION = Request(method="QUERY")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything that a peer's octets led to."""

    messages: tuple[Message, ...]
    refusal: str = ""
    explanation: str = ""
    waiting: str = ""


def connect(role: str, *, strict: bool = False, asked: int = 16) -> Connection:
    """A connection of that side; a client's has sent ``asked`` requests."""
    if role == "server":
        return Connection(Role.SERVER, strict_request_line=strict)
    connection = Connection(Role.CLIENT)
    for _ in range(asked):
        connection.send(_QUESTION)
    return connection


def expected(case: Case) -> Outcome:
    """What the case says should come out, to compare with :func:`deliver` without its explanation."""
    return Outcome(messages=case.messages, refusal=case.refusal, waiting=case.waiting)


def deliver(connection: Connection, portions: Iterable[bytes]) -> Outcome:
    """Give the portions one by one, take every event after each, answer each request."""
    messages: list[Message] = []
    for portion in filter(None, portions):  # an empty one would be the end of the connection
        connection.receive(portion)
        try:
            while not isinstance(event := connection.next_event(), Signal):
                messages.append(plain(event))
                if isinstance(event, Request):
                    assert connection.next_event() is Signal.PAUSED
                    connection.send(_ANSWER)
        except RemoteProtocolError as error:
            assert connection.next_event() is Signal.CLOSED
            assert error.reason.statuses[0] == 400
            return Outcome(messages=tuple(messages), refusal=error.reason, explanation=error.explanation)
        assert event is Signal.NEED_DATA
    return Outcome(messages=tuple(messages), waiting=connection.mid_message or "")


def plain(event: Request | Response) -> Message:
    """An event as the plain data of a case."""
    first: tuple[object, ...]
    if isinstance(event, Request):
        first = (event.method, event.path, event.query)
    else:
        first = (event.status, event.text)
    return Message(first=first, fields=tuple(event.headers), body=event.body)


def event(message: Message) -> Request | Response:
    """The plain data of a case as an event to send: without Content-Length, which the codec writes."""
    headers = Headers(field for field in message.fields if field[0].lower() != "content-length")
    if len(message.first) == 3:
        method, path, query = message.first
        return Request(method=method, path=path, query=query, headers=headers, body=message.body)  # type: ignore[arg-type]
    status, text = message.first
    return Response(status=status, text=text, headers=headers, body=message.body)  # type: ignore[arg-type]


def octetwise(octets: bytes) -> Iterator[bytes]:
    """One octet at a time."""
    return (octets[n : n + 1] for n in range(len(octets)))


def boundaries(octets: bytes) -> Iterable[int]:
    """Where to cut: everywhere in short cases, else around each line end."""
    if len(octets) <= SHORT:
        return range(1, len(octets))
    cuts = {place + near for place, octet in enumerate(octets) if octet in b"\r\n" for near in (0, 1)}
    return sorted(cut for cut in cuts if 0 < cut < len(octets))
