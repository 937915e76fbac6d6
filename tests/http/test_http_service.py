"""What a connection of any HTTP listener may take: real sockets, one resource, small limits."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import DeferredQueue
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs
from twisted.web.resource import Resource

from agtphost.http import bounded_request, http_service
from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.http.http_service import HTTP_LIMITS
from tests.http.mounted import service_of

LIMITS = HTTP_LIMITS.model_copy(
    update={"header_timeout": 0.5, "body_gap_timeout": 0.5, "idle_timeout": 0.5, "write_timeout": 1.0}
)
PAGE = b"x" * 20_000


class Echo(Resource):
    """Answers with the body; who says ``No: 1`` is refused by the head."""

    isLeaf = True
    longest_body = 50_000

    def __init__(self) -> None:
        super().__init__()
        self.rendered = 0

    def admit(self, request: BoundedRequest) -> bytes | None:
        """By the head."""
        return tail_of(request, 401, b"No.\n") if request.getHeader("no") else None

    def render(self, request: BoundedRequest) -> bytes:
        """By the whole."""
        self.rendered += 1
        assert request.content is not None
        return self.admit(request) or tail_of(request, 200, request.content.read() or PAGE)


Start = Callable[..., Awaitable[int]]


@pytest.fixture
def started() -> Iterator[tuple[Start, Echo]]:
    """Starts the service on a port of its own."""
    echo = Echo()
    services: list[Any] = []

    async def start(**limits: Any) -> int:
        service = service_of(
            echo, "tcp:0:interface=127.0.0.1", None, LIMITS.model_copy(update=limits), hosts=frozenset({"a"})
        )
        services.append(service)
        service.startService()
        await service.when_listening()
        return service.port

    yield start, echo
    for service in services:
        pytest_twisted.blockon(service.stopService())


def say(port: int, *pieces: bytes, timeout: float = 60.0) -> bytes:
    """Everything that comes until the other end closes."""
    with socket.create_connection(("127.0.0.1", port), timeout) as link:
        got = b""
        for piece in pieces:
            link.sendall(piece)
        while more := link.recv(65_536):
            got += more
        return got


def post(length: int, *fields: bytes, body: bytes = b"") -> bytes:
    """A request with a body."""
    lines = [b"POST / HTTP/1.1", b"Host: a", b"Content-Length: %d" % length, *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"GET / HT", b"408"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"408"),
        (post(1000, body=b"x" * 10), b"408"),
        (post(900, b"No: 1"), b"401"),
        (post(900, b"No: 1", b"Expect: 100-continue"), b"401"),
        (post(50_001), b"413"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc351\r\n" + b"x" * 50_001, b"413"),
        (b"NONSENSE\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nbad header\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(101)) + b"\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 16_000 + b"\r\nY: " + b"y" * 600 + b"\r\n\r\n", b"400"),
    ],
)
@pytest.mark.parametrize("octets", [0, 1])
@pytest_twisted.ensureDeferred
async def test_what_is_not_a_whole_request_is_answered_once_and_in_time(
    started: tuple[Start, Echo], sent: bytes, status: bytes, octets: int
) -> None:
    """Whole, or one octet at a time: one answer at the most, then the end, and nothing has reached the resource."""
    if octets and len(sent) > 20_000:
        pytest.skip("as many segments as octets")
    start, echo = started
    # What is not refused for the time that it takes is not, however long a busy machine takes to send it.
    within = 30.0 if status not in (b"", b"408") else 2.0 if octets else 0.5
    port = await start(header_timeout=within, body_gap_timeout=within)
    pieces = [sent[at : at + 1] for at in range(len(sent))] if octets else [sent]
    try:
        got = await deferToThread(say, port, *pieces)
    except ConnectionError:
        assert octets  # sent on after the answer, for longer than is waited
        got = b"HTTP/1.1 " + status
    assert got.count(b"HTTP/1.1") == bool(status)
    assert got[9:12] == status
    assert echo.rendered == 0


@pytest_twisted.ensureDeferred
async def test_a_request_and_its_body_are_answered(started: tuple[Start, Echo]) -> None:
    """The control; with a body that waits for 100, with one in chunks, and with two requests at once."""
    start, echo = started
    port = await start()
    got = await deferToThread(say, port, post(3, b"Expect: 100-continue", body=b"abc"))
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert got.endswith(b"\r\n\r\nabc")
    got = await deferToThread(
        say, port, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    assert got.endswith(b"\r\n\r\nabc")
    got = await deferToThread(say, port, post(1, body=b"a") + post(1, body=b"b"))
    assert [part[:1] for part in got.split(b"\r\n\r\n")[1:]] == [b"a", b"b"]
    assert echo.rendered == 4


@pytest_twisted.ensureDeferred
async def test_requests_of_a_connection_are_counted(started: tuple[Start, Echo]) -> None:
    """The last answer says that it is the last."""
    start, echo = started
    port = await start(requests_per_connection=3)
    got = await deferToThread(say, port, post(1, body=b"a") * 10)
    assert got.count(b"HTTP/1.1 200") == echo.rendered == 3
    assert got.count(b"Connection: close") == 1


@pytest_twisted.ensureDeferred
async def test_bodies_have_room_together(started: tuple[Start, Echo], monkeypatch: pytest.MonkeyPatch) -> None:
    """503 beyond it, and room again once they are answered."""
    monkeypatch.setattr(bounded_request, "MOST_BODY_OCTETS", 40_000)
    start, _ = started
    port = await start(body_gap_timeout=5.0)
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(post(30_001, body=b"x" * 30_000))
        while (got := await deferToThread(say, port, post(30_000, body=b"x" * 30_000)))[9:12] == b"200":
            pass  # until the first one has arrived
        assert got[9:12] == b"503"
        assert b"Retry-After" in got
        link.sendall(b"x")
        assert (await deferToThread(link.recv, 12))[9:] == b"200"
    assert (await deferToThread(say, port, post(30_000, body=b"x" * 30_000)))[9:12] == b"200"


@pytest_twisted.ensureDeferred
async def test_who_reads_nothing_is_read_no_more_and_cut(started: tuple[Start, Echo]) -> None:
    """Requests for 20 MB of answers: few are looked at, and the connection is cut after the write timeout."""
    start, echo = started
    port = await start()

    def ask() -> bool:
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.settimeout(20)
            link.connect(("127.0.0.1", port))
            try:
                for _ in range(1000):
                    link.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Padding: %b\r\n\r\n" % (b"y" * 10_000))
            except TimeoutError:
                return False
            except OSError:
                return True
            return False

    assert await deferToThread(ask)
    assert echo.rendered < 500


@pytest_twisted.ensureDeferred
async def test_a_port_that_is_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged once, and served when the other program has gone; other listeners of the host serve all the same."""
    monkeypatch.setattr(http_service, "RETRY_SECONDS", 0.05)
    tries: DeferredQueue[None] = DeferredQueue()
    with capturedLogs() as logged:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            service = service_of(Echo(), f"tcp:{port}:interface=127.0.0.1")
            listen = service._listen

            def listen_counted() -> None:
                listen()
                tries.put(None)

            monkeypatch.setattr(service, "_listen", listen_counted)
            service.startService()
            for _ in range(4):
                await tries.get()
            assert service.address is None
        while service.address is None:
            await tries.get()
    assert service.port == port
    await service.stopService()
    assert len([line for line in logged if "cannot be served" in str(line["log_format"])]) == 1


@pytest_twisted.ensureDeferred
async def test_a_service_that_ends_tries_no_more() -> None:
    """A standby's probes end before those of the host that it becomes begin."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        service = service_of(Echo(), f"tcp:{other.getsockname()[1]}:interface=127.0.0.1")
        service.startService()
        await service.stopService()
        assert not service._retrying.running and service.address is None
