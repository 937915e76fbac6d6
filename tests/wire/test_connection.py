"""The states of a connection: who may send what when, and what the end of a side means."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.errors import LocalProtocolError, RemoteProtocolError
from agtphost.wire import (
    Connection,
    Headers,
    Limits,
    Request,
    Response,
    Role,
    Signal,
    readers,
    serialize_request,
    serialize_response,
)

REQUEST = b"AGTP/1.0 QUERY /a\r\nContent-Length: 2\r\n\r\nhi"
OK = Response(status=200)
TEXT = Headers([("Content-Type", "text/plain")])


def server(octets: bytes = b"", **options: bool) -> Connection:
    """A server's connection that has received octets."""
    connection = Connection(Role.SERVER, **options)
    if octets:
        connection.receive(octets)
    return connection


def client(octets: bytes = b"", asked: int = 1) -> Connection:
    """A client's connection that has sent requests and received octets."""
    connection = Connection(Role.CLIENT)
    for _ in range(asked):
        connection.send(Request(method="QUERY"))
    if octets:
        connection.receive(octets)
    return connection


def test_nothing_is_parsed_while_a_request_is_unanswered() -> None:
    """T-PL-10: pipelined octets wait until the response is out, even malformed ones."""
    connection = server(REQUEST + b"garbage")
    assert isinstance(connection.next_event(), Request)
    assert connection.next_event() is Signal.PAUSED
    assert connection.buffered_octets == len(b"garbage")
    connection.receive(b" and more")
    assert connection.next_event() is Signal.PAUSED
    connection.send(OK)
    with pytest.raises(RemoteProtocolError):
        connection.next_event()


def test_pipelined_requests_come_in_order() -> None:
    """T-PL-1: 1,000 pipelined requests are yielded one by one in the order sent."""
    connection = server(b"".join(b"AGTP/1.0 QUERY /%d\r\n\r\n" % number for number in range(1000)))
    for number in range(1000):
        request = connection.next_event()
        assert isinstance(request, Request)
        assert request.path == f"/{number}"
        connection.send(OK)
    assert connection.next_event() is Signal.NEED_DATA


def test_the_request_line_is_kept_as_received() -> None:
    """Companion section 5.2: request_hash covers the line as received, CRLF included."""
    for octets, line in (
        (REQUEST, b"AGTP/1.0 QUERY /a\r\n"),
        (b"AGTP/1.0 QUERY\r\n\r\n", b"AGTP/1.0 QUERY\r\n"),
    ):
        whole, slow = server(octets), server()
        request = whole.next_event()
        for place in range(len(octets)):
            slow.receive(octets[place : place + 1])
            again = slow.next_event()
        assert isinstance(request, Request)
        assert request.line == line
        assert again == request


def test_interim_responses_keep_the_request_unanswered() -> None:
    """AGTP-016: any number of interim messages, then the final one, then the next request."""
    connection = server(REQUEST * 2)
    connection.next_event()
    for _ in range(3):
        assert connection.send(Response(status=202), final=False).startswith(b"AGTP/1.0 202 Accepted\r\n")
        assert connection.next_event() is Signal.PAUSED
    connection.send(OK)
    assert isinstance(connection.next_event(), Request)


def test_an_interim_response_belongs_to_a_request() -> None:
    """There is no interim message without a request, and none that ends the connection."""
    connection = server()
    with pytest.raises(LocalProtocolError):
        connection.send(OK, final=False)
    connection.receive(REQUEST)
    connection.next_event()
    with pytest.raises(LocalProtocolError):
        connection.send(Response(status=202, close=True), final=False)
    connection.send(OK)


def test_one_response_after_a_framing_error() -> None:
    """Security invariant 9: exactly one response after an error, then the connection is closed."""
    connection = server(b"AGTP/1.0 QUERY foo\r\n\r\n" + REQUEST)
    with pytest.raises(RemoteProtocolError):
        connection.next_event()
    assert connection.line == b"AGTP/1.0 QUERY foo\r\n"
    assert connection.buffered_octets == 0
    assert connection.next_event() is Signal.CLOSED
    connection.receive(REQUEST)
    assert connection.next_event() is Signal.CLOSED
    with pytest.raises(LocalProtocolError):
        connection.send(OK, final=False)
    assert not connection.is_closed
    assert connection.send(Response(status=400)) == b"AGTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    assert connection.is_closed
    with pytest.raises(LocalProtocolError):
        connection.send(Response(status=400))


def test_a_closing_response_ends_reading() -> None:
    """T-DS-30: after a response that closes, nothing is parsed any more."""
    connection = server(REQUEST * 2)
    connection.next_event()
    connection.send(Response(status=200, close=True))
    assert connection.next_event() is Signal.CLOSED
    assert connection.buffered_octets == 0


def test_a_response_without_a_request_must_close() -> None:
    """A 408 to half a request is the last thing sent; a 200 to nothing is never sent."""
    connection = server(b"AGTP/1.0 QUE")
    connection.next_event()
    with pytest.raises(LocalProtocolError):
        connection.send(OK)
    assert connection.send(Response(status=408, close=True)).startswith(b"AGTP/1.0 408 Timeout\r\n")
    assert connection.next_event() is Signal.CLOSED


def test_a_second_final_response_is_refused() -> None:
    """One request, one answer."""
    connection = server(REQUEST)
    connection.next_event()
    connection.send(OK)
    with pytest.raises(LocalProtocolError):
        connection.send(OK)


def test_a_malformed_response_changes_nothing() -> None:
    """A response that cannot be sent leaves the request unanswered, so that a 500 can be."""
    connection = server(REQUEST)
    connection.next_event()
    with pytest.raises(LocalProtocolError):
        connection.send(Response(status=200, headers=Headers([("Task-ID", "a\r\nb")])))
    assert connection.next_event() is Signal.PAUSED
    connection.send(Response(status=500))


def test_each_role_sends_its_kind() -> None:
    """A server sends no requests and a client no responses."""
    with pytest.raises(LocalProtocolError):
        server().send(Request(method="QUERY"))
    with pytest.raises(LocalProtocolError):
        client().send(OK)


def test_a_servers_peer_that_ended_its_side_is_gone() -> None:
    """T-TL-90: nothing more is parsed or sent, in whatever state the end arrives."""
    idle, partial, waiting, unanswered = server(), server(REQUEST[:-1]), server(REQUEST), server(REQUEST)
    partial.next_event()
    unanswered.next_event()
    for connection in (idle, partial, waiting, unanswered):
        connection.receive(b"")
        assert connection.next_event() is Signal.CLOSED
        assert connection.buffered_octets == 0
        assert connection.mid_message is None
        with pytest.raises(LocalProtocolError):
            connection.send(OK)


def test_a_client_gets_what_arrived_whole_before_the_end() -> None:
    """Two responses and the end in one read: both are yielded, then CLOSED."""
    connection = client(serialize_response(OK) * 2, asked=2)
    connection.receive(b"")
    assert isinstance(connection.next_event(), Response)
    assert isinstance(connection.next_event(), Response)
    assert connection.next_event() is Signal.CLOSED
    with pytest.raises(LocalProtocolError):
        connection.send(Request(method="QUERY"))


@pytest.mark.parametrize("octets", [b"AGTP/1.0 2", b"AGTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", b"A"])
def test_a_client_notices_truncation(octets: bytes) -> None:
    """Core v08 section 5.4.1: a response cut short is an error, wherever; the client can send nothing more."""
    connection = client(octets)
    assert connection.next_event() is Signal.NEED_DATA
    connection.receive(b"")
    with pytest.raises(RemoteProtocolError) as caught:
        connection.next_event()
    assert caught.value.reason == "incomplete-message"
    assert connection.next_event() is Signal.CLOSED
    assert connection.is_closed


def test_a_client_with_nothing_out_takes_no_response() -> None:
    """CVE-2023-46137's cousin: a response to no request is an error, not the answer to the next one."""
    connection = client(serialize_response(OK) * 2, asked=1)
    assert isinstance(connection.next_event(), Response)
    with pytest.raises(RemoteProtocolError) as caught:
        connection.next_event()
    assert caught.value.reason == "unexpected-response"


def test_interim_responses_answer_nothing() -> None:
    """A 202 may be interim, so it does not use the request up."""
    connection = client(serialize_response(Response(status=202)) * 2 + serialize_response(OK))
    assert [connection.next_event().status for _ in range(3)] == [202, 202, 200]  # type: ignore[union-attr]


def test_client_and_server_understand_each_other() -> None:
    """AGTP-012, AGTP-019: a request and its response cross unchanged, an odd status text too."""
    here, there = Connection(Role.CLIENT), Connection(Role.SERVER)
    request = Request(method="QUERY", path="/a", query="b=1", headers=TEXT, body=b"hello")
    there.receive(here.send(request))
    arrived = there.next_event()
    assert isinstance(arrived, Request)
    assert (arrived.method, arrived.path, arrived.query, arrived.body) == ("QUERY", "/a", "b=1", b"hello")
    assert list(arrived.headers) == [*TEXT, ("Content-Length", "5")]
    here.receive(there.send(Response(status=263, text="Banana", headers=TEXT, body=b"yes")))
    response = here.next_event()
    assert isinstance(response, Response)
    assert (response.status, response.text, response.body) == (263, "Banana", b"yes")


def test_timers_are_told_what_is_missing() -> None:
    """mid_message is None when idle and while we owe the answer, else which part the peer owes."""
    connection = server()
    seen = [connection.mid_message]
    for place in range(len(REQUEST)):
        connection.receive(REQUEST[place : place + 1])
        connection.next_event()
        seen.append(connection.mid_message)
    head = REQUEST.index(b"\r\n\r\n") + 4
    assert seen == [None] + ["header"] * (head - 1) + ["body"] * 2 + [None]
    connection.receive(b"AGTP")
    assert connection.mid_message is None
    connection.send(OK)
    assert connection.mid_message == "header"


def test_the_line_is_known_once_it_is_complete() -> None:
    """A timeout within a message can be recorded with its request line."""
    connection = server(b"AGTP/1.0 QUERY /a\r")
    connection.next_event()
    assert connection.line == b""
    connection.receive(b"\nContent-Length: 2")
    connection.next_event()
    assert connection.line == b"AGTP/1.0 QUERY /a\r\n"
    connection.receive(b"\r\n\r\nh")
    connection.next_event()
    assert connection.mid_message == "body"
    assert connection.line == b"AGTP/1.0 QUERY /a\r\n"
    connection.receive(b"i")
    connection.next_event()
    assert connection.line == b""


def test_limits_are_configurable() -> None:
    """Each limit is the one given, and its reason names which."""
    limits = Limits(request_line=20, header_line=12, header_block=30, header_count=2, body=3)
    for reason, octets in {
        "request-line-too-large": b"AGTP/1.0 QUERY /abcdef\r\n\r\n",
        "header-line-too-large": b"AGTP/1.0 QUERY /\r\nX: 1234567890\r\n\r\n",
        "header-block-too-large": b"AGTP/1.0 QUERY /\r\n" + b"X: 1234567\r\n" * 3,
        "too-many-headers": b"AGTP/1.0 QUERY /\r\nX: 1\r\nX: 1\r\nX: 1\r\n\r\n",
        "body-too-large": b"AGTP/1.0 Q /\r\nContent-Length: 4\r\n\r\n",
    }.items():
        connection = Connection(
            Role.SERVER, Limits(header_line=18, header_count=2, body=3) if reason[0] == "b" else limits
        )
        connection.receive(octets)
        with pytest.raises(RemoteProtocolError) as caught:
            connection.next_event()
        assert caught.value.reason == reason
    small = Connection(Role.SERVER, Limits(header_count=1))
    small.receive(b"AGTP/1.0 QUERY /\r\nX: 1\r\nY: 1\r\n\r\n")
    with pytest.raises(RemoteProtocolError, match="too-many-headers"):
        small.next_event()


def test_a_whole_body_of_the_largest_size() -> None:
    """T-LM: 1 MiB in 16 KiB portions arrives unchanged; the octet after it starts the next request."""
    body = bytes(range(256)) * 4096
    octets = b"AGTP/1.0 QUERY /\r\nContent-Length: 1048576\r\n\r\n" + body + b"A"
    connection = server()
    for place in range(0, len(octets), 16384):
        connection.receive(octets[place : place + 16384])
        event = connection.next_event()
    assert isinstance(event, Request)
    assert event.body == body
    assert connection.buffered_octets == 1


class CountingBuffer(bytearray):
    """A buffer that adds up how many octets are searched."""

    searched = 0

    def find(self, what: bytes, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        """Search, and count."""
        stop = len(self) if end is None else min(end, len(self))
        self.searched += max(0, stop - start)
        return super().find(what, start, stop)


def searched_octetwise(size: int) -> float:
    """How often each octet of a head of ``size`` octets is searched when it comes octet by octet."""
    octets = b"AGTP/1.0 QUERY /\r\n" + b"X-A: %s\r\n" % (b"v" * 1000) * (size // 1000)
    connection = Connection(Role.SERVER)
    buffer = connection._buffer = CountingBuffer()
    for place in range(len(octets)):
        connection.receive(octets[place : place + 1])
        assert connection.next_event() is Signal.NEED_DATA
    return buffer.searched / len(octets)


def test_a_slow_sender_costs_linear_time() -> None:
    """T-LM: however long the head and however small its portions, each octet is searched a few times only."""
    assert searched_octetwise(1_000) < 4
    assert searched_octetwise(32_000) < 4


def test_control_a_reader_that_searches_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement above notices a reader that forgets how far it searched."""

    class Forgetful(readers.HeadReader[Any]):
        def read(self, buffer: bytearray) -> readers.Head[Any] | None:
            head = super().read(buffer)
            self._seen = self._begin
            return head

    monkeypatch.setattr(readers, "HeadReader", Forgetful)
    assert searched_octetwise(32_000) > 100


def test_serialized_request_is_read_as_sent() -> None:
    """The client's octets have three tokens, so a strict server takes them."""
    octets = serialize_request(Request(method="DISCOVER"))
    assert octets == b"AGTP/1.0 DISCOVER /\r\nContent-Length: 0\r\n\r\n"
    assert isinstance(server(octets, strict_request_line=True).next_event(), Request)


def test_a_request_says_how_many_tokens_its_line_had() -> None:
    """Two, as deployed clients write it, or three: design decision 2."""
    assert Request(method="QUERY", line=b"AGTP/1.0 QUERY\r\n").two_tokens
    assert not Request(method="QUERY", line=b"AGTP/1.0 QUERY /\r\n").two_tokens
