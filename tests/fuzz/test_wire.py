"""Fuzzing the wire: T-WF, T-HI, P3 and P4 of the test programme. ``AGTP_FUZZ_SEED`` says where the inputs start."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.errors import LocalProtocolError, RemoteProtocolError
from agtphost.wire import (
    Connection,
    Headers,
    Request,
    Response,
    Role,
    grammar,
    serialize_request,
    serialize_response,
)
from agtphost.wire.heads import Heads
from tests.fuzz.wire_target import CORPUS, RESPONSES, check, inputs, read_alike
from tests.programmes import length
from tests.rows import each_row
from tests.wire.cases import CASES
from tests.wire.deliveries import connect, deliver, event

EXECUTIONS = length(15_000, 1_000_000)
"""Mutated inputs of each test."""

SEED = int(os.environ.get("AGTP_FUZZ_SEED", "1"))

TOKEN = st.text("!$%&'*+-.^_`|~09AZaz", min_size=1, max_size=64)
PCHARS = "-._~!$&'()*+,;=:@09AZaz/"
ESCAPES = st.sampled_from(["%20", "%2F", "%00", "%ff"])
QUERY = st.lists(st.one_of(st.text(PCHARS + "?", min_size=1, max_size=8), ESCAPES), max_size=4).map("".join)
PATH = (
    st.lists(st.one_of(st.text(PCHARS, min_size=1, max_size=8), ESCAPES), max_size=4)
    .map(lambda parts: "/" + "".join(parts).lstrip("/"))
)  # fmt: skip
VALUE = st.text([chr(octet) for octet in (9, *range(32, 127))], max_size=40).map(lambda text: text.strip(" \t"))
FIELDS = st.lists(st.tuples(TOKEN.map(lambda name: f"X-{name}"), VALUE), max_size=8)
ANYTHING = st.text(st.characters(codec=None), max_size=12)


def with_type(fields: list[tuple[str, str]], body: bytes) -> Headers:
    """Fields, and a Content-Type where there is a body."""
    return Headers([*fields, ("Content-Type", "text/plain")] if body else fields)


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_mutated_requests() -> None:
    """P3: for a server: no foreign exception, no hang, cutting changes nothing, what is read can be sent."""
    for number, octets, random in inputs(SEED, EXECUTIONS, CORPUS):
        try:
            check(octets, random)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, input {number}: {octets!r}") from error


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_mutated_responses() -> None:
    """P3: the same for a client."""
    for number, octets, random in inputs(SEED, EXECUTIONS // 10, RESPONSES):
        try:
            check(octets, random, "client")
        except Exception as error:
            raise AssertionError(f"seed {SEED}, input {number}: {octets!r}") from error


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_parser_agrees_with_the_second_reading() -> None:
    """P4: an independent parser reads every mutated input alike."""
    for number, octets, _ in inputs(SEED + 1, EXECUTIONS, CORPUS):
        assert read_alike(octets), f"seed {SEED + 1}, input {number}: {octets!r}"


@each_row("case", [case for case in CASES if case.role == "server" and not case.strict], ids=lambda case: case.id)
def test_the_second_reading_agrees_with_the_table(case: object) -> None:
    """P4: the second reading reads the named cases as the table says, the large ones too."""
    assert read_alike(case.octets)  # type: ignore[attr-defined]


def found_within(executions: int, **loosened: object) -> bool:
    """Whether the differential test notices a loosened second_reading."""
    return any(not read_alike(octets, **loosened) for _, octets, _ in inputs(SEED + 1, executions, CORPUS))  # type: ignore[arg-type]


def loose_length(value: bytes) -> int:
    """Content-Length as int() takes it."""
    from tests.wire.second_reading import Illegal

    try:
        return max(0, int(value.decode()))
    except ValueError as error:
        raise Illegal from error


def test_control_a_loosened_second_reading_is_noticed() -> None:
    """P4's control: a second reading that takes int()'s Content-Length disagrees soon."""
    assert found_within(10_000, length_of=loose_length)


def test_control_a_seeded_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3's control: a parser that raises ValueError for odd lengths is found within 10,000 inputs."""
    monkeypatch.setattr(grammar, "parse_content_length", int)
    with pytest.raises((ValueError, AssertionError)):
        for _, octets, random in inputs(SEED, 10_000, CORPUS):
            check(octets, random)


def test_control_a_parser_that_depends_on_portions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3's control: a connection that drops white space at the start of a portion is found."""
    receive = Connection.receive
    monkeypatch.setattr(Connection, "receive", lambda self, octets: receive(self, octets.lstrip(b" ") or b" "))
    with pytest.raises(AssertionError):
        for _, octets, random in inputs(SEED, 10_000, CORPUS):
            check(octets, random)


@pytest.mark.programme
@settings(max_examples=length(150, 6000), deadline=None)
@given(TOKEN, PATH, st.none() | QUERY, FIELDS, st.binary(max_size=64))
def test_legal_requests_survive(
    method: str, path: str, query: str | None, fields: list[tuple[str, str]], body: bytes
) -> None:
    """T-HI: every request that follows the grammar is sent and read unchanged."""
    request = Request(method=method, path=path, query=query, headers=with_type(fields, body), body=body)
    outcome = deliver(connect("server"), [serialize_request(request)])
    assert [event(message) for message in outcome.messages] == [request]


@pytest.mark.programme
@settings(max_examples=length(150, 6000), deadline=None)
@given(
    st.integers(100, 999),
    st.text([chr(n) for n in range(32, 127)], min_size=1, max_size=30),
    FIELDS,
    st.binary(max_size=64),
)
def test_legal_responses_survive(status: int, text: str, fields: list[tuple[str, str]], body: bytes) -> None:
    """T-HI: the same for responses."""
    body = b"" if status == 204 else body
    response = Response(status=status, text=text, headers=with_type(fields, body), body=body)
    outcome = deliver(connect("client"), [serialize_response(response)])
    assert [event(message) for message in outcome.messages] == [response]


@pytest.mark.programme
@settings(max_examples=length(250, 10000), deadline=None)
@given(ANYTHING, ANYTHING, st.lists(st.tuples(ANYTHING, ANYTHING), max_size=4), st.integers(-10, 1500))
def test_anything_survives_or_is_refused(word: str, text: str, fields: list[tuple[str, str]], status: int) -> None:
    """T-HI: whatever strings a handler produces, the octets mean exactly them, or are never made."""
    for message in (
        Request(method=word, path=f"/{text}", headers=Headers(fields)),
        Request(method="QUERY", path="/", query=text, headers=Headers(fields)),
        Response(status=status, text=text or "x", headers=Headers([("Task-ID", word), *fields])),
    ):
        role = "server" if isinstance(message, Request) else "client"
        try:
            octets = serialize_request(message) if isinstance(message, Request) else serialize_response(message)
        except LocalProtocolError:
            continue
        outcome = deliver(connect(role), [octets])
        assert [event(again) for again in outcome.messages] == [message]


@pytest.mark.programme
@settings(max_examples=length(150, 6000), deadline=None)
@given(st.binary(max_size=80), st.integers(0, 2**32))
def test_any_octets_behind_a_version(octets: bytes, seed: int) -> None:
    """P3: arbitrary octets where a request line goes on, where fields stand, and where a request starts."""
    random = Random(seed)
    for front in (
        b"",
        b"AGTP/1.0 ",
        b"AGTP/1.0 QUERY /",
        b"AGTP/1.0 QUERY /\r\n",
        b"AGTP/1.0 QUERY /\r\nTask-ID: ",
    ):
        check(front + octets, random)
        assert read_alike(front + octets)


def test_every_prefix_of_a_legal_stream_waits() -> None:
    """AGTP-013: an early refusal never hits octets that could still become a message."""
    for case in CASES:
        if case.refusal or len(case.octets) > 600:
            continue
        for end in range(1, len(case.octets)):
            try:
                outcome = deliver(connect(case.role, strict=case.strict), [case.octets[:end]])
            except RemoteProtocolError:  # deliver() reports refusals as outcomes
                raise AssertionError(case.id) from None
            assert not outcome.refusal, (case.id, end)


ALIKE = (
    b"AGTP/1.0 ECHO /text?a=1\r\nAgent-ID: " + b"ab" * 32 + b"\r\nTask-ID: t-1\r\nRequest-ID: r-1\r\nX-Own: one\r\n"
    b"Session-ID: s\r\nContent-Length: 2\r\n\r\n{}"
)


def read_with(octets: bytes, before: int) -> tuple[object, ...]:
    """What a connection makes of octets that had so many requests before, and has answered them."""
    connection = Connection(Role.SERVER)
    for _ in range(before):
        connection.receive(ALIKE)
        assert isinstance(connection.next_event(), Request)
        connection.send(Response(status=200))
    connection.receive(octets)
    try:
        found = connection.next_event()
    except RemoteProtocolError as error:
        return error.reason, str(error)
    if not isinstance(found, Request):
        return (found,)
    return found, dict(found.headers.by_name), found.headers.repeated_names


def remembered(executions: int) -> bytes | None:
    """The first of so many changed requests that is read otherwise where others came before it."""
    for number, octets, _ in inputs(SEED + 2, executions, [ALIKE]):
        if read_with(octets, 1 + number % 2) != read_with(octets, 0):
            return octets
    return None


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_what_a_connection_remembers_changes_nothing_of_what_it_reads() -> None:
    """A head that only looks like an earlier one is read as if it were the first (a line without a colon was not)."""
    assert remembered(EXECUTIONS // 5) is None


def test_control_a_head_known_by_its_first_line_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def begins(kept: Heads, buffer: bytearray) -> object:
        octets, _, head = kept._kept.get(bytes(buffer[: buffer.find(b"\n") + 1]), (b"", [], None))
        del buffer[: len(octets)]
        return head

    monkeypatch.setattr(Heads, "begins", begins)
    assert remembered(500) is not None
