"""Shared checks of the wire modules, with raw bytes."""

from __future__ import annotations

from agtphost.conformance.link import RawAnswer
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Failure, expect

PROBE = b"AGTP/1.0 DISCOVER /agents\r\nContent-Length: 0\r\n\r\n"
"""A request that every server answers briefly."""

QUIET = 0.12
"""Seconds to wait for unexpected output of a server."""


def probe(target: Target) -> RawAnswer:
    """Return the answer to :data:`PROBE` on a new connection."""
    with target.link() as link:
        octets = target.introduce(PROBE)
        link.send(octets)
        answer = link.answer(octets)
    if answer is None:
        raise Failure("the connection was closed instead of answering a plain DISCOVER")
    expect(answer.status != 400, f"a plain DISCOVER is answered {answer}")
    return target.note(answer)


def refuses(target: Target, octets: bytes) -> RawAnswer:
    """
    Require that malformed bytes are answered by one 400, after which the connection ends; over QUIC, the stream.

    A well-formed request follows them. It must never be answered, because the framing is lost.
    """
    with target.link() as link:
        link.send(target.introduce(octets) + PROBE)
        answer = link.answer()
        if answer is None:
            raise Failure("the connection was closed without a 400")
        expect(answer.status == 400, f"expected 400, got {answer}", answer.refusal)
        expect(link.closes(), "the connection is not closed after a 400, or more was sent on it")
    return target.note(answer)


def accepts(target: Target, octets: bytes) -> RawAnswer:
    """Require that bytes are accepted as one request, and that the connection stays open for the next."""
    with target.link() as link:
        octets = target.introduce(octets)
        link.send(octets)
        answer = link.answer(octets)
        if answer is None:
            raise Failure("the connection was closed instead of answering")
        expect(answer.status != 400, f"expected anything but 400, got {answer}", answer.refusal)
        link.send(target.introduce(PROBE))
        second = link.answer(PROBE)
        expect(second is not None and second.status != 400, f"the next request is answered {second}")
    return target.note(answer)
