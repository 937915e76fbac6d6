"""One listener, several surfaces: which of them a request reaches, by which names, and from which pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.resource import Resource

from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mount, Mounts
from agtphost.protocols.limits import ABORT_AFTER, FAREWELL
from agtphost.vocabulary.mount_paths import MountPath
from tests.http.mounted import mounted
from tests.rows import each_row

HERE = IPv4Address("TCP", "127.0.0.1", 8080)
ABROAD = IPv4Address("TCP", "192.0.2.1", 8080)


class Named(Resource):
    """Answers with its name, and counts."""

    isLeaf = True
    longest_body = 1000

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.asked = 0
        self.heard = b""

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Everybody but one."""
        return tail_of(request, 401, b"No.\n") if request.getHeader("no") else None

    def render(self, request: BoundedRequest) -> bytes:
        """The name."""
        self.asked += 1
        return self.admit(request) or tail_of(request, 200, self._name.encode())


class Wire(StringTransport):
    """Of a socket, as far as the channel asks."""

    cut = False
    """Whether it was cut."""

    def abortConnection(self) -> None:
        """Cut."""
        self.cut = True

    def loseWriteConnection(self) -> None:
        """Half closed."""


def asked(
    mounts: Mounts,
    *lines: str,
    path: str = "/",
    method: str = "GET",
    at: Any = HERE,
    access: Any = None,
    body: str = "",
) -> tuple[int, str]:
    """The status and the body of one answer, asked over a connection of its own."""
    clock = Clock()
    channel: Any = HttpFactory(mounts, HTTP_LIMITS, clock, access).buildProtocol(None)
    wire = Wire(hostAddress=at)
    channel.makeConnection(wire)
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines])
    channel.dataReceived(f"{head}\r\n\r\n{body}".encode())
    clock.advance(0)
    found = re.fullmatch(rb"HTTP/1\.1 (\d{3}) .*?\r\n\r\n(.*)", wire.value(), re.DOTALL)
    assert found is not None, wire.value()
    return int(found[1]), found[2].decode()


def test_each_path_is_its_surface() -> None:
    """Itself and below, or itself alone; what merely looks like it is nothing."""
    alone = Mount(surface="c", path=MountPath("/x", below=False), resource=Named("c"))
    mounts = Mounts([mounted(Named("a"), "/a"), mounted(Named("b"), "/b/c"), alone])
    host = "Host: localhost:8080"
    for path, name in {"/a": "a", "/a/b?x=/b/c": "a", "/b/c/d": "b", "/x": "c", "/x?y": "c"}.items():
        assert asked(mounts, host, path=path) == (200, name)
    for path in ("/", "/ab", "/A", "/b", "/x/", "/b/../a", "//a", "/%61"):
        assert asked(mounts, host, path=path)[0] == 404


def test_one_surface_has_what_the_others_leave() -> None:
    """Wherever it stands among them; and not beside one that has everything."""
    rest = Mount(surface="rest", path=MountPath("/", rest=True), resource=Named("rest"))
    mounts = Mounts([rest, mounted(Named("a"), "/a")])
    for path, name in {"/a": "a", "/a/b": "a", "/": "rest", "/ab": "rest", "/b/c": "rest"}.items():
        assert asked(mounts, "Host: localhost:8080", path=path) == (200, name)
    with pytest.raises(ValueError, match="overlaps"):
        Mounts([rest, mounted(Named("all"), "/")])


def test_overlapping_surfaces_are_refused() -> None:
    """A start error says so before; this is what keeps two from being served together in any case."""
    for one, other in [("/a", "/a/b"), ("/", "/a"), ("/a", "/a")]:
        with pytest.raises(ValueError, match="overlaps"):
            Mounts([mounted(Named("a"), one), mounted(Named("b"), other)])


@each_row("path", ["", "a", "/a/", "/a?b", "/ä", "/a b", "/%61"])
def test_what_is_no_path_of_a_surface(path: str) -> None:
    """Said by the value itself."""
    with pytest.raises(ValueError, match="no path for a surface"):
        MountPath(path)


@each_row(
    ("host", "status"),
    [
        *((f"{name}:8080", 200) for name in ("localhost", "127.0.0.1", "[::1]", "LocalHost", "agents.example")),
        *((name, 200) for name in ("agents.example", "a.library.example:99")),
        *((name, 421) for name in ("localhost", "localhost:81", "evil.example", "evil.example:8080", "127.0.0.2:8080")),
        *(
            (name, 421)
            for name in ("library.example", "a.b.library.example", "localhost:8080:8080", "a b", "[::1", "x@y")
        ),
        *((name, 421) for name in ("localhost:8080.", "localhost.:8080", "localhost:08080000", ".library.example")),
        ("", 400),
    ],
)
def test_only_known_names_are_answered(host: str, status: int) -> None:
    """DNS rebinding: a name that somebody pointed at this address is not one of the certificate's or of loopback's."""
    named = Named("a")
    mounts = Mounts([mounted(named)], {"agents.example", "*.library.example"})
    for more in ({}, {"method": "POST"}):
        assert asked(mounts, f"Host: {host}", **more)[0] == status
    assert asked(mounts, f"Host: {host}", "Content-Length: 3", method="POST", body="abc")[0] == status
    assert named.asked == (3 if status == 200 else 0)


def test_names_that_the_operator_lists_stand_alone() -> None:
    """With their port, or with every one; where clients are told a URL, its host too."""
    mounts = Mounts(
        [mounted(Named("a"), hosts=frozenset({"a.example", "b.example:81"}), url_host="c.example:82")], {"d.example"}
    )
    for host in ("a.example", "a.example:7", "b.example:81", "c.example:82"):
        assert asked(mounts, f"Host: {host}")[0] == 200
    for host in ("b.example", "c.example", "d.example", "localhost:8080"):
        assert asked(mounts, f"Host: {host}")[0] == 421


def test_loopback_names_are_loopbacks() -> None:
    """Not of an address that others reach; of a socket in the file system without a port."""
    mounts = Mounts([mounted(Named("a"))])
    assert asked(mounts, "Host: localhost:8080", at=ABROAD)[0] == 421
    assert asked(mounts, "Host: localhost", at=UNIXAddress("/run/x"))[0] == 200
    assert asked(mounts, "Host: evil.example", at=UNIXAddress("/run/x"))[0] == 421


ELSEWHERE = "Sec-Fetch-Site: cross-site"
LINK = (ELSEWHERE, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


@each_row(
    ("lines", "method", "service", "page"),
    [
        ((), "POST", 200, 200),
        (("Sec-Fetch-Site: none",), "GET", 200, 200),
        (("Origin: http://localhost:8080",), "POST", 403, 200),
        (("Origin: http://localhost:8080", "Sec-Fetch-Site: same-origin"), "POST", 403, 200),
        (("Sec-Fetch-Site: same-origin",), "GET", 403, 200),
        (("Origin: https://partner.example", ELSEWHERE), "POST", 200, 200),
        (("Origin: https://localhost:8080",), "POST", 403, 403),
        (("Origin: http://localhost:8081", "Sec-Fetch-Site: same-site"), "POST", 403, 403),
        (("Origin: null", ELSEWHERE), "POST", 403, 403),
        (("Origin: https://evil.example", ELSEWHERE), "POST", 403, 403),
        (("Origin: https://evil.example", *LINK), "POST", 403, 403),
        ((ELSEWHERE,), "GET", 403, 403),
        (("Sec-Fetch-Site: same-site",), "GET", 403, 403),
        (("Sec-Fetch-Site: else",), "GET", 403, 403),
        (LINK, "GET", 403, 200),
        (LINK, "POST", 403, 403),
        ((ELSEWHERE, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"), "GET", 403, 403),
        ((ELSEWHERE, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: document"), "GET", 403, 403),
    ],
)
def test_pages_elsewhere_are_refused(lines: tuple[str, ...], method: str, service: int, page: int) -> None:
    """A surface of machines takes nothing of browsers; one of pages takes its own, and a link to it."""
    for pages, status in ((False, service), (True, page)):
        named = Named("a")
        mounts = Mounts([mounted(named, pages=pages, origins=frozenset({"https://partner.example"}))])
        assert asked(mounts, "Host: localhost:8080", *lines, method=method)[0] == status
        assert named.asked == (status == 200)


@each_row(
    ("lines", "status"),
    [
        (("Host: localhost:8080",), 400),
        (("Origin: http://a", "Origin: http://a"), 400),
        (("Authorization: Bearer a", "authorization: Bearer b"), 400),
        (("Content-Type: application/json", "Content-Type: text/plain"), 400),
        (("Content-Encoding: gzip",), 415),
        (("Expect: the-unexpected",), 417),
        (("X-Twice: 1", "X-Twice: 2"), 200),
    ],
)
def test_fields_that_decide_stand_once(lines: tuple[str, ...], status: int) -> None:
    """And a body is as it was made."""
    mounts = Mounts([mounted(Named("a"))])
    assert asked(mounts, "Host: localhost:8080", *lines)[0] == status
    assert asked(mounts, "Host: localhost:8080", *lines, "Content-Length: 1", method="POST", body="a")[0] == status


@pytest.mark.parametrize("target", ["http://localhost:8080/", "localhost:8080", "*"])
def test_this_is_no_proxy(target: str) -> None:
    """The target begins with a slash."""
    assert asked(Mounts([mounted(Named("a"))]), "Host: localhost:8080", path=target)[0] == 400


def test_a_line_tells_of_each_request() -> None:
    """Surface, status and time; neither the query nor a field; those refused before any surface too."""
    told: list[Any] = []
    mounts = Mounts([mounted(Named("a"), "/a")])
    asked(mounts, "Host: localhost:8080", "Cookie: secret", path="/a?secret=1", access=told.append)
    asked(mounts, "Host: evil.example", path="/a", access=told.append)
    asked(mounts, "Host: localhost:8080", path="/b" * 1000, access=told.append)
    asked(mounts, "bad field", access=told.append)
    assert [(line["surface"], line["status"]) for line in told] == [("test", 200), ("test", 421), ("", 404), ("", 400)]
    assert told[0] == {
        "kind": "http",
        "surface": "test",
        "address": "unix",
        "method": "GET",
        "path": "/a",
        "status": 200,
        "ms": 0.0,
    }
    assert len(told[2]["path"]) == 256


def test_a_line_tells_of_who_left() -> None:
    """Status 0: no answer was written."""
    told: list[Any] = []
    channel: Any = HttpFactory(Mounts([mounted(Named("a"))]), HTTP_LIMITS, Clock(), told.append).buildProtocol(None)
    channel.makeConnection(Wire(hostAddress=HERE))
    channel.dataReceived(b"POST / HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 10\r\n\r\nabc")
    channel.connectionLost(None)
    assert [line["status"] for line in told] == [0]


@each_row("idle", [0.0, 1.0, 30.0])
def test_draining_cuts_an_idle_client_when_its_answer_has_arrived(idle: float) -> None:
    """A pool of connections that nobody looks at does not hold up the stop."""
    clock, wire = Clock(), Wire(hostAddress=HERE)
    channel: Any = HttpFactory(Mounts([mounted(Named("a"))]), HTTP_LIMITS, clock).buildProtocol(None)
    channel.makeConnection(wire)
    channel.dataReceived(b"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
    clock.advance(0)
    assert wire.value().startswith(b"HTTP/1.1 200")
    clock.advance(idle)
    channel.drain()
    clock.advance(max(ABORT_AFTER - idle, FAREWELL) - 0.01)
    channel.sweep(clock.seconds())
    assert not wire.cut
    clock.advance(0.02)
    channel.sweep(clock.seconds())
    assert wire.cut


def test_a_name_that_is_not_answered_is_said_with_the_key_that_lists_names() -> None:
    """Behind a proxy, clients send the proxy's name: the refusal repeats it, bounded, and names section and key."""
    mounts = Mounts([mounted(Named("a"), section="gateway", hosts=frozenset({"inside.example.com"}))])
    status, body = asked(mounts, "Host: api.example.com")
    assert status == 421 and "'api.example.com'" in body and "key hosts of [gateway]" in body
    status, body = asked(mounts, f"Host: {'x' * 500}<script>")
    assert status == 421 and len(body) < 1_000 and "<script>" not in body


def test_a_refusal_over_http_has_a_remedy_for_http() -> None:
    """The remedies of the reasons are for AGTP: an HTTP client reads what helps with the path, Expect or its body."""
    host, mounts = "Host: localhost:8080", Mounts([mounted(Named("a"), "/a")])
    assert "Check the path." in asked(mounts, host, path="/b")[1]
    assert "Leave Expect out." in asked(mounts, host, "Expect: the-unexpected", path="/a")[1]
    status, body = asked(mounts, host, "Content-Length: 2000", path="/a", method="POST")
    assert status == 413 and "Send a smaller body." in body and "[limits]" not in body
