"""
QUIC: one request on each stream, certificates as on TLS, and what a client may not do.

The drafts leave the error codes of streams to implementations, so only those of QUIC itself are compared.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import PROBE, QUIET
from agtphost.conformance.link import RECEIVE, RawAnswer
from agtphost.conformance.request_bytes import request
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Failure, Inapplicable, Need, expect

if TYPE_CHECKING:
    from aioquic.tls import SessionTicket

    from agtphost.conformance.quic.link import QuicChannel

CASES = Cases("quic")

ALERT = 0x100
"""QUIC's code for an alert of TLS, which is added to it (RFC 9001 section 4.8)."""

NO_APPLICATION_PROTOCOL, CERTIFICATE_REQUIRED = 120, 116
STREAM_LIMIT_ERROR, PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR = 0x04, 0x0A, 0x07
CANCELLED = 0x03
INTERIM = 202
STREAM_FRAME, DATAGRAM_FRAME = 0x0A, 0x30
UNKNOWN_VERSION = 0x1A2A3A4A
"""A version that is reserved for exercising version negotiation (RFC 9000 section 15)."""

LEAST_INITIAL = 1200
NARROW = 200
"""Bytes of an answer that a client admits which opens no window."""

BODY = b'{"conformance_unknown":1}'

TICKET_SECRET = bytes(range(32))
"""The secret of the session ticket that the runner invents."""


def _open(target: Target, who: Role = Role.ANONYMOUS, *, early: bytes = b"", **changes: Any) -> QuicChannel:
    """Return a connection whose handshake has begun."""
    from agtphost.conformance.quic.link import QuicChannel, client_configuration

    access = target.access
    configuration = client_configuration(access.where, access.trust, target.credentials(who))
    return QuicChannel(access.where, replace(configuration, **changes), access.timeout, early=early)


@contextmanager
def _channel(target: Target, who: Role = Role.ANONYMOUS, **changes: Any) -> Iterator[QuicChannel]:
    """Yield a connection."""
    with _open(target, who, **changes) as channel:
        channel.shake_hands()
        yield channel


def _answer(channel: QuicChannel, number: int) -> RawAnswer:
    """Return the answer on a stream."""
    from agtphost.conformance.quic.link import QuicLink

    answer = QuicLink(channel, number).answer()
    if answer is None:
        raise Failure(f"stream {number} ended without an answer; the connection: {channel.describe_end()}")
    return answer


def _task(target: Target, name: str, body: object = None) -> bytes:
    """Return a request with a Task-ID that identifies its answer."""
    method = "DISCOVER" if body is None else "QUERY"
    return target.introduce(request(method, "/agents", body, fields=[("Task-ID", name)]))


def _require_served(target: Target, channel: QuicChannel) -> None:
    """Require that a connection still serves a request."""
    answer = _answer(channel, channel.ask(target.introduce(PROBE)))
    expect(answer.status != 400, f"the next request of the connection is answered {answer}")


def _require_neighbour(target: Target) -> None:
    """Require that another connection is served."""
    with _channel(target) as channel:
        _require_served(target, channel)


def _require_close(channel: QuicChannel, *codes: int) -> None:
    """Require that the target closes a connection with one of QUIC's codes."""
    channel.wait(lambda: channel.closed, channel.timeout)
    closed = channel.closed
    named = " or ".join(f"{code:#x}" for code in codes)
    is_right = closed is not None and closed.frame_type is not None and closed.error_code in codes
    expect(is_right, f"expected a close with the transport code {named}: {channel.describe_end()}")


# The handshake


@CASES.case("no-common-alpn", "AGTP-336", Need.QUIC)
def refuse_protocol(target: Target) -> None:
    """Require that a client that offers no protocol of AGTP is refused by the alert no_application_protocol."""
    with _open(target, alpn_protocols=["h3"]) as channel:
        _require_close(channel, ALERT + NO_APPLICATION_PROTOCOL)


@CASES.case("no-certificate", "AGTP-336 AGTP-008", Need.QUIC)
def check_without_certificate(target: Target) -> None:
    """Require that a client without certificate is served, or refused by the alert certificate_required."""
    with _open(target) as channel:
        number = channel.ask(target.introduce(PROBE))
        channel.wait(lambda: channel.streams[number].has_ended, channel.timeout)
        if not channel.streams[number].buffer:
            _require_close(channel, ALERT + CERTIFICATE_REQUIRED)


@CASES.case("unknown-client-authority", "AGTP-336 AGTP-008", Need.QUIC)
def refuse_certificate(target: Target) -> None:
    """Require that an alert refuses a client certificate of an unknown authority, and that no answer follows."""
    certificate, key = _make_certificate()
    with _open(target, certificate=certificate, private_key=key) as channel:
        channel.wait(lambda: channel.is_ready, channel.timeout)
        number = channel.ask(target.introduce(PROBE))
        _require_close(channel, *range(ALERT, ALERT + 0x100))
        expect(not channel.streams[number].buffer, "a request with a refused certificate is answered")


def _make_certificate() -> tuple[Any, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "conformance")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return builder.sign(key, hashes.SHA256()), key


@CASES.case("early-data", "AGTP-336", Need.QUIC)
def refuse_early_data(target: Target) -> None:
    """Require that early data with an invented ticket is not accepted, and that the connection serves."""
    with _channel(target) as channel:
        ticket = make_ticket(channel)
    with _channel(target, session_ticket=ticket, early=target.introduce(PROBE)) as channel:
        ended = channel.handshake
        expect(ended is not None and not ended.early_data_accepted, "the early data is accepted")
        expect(ended is not None and not ended.session_resumed, "a session is resumed that never was")
        _require_served(target, channel)


def make_ticket(channel: QuicChannel) -> SessionTicket:
    """Return an invented session ticket with the transport parameters of a connection."""
    from aioquic.tls import SessionTicket

    schedule = channel.core.tls.key_schedule
    assert schedule is not None, "the handshake is over"
    now = datetime.now(UTC)
    return SessionTicket(
        age_add=0,
        cipher_suite=schedule.cipher_suite,
        not_valid_after=now + timedelta(hours=1),
        not_valid_before=now - timedelta(seconds=1),
        resumption_secret=TICKET_SECRET,
        server_name=str(channel.core.configuration.server_name),
        ticket=b"conformance",
        max_early_data_size=0xFFFFFFFF,
        other_extensions=list(channel.core.tls.received_extensions or ()),
    )


@CASES.case("unknown-version", "AGTP-336", Need.QUIC)
def negotiate_version(target: Target) -> None:
    """Require that a first datagram of another version is answered by the known versions, unless it is too short."""
    own, other = os.urandom(8), os.urandom(8)
    start = b"\xc0" + UNKNOWN_VERSION.to_bytes(4, "big") + b"\x08" + other + b"\x08" + own
    expect(not _exchange(target, start.ljust(LEAST_INITIAL - 1, b"\0"), QUIET), "a short one is answered")
    answer = _exchange(target, start.ljust(LEAST_INITIAL, b"\0"), target.access.timeout)
    names = answer[1:5] == bytes(4) and answer[5:23] == b"\x08" + own + b"\x08" + other
    versions = [answer[at : at + 4] for at in range(23, len(answer), 4)]
    expect(names and bytes((0, 0, 0, 1)) in versions, f"the answer does not offer version 1: {answer[:40].hex()}")


def _exchange(target: Target, datagram: bytes, seconds: float) -> bytes:
    """Send a datagram, and return the one that answers it; empty: there is none in time."""
    where = target.access.where
    family, kind, protocol, _, address = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as opened, suppress(TimeoutError):
        opened.connect(address)
        opened.settimeout(seconds)
        opened.send(datagram)
        return opened.recv(RECEIVE)
    return b""


# Streams


@CASES.case("without-end", "AGTP-336", Need.QUIC)
def check_without_end(target: Target) -> None:
    """Require that a request is answered when it is complete, whether or not its stream ends."""
    with _channel(target) as channel:
        number = channel.ask(target.introduce(PROBE), ends=False)
        expect(_answer(channel, number).status != 400, "it is refused")
        channel.wait(lambda: channel.streams[number].has_ended, channel.timeout)
        expect(
            channel.streams[number].has_ended and channel.streams[number].reset is None,
            "the answer's stream stays open",
        )


@CASES.case("second-request", "AGTP-336", Need.QUIC)
def refuse_second(target: Target) -> None:
    """Require that a second request of a stream is not answered, and the first is."""
    _require_one_answer(target, _task(target, "first"), _task(target, "second"))


@CASES.case("body-beyond-length", "AGTP-336 AGTP-012", Need.QUIC)
def refuse_long_body(target: Target) -> None:
    """Require that bytes beyond the announced length are refused by STOP_SENDING, and the request is answered."""
    _require_one_answer(target, _task(target, "first", BODY), b"x" * 64)


def _require_one_answer(target: Target, first: bytes, more: bytes) -> None:
    with _channel(target) as channel:
        number = channel.ask(first + more, ends=False)
        answer = _answer(channel, number)
        expect(answer.header("Task-ID") == "first", f"the request is answered {answer}, Task-ID {answer.headers}")
        stream = channel.streams[number]
        channel.wait(lambda: stream.has_ended and stream.stopped is not None, channel.timeout)
        expect(not stream.buffer, f"more is sent than an answer: {bytes(stream.buffer[:40])!r}")
        expect(stream.has_ended and stream.stopped is not None, "the client is not asked to stop")
        _require_served(target, channel)


@CASES.case("end-within-request", "AGTP-336 AGTP-013", Need.QUIC)
def refuse_truncated(target: Target) -> None:
    """Require that a stream that ends within a request is answered 400, and the connection serves."""
    for octets in (target.introduce(PROBE)[:-4], _task(target, "cut", BODY)[:-3]):
        with _channel(target) as channel:
            answer = _answer(channel, channel.ask(octets))
            expect(answer.status == 400, f"expected 400, got {answer}", answer.refusal)
            _require_served(target, channel)


@CASES.case("unidirectional-stream", "AGTP-336", Need.QUIC)
def refuse_unidirectional(target: Target) -> None:
    """Require that a unidirectional stream of a client closes the connection by STREAM_LIMIT_ERROR."""
    with _channel(target) as channel:
        channel.send_frame(STREAM_FRAME, 2, 1, octets=b"x")
        _require_close(channel, STREAM_LIMIT_ERROR)


@CASES.case("one-stream-too-many", "AGTP-336", Need.QUIC)
def refuse_stream(target: Target) -> None:
    """Require that a request beyond the announced number of streams closes the connection by STREAM_LIMIT_ERROR."""
    with _channel(target) as channel:
        expect(0 < channel.most_streams <= 1 << 16, f"{channel.most_streams} requests may be made at a time")
        channel.send_frame(STREAM_FRAME, 4 * channel.most_streams, 1, octets=b"A")
        _require_close(channel, STREAM_LIMIT_ERROR)
    _require_neighbour(target)


@CASES.case("datagram-frame", "AGTP-336", Need.QUIC)
def refuse_datagram(target: Target) -> None:
    """Require that a DATAGRAM frame, which the target did not announce, closes the connection."""
    with _channel(target) as channel:
        channel.send_frame(DATAGRAM_FRAME, octets=b"conformance")
        _require_close(channel, PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR)
    _require_neighbour(target)


# Several requests


@CASES.case("concurrent-requests", "AGTP-336", Need.QUIC)
def check_concurrency(target: Target) -> None:
    """Require that a request is answered on its own stream, also while another of the connection is incomplete."""
    slow = _task(target, "slow", BODY)
    with _channel(target) as channel:
        first = channel.ask(slow[:-5], ends=False)
        found = _answer(channel, channel.ask(_task(target, "quick"))).header("Task-ID")
        expect(found == "quick", f"the answer of the second stream is that of {found}")
        expect(not channel.streams[first].buffer, "the incomplete request is answered")
        channel.send(first, slow[-5:], ends=True)
        found = _answer(channel, first).header("Task-ID")
        expect(found == "slow", f"the answer of the first stream is that of {found}")


@CASES.case("interim-answers", "AGTP-336", Need.QUIC, Need.CERTIFICATE, Need.ENDPOINT)
def check_interim(target: Target) -> None:
    """Require that interim answers come on the stream of their request, before its final answer."""
    with _channel(target, Role.AGENT) as channel:
        for endpoint in target.admitted_endpoints:
            path, parameters = endpoint.address(endpoint.input or {})
            body = {"method": endpoint.method, "parameters": parameters, "context": {"stream": True}}
            octets = [_as_agent(target, endpoint.method, path, body, name) for name in ("one", "two")]
            numbers = [channel.ask(each) for each in octets]
            answers = [_all_answers(channel, number) for number in numbers]
            if any(len(each) > 1 for each in answers):
                found = [{answer.header("Task-ID") for answer in each} for each in answers]
                expect(found == [{"one"}, {"two"}], f"the streams have answers of {found}")
                ends = [[answer.status == INTERIM for answer in each] for each in answers]
                is_whole = all(each and all(each[:-1]) and not each[-1] for each in ends)
                expect(is_whole and len(ends[0]) == len(ends[1]), f"one stream has {ends[0]} and the other {ends[1]}")
                return
    raise Inapplicable("an endpoint that sends interim answers for its sample input")


def _as_agent(target: Target, method: str, path: str, body: object, task: str) -> bytes:
    return request(method, path, body, fields=[("Agent-ID", target.agent_id), ("Task-ID", task)])


def _all_answers(channel: QuicChannel, number: int) -> list[RawAnswer]:
    """Return every answer on a stream, interim ones first."""
    from agtphost.conformance.quic.link import QuicLink

    link, found = QuicLink(channel, number), []
    while (answer := link.answer()) is not None:
        found.append(answer)
    return found


@CASES.case("cancelled-request", "AGTP-336", Need.QUIC)
def check_cancellation(target: Target) -> None:
    """Require that STOP_SENDING and RESET_STREAM on a request end it alone: it gets no answer, and the others do."""
    octets = _task(target, "cancelled", BODY)
    with _channel(target) as channel:
        cancelled = channel.ask(octets[:-5], ends=False)
        other = channel.ask(_task(target, "other"))
        channel.core.stop_stream(cancelled, CANCELLED)
        channel.core.reset_stream(cancelled, CANCELLED)
        found = _answer(channel, other).header("Task-ID")
        expect(found == "other", f"the answer of the other stream is that of {found}")
        channel.wait(lambda: channel.streams[cancelled].has_ended, channel.timeout)
        expect(not channel.streams[cancelled].buffer, "a cancelled request is answered")
        expect(channel.streams[cancelled].has_ended, "the stream of a cancelled request stays open")
        _require_served(target, channel)


@CASES.case("supported-methods", "AGTP-336 AGTP-053", Need.QUIC)
def check_methods(target: Target) -> None:
    """Require that Supported-Methods is on one of the first answers of a connection."""
    with _channel(target) as channel:
        numbers = [channel.ask(_task(target, f"first-{number}")) for number in range(3)]
        answers = [_answer(channel, number) for number in numbers]
    expect(any(answer.header("Supported-Methods") for answer in answers), "none of three has it")


# The client


@CASES.case("new-port", "AGTP-336", Need.QUIC)
def check_moving(target: Target) -> None:
    """Require that a client whose port changes while a request is incomplete is answered at the new one."""
    octets = _task(target, "moved", BODY)
    with _channel(target) as channel:
        number = channel.ask(octets[:-5], ends=False)
        channel.wait(lambda: False, QUIET)
        channel.move()
        channel.send(number, octets[-5:], ends=True)
        found = _answer(channel, number).header("Task-ID")
        expect(found == "moved", f"the answer is that of {found}")
        _require_served(target, channel)


@CASES.case("no-window", "AGTP-336", Need.QUIC)
def check_window(target: Target) -> None:
    """Require that a client that opens no window gets what it admits, later the rest, and doesn't hold up others."""
    whole = target.introduce(request("DISCOVER", "/methods"))
    with _channel(target) as channel:
        expected = _answer(channel, channel.ask(whole))
    with _channel(target, max_stream_data=NARROW) as channel:
        channel.hold_windows()
        number = channel.ask(whole)
        stream = channel.streams[number]
        channel.wait(lambda: len(stream.buffer) >= NARROW, channel.timeout)
        _require_neighbour(target)
        channel.wait(lambda: len(stream.buffer) > NARROW or channel.closed, QUIET)
        expect(channel.closed is None and len(stream.buffer) == NARROW, f"{len(stream.buffer)} bytes of {NARROW}")
        channel.release_windows()
        answer = _answer(channel, number)
    expect(len(answer.body) == len(expected.body), f"{len(answer.body)} bytes of {len(expected.body)}")
