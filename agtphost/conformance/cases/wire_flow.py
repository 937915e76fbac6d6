"""Connections over time: core v08 sections 5.4 and 5.4.1."""

from __future__ import annotations

import time

from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import PROBE, QUIET, accepts, probe
from agtphost.conformance.link import Link, RawAnswer
from agtphost.conformance.request_bytes import request
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Failure, Need, expect

CASES = Cases("wire")

BODY = b'{"conformance_unknown":1}'


def _task(target: Target, name: str, method: str = "DISCOVER", path: str = "/agents") -> bytes:
    """Return a request with a Task-ID that identifies its answer."""
    return target.introduce(request(method, path, fields=[("Task-ID", name)]))


def _number_requests(target: Target, count: int) -> list[bytes]:
    return [_task(target, f"order-{number}") for number in range(count)]


def _next(link: Link) -> RawAnswer:
    answer = link.answer()
    if answer is None:
        raise Failure("the connection was closed instead of answering")
    return answer


@CASES.case("three-on-one-connection", "AGTP-009")
def sequential(target: Target) -> None:
    """Requests one after the other are answered on one connection, which stays."""
    with target.link() as link:
        for octets in _number_requests(target, 3):
            link.send(octets)
            expect(_next(link).status != 400, "a plain request is refused")
        expect(link.quiet(QUIET), "the connection does not stay open, or more is sent than answers")


@CASES.case("pipelined-in-order", "AGTP-013 AGTP-009", Need.BYTE_STREAM)
def check_pipelining(target: Target) -> None:
    """Requests sent together are answered in their order."""
    with target.link() as link:
        link.send(b"".join(_number_requests(target, 12)))
        got = [_next(link).header("Task-ID") for _ in range(12)]
    expect(got == [f"order-{number}" for number in range(12)], f"the answers came as {', '.join(map(str, got))}")


@CASES.case("pipelined-mixed", "AGTP-013 AGTP-009", Need.BYTE_STREAM)
def pipelined_mixed(target: Target) -> None:
    """A refusal among requests sent together keeps its place."""
    octets = b"".join(
        [
            _task(target, "a"),
            _task(target, "b", "FROBNICATE", "/"),
            _task(target, "c"),
        ]
    )
    with target.link() as link:
        link.send(octets)
        got = [(answer.header("Task-ID"), answer.status == 459) for answer in (_next(link) for _ in range(3))]
    expect(got == [("a", False), ("b", True), ("c", False)], f"the answers came as {got}")


@CASES.case("one-octet-at-a-time", "AGTP-013")
def check_byte_by_byte(target: Target) -> None:
    """A request that arrives byte by byte is read like any other."""
    with target.link() as link:
        for octet in target.introduce(PROBE):
            link.send(bytes([octet]))
        expect(_next(link).status != 400, "it is refused")


@CASES.case("split-in-crlf", "AGTP-013")
def split_ending(target: Target) -> None:
    """A CRLF may arrive in two pieces."""
    with target.link() as link:
        octets = target.introduce(PROBE)
        for piece in (octets[:26], octets[26:-3], octets[-3:-1], octets[-1:]):
            link.send(piece)
            time.sleep(0.01)
        expect(_next(link).status != 400, "it is refused")


@CASES.case("not-earlier", "AGTP-013 AGTP-012")
def not_earlier(target: Target) -> None:
    """No answer is sent before the last byte of the body has arrived."""
    octets = target.introduce(request("QUERY", "/agents", BODY))
    with target.link() as link:
        link.send(octets[:-1])
        expect(link.quiet(QUIET), "it is answered before its body is complete")
        link.send(octets[-1:])
        _next(link)


@CASES.case("head-not-earlier", "AGTP-013")
def head_not_earlier(target: Target) -> None:
    """No answer is sent before the empty line has arrived."""
    with target.link() as link:
        octets = target.introduce(PROBE)
        link.send(octets[:-2])
        expect(link.quiet(QUIET), "it is answered before its head is complete")
        link.send(octets[-2:])
        _next(link)


@CASES.case("not-later", "AGTP-013", Need.BYTE_STREAM)
def not_later(target: Target) -> None:
    """Bytes after a body of the announced length are the next request."""
    octets = target.introduce(request("QUERY", "/agents", BODY)) + _task(target, "second")
    with target.link() as link:
        link.send(octets)
        _next(link)
        expect(_next(link).header("Task-ID") == "second", "the second request was not read as one")


@CASES.case("body-is-not-a-request", "AGTP-013")
def body_is_no_request(target: Target) -> None:
    """A body that looks like a request is never answered as one."""
    octets = target.introduce(request("QUERY", "/agents", PROBE))
    with target.link() as link:
        link.send(octets)
        _next(link)
        expect(link.quiet(QUIET) or (link.has_ended and not link.buffer), "the body was answered, too")


@CASES.case("short-body-is-not-a-request", "AGTP-013 AGTP-012", Need.BYTE_STREAM)
def excess_body(target: Target) -> None:
    """Bytes beyond the announced length are read as the next request, and refused as such."""
    with target.link() as link:
        good = b"AGTP/1.0 QUERY /agents\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        link.send(target.introduce(good) + b"garbage\r\n\r\n")
        _next(link)
        expect(_next(link).status == 400, "the octets after the body are not refused")
        expect(link.closes(), "the connection stays open after a framing error")


@CASES.case("nothing-after-answer", "AGTP-013")
def nothing_after(target: Target) -> None:
    """No bytes follow an answer until the next request."""
    with target.link() as link:
        link.send(target.introduce(PROBE))
        _next(link)
        expect(link.quiet(QUIET), "more octets follow the answer, or the connection is closed")


@CASES.case("open-write-side", "AGTP-014")
def open_side(target: Target) -> None:
    """A client that keeps its side open is answered."""
    probe(target)


@CASES.case("answered-before-close", "AGTP-013 AGTP-009", Need.BYTE_STREAM)
def refusal_answered_first(target: Target) -> None:
    """Good requests before a malformed one are answered first."""
    with target.link() as link:
        link.send(target.introduce(PROBE) + b"garbage\r\n\r\n" + PROBE)
        expect(_next(link).status != 400, "the good request is refused")
        expect(_next(link).status == 400, "the malformed request is not refused by 400")
        expect(link.closes(), "the connection stays open after a framing error")


@CASES.case("half-a-request", "AGTP-013")
def half_request(target: Target) -> None:
    """A client that disconnects within a request does not affect others."""
    with target.link() as link:
        link.send(PROBE[:20])
    probe(target)


@CASES.case("half-a-body", "AGTP-013")
def half_body(target: Target) -> None:
    """A client that disconnects within a body does not affect others."""
    with target.link() as link:
        link.send(request("QUERY", "/agents", BODY)[:-4])
    probe(target)


@CASES.case("connection-without-request", "AGTP-009 AGTP-010")
def silent(target: Target) -> None:
    """A connection without a request stays open for a while, and the server sends nothing."""
    with target.link() as link:
        expect(link.quiet(QUIET), "the server sends first, or closes the connection")
        link.send(target.introduce(PROBE))
        _next(link)


@CASES.case("stays-after-refusals", "AGTP-009")
def stays(target: Target) -> None:
    """Refusals that are not about framing leave the connection open."""
    for octets in (request("FROBNICATE", "/"), request("QUERY", "/book/room"), request("QUERY", "/conformance/none")):
        accepts(target, octets)


@CASES.case("many-connections", "AGTP-001")
def many(target: Target) -> None:
    """Twenty simultaneous connections are served."""
    links = [target.link() for _ in range(20)]
    try:
        for link in links:
            link.send(target.introduce(PROBE))
        expect(all(_next(link).status != 400 for link in links), "some are refused")
    finally:
        for link in links:
            link.close()


@CASES.case("interleaved-connections", "AGTP-013")
def check_interleaving(target: Target) -> None:
    """A connection that waits for the rest of a body holds up no other."""
    octets = target.introduce(request("QUERY", "/agents", BODY))
    with target.link() as slow:
        slow.send(octets[:-5])
        probe(target)
        slow.send(octets[-5:])
        _next(slow)


@CASES.case("large-body", "AGTP-012 AGTP-013")
def large_body(target: Target) -> None:
    """A body of 200 KiB is read to its end, or refused by its length."""
    octets = target.introduce(request("QUERY", "/agents", b'{"conformance_unknown":"' + b"x" * 204_800 + b'"}'))
    with target.link() as link:
        link.send(octets)
        answer = _next(link)
        expect(answer.status < 500, f"it is answered {answer}")
