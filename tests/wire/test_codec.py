"""The serializer: what leaves is well-formed, or does not leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.errors import LocalProtocolError
from agtphost.wire import (
    Headers,
    Request,
    Response,
    codec,
    grammar,
    request_line,
    serialize_request,
    serialize_response,
)
from tests.rows import each_row
from tests.wire.cases import CASES
from tests.wire.deliveries import connect, deliver, event

TYPE = ("Content-Type", "text/plain")


def response(*fields: tuple[str, str], body: bytes = b"", status: int = 200, text: str = "") -> bytes:
    """The octets of a response."""
    return serialize_response(Response(status=status, text=text, headers=Headers(fields), body=body))


def test_a_response_is_line_fields_length_body() -> None:
    """AGTP-012, AGTP-018: the fields in order, one Content-Length, a blank line, the body."""
    assert response(("Server-ID", "s"), TYPE, ("Trust-Tier", "1"), body=b"hello") == (
        b"AGTP/1.0 200 OK\r\nServer-ID: s\r\nContent-Type: text/plain\r\nTrust-Tier: 1\r\n"
        b"Content-Length: 5\r\n\r\nhello"
    )


def test_a_bodiless_response_says_zero() -> None:
    """AGTP-012: a 204 carries Content-Length 0 and no Content-Type."""
    assert response(status=204) == b"AGTP/1.0 204 No Content\r\nContent-Length: 0\r\n\r\n"


def test_the_standard_text_is_filled_in() -> None:
    """An empty text becomes the standard one of the code; codes that the registry lacks say so."""
    assert response(status=262).startswith(b"AGTP/1.0 262 Authorization Required\r\n")
    assert response(status=299).startswith(b"AGTP/1.0 299 Unknown\r\n")
    assert response(status=299, text="Mine").startswith(b"AGTP/1.0 299 Mine\r\n")


@each_row("name", [
    "Content-Length", "content-length", "Transfer-Encoding", "TRANSFER-ENCODING", "AGTP-Version",
    "AGTP-Method", "agtp-status", "Principal-ID", "Server-Agent-ID",
])  # fmt: skip
def test_fields_that_never_leave(name: str) -> None:
    """AGTP-015, AGTP-024, AGTP-025: framing and removed fields are refused in any spelling."""
    with pytest.raises(LocalProtocolError, match=name):
        response((name, "0"))
    with pytest.raises(LocalProtocolError, match=name):
        serialize_request(Request(method="QUERY", headers=Headers([(name, "0")])))


@each_row("octet", [*range(0x20), 0x7F, 0x80, 0x85, 0xA0, 0xFF, 0x2028, 0x202E, 0xD800, 0x1F600])
def test_no_value_or_text_carries_anything_but_visible_ascii(octet: int) -> None:
    """T-HI: CR, LF, NUL, DEL, controls and everything beyond ASCII are refused wherever they stand."""
    for value in (f"a{chr(octet)}b", f"{chr(octet)}b", f"a{chr(octet)}", chr(octet)):
        inside = value[0] == "a" and value[-1] == "b"
        if octet == 9 and inside:
            assert b"Task-ID: a\tb\r\n" in response(("Task-ID", value))
            assert response(text=value).startswith(b"AGTP/1.0 200 a\tb\r\n")
            continue
        with pytest.raises(LocalProtocolError):
            response(("Task-ID", value))
        if octet != 9:
            with pytest.raises(LocalProtocolError):
                response(text=value)
        with pytest.raises(LocalProtocolError):
            response((f"Task{value}ID", "t"))


@each_row(
    "value",
    [
        "a\r\nTransfer-Encoding: chunked",
        "a\r\n\r\nAGTP/1.0 200 OK",
        "a\n",
        "a\r",
        "\r\n",
        " a",
        "a ",
        " ",
        "\ta",
    ],
)
def test_a_value_never_becomes_a_line(value: str) -> None:
    """T-HI: injected line ends are refused, and white space that would be lost at the other end."""
    with pytest.raises(LocalProtocolError):
        response(("Task-ID", value))


def test_an_injection_that_only_rearranges_line_ends_is_refused() -> None:
    """A bare CR in one value and a bare LF in another do not add up to a line end."""
    with pytest.raises(LocalProtocolError):
        response(("X-A", "a\rb"), ("X-B", "c\nd"))


@each_row("values", [("a b", ""), ("", "a b"), ("a  b", "c"), ("", "")])
def test_values_may_have_spaces_inside_or_be_empty(values: tuple[str, str]) -> None:
    """White space in one value does not make up for what another one lacks."""
    first, second = values
    assert f"Task-ID: {first}\r\nRequest-ID: {second}\r\n".encode() in response(
        ("Task-ID", first), ("Request-ID", second)
    )
    with pytest.raises(LocalProtocolError):
        response(("Task-ID", f"{first}\r\n"), ("Request-ID", second))


@each_row("name", ["", " ", "Task ID", "Task-ID:", "Task-ID ", " Task-ID", "Täsk", "(x)", "Task-ID\n"])
def test_names_are_tokens(name: str) -> None:
    """RFC 9110 section 5.1: a name is a token."""
    with pytest.raises(LocalProtocolError):
        response((name, "x"))


@each_row("status", [-1, 0, 42, 99, 1000, 20000])
def test_a_status_has_three_digits(status: int) -> None:
    """AGTP-018."""
    with pytest.raises(LocalProtocolError):
        response(status=status)


def test_a_body_and_its_type_go_together() -> None:
    """AGTP-093: a body without Content-Type is refused, and a Content-Type without body."""
    with pytest.raises(LocalProtocolError):
        response(body=b"x")
    with pytest.raises(LocalProtocolError):
        response(TYPE)
    with pytest.raises(LocalProtocolError):
        response(TYPE, body=b"x", status=204)


@each_row("method", ["", "A B", "A\r\n", "A#", "M" * 65, "Ä", "/", "A:"])
def test_methods_are_tokens(method: str) -> None:
    """AGTP-017: what our parser refuses, we don't send."""
    with pytest.raises(LocalProtocolError):
        serialize_request(Request(method=method))


@each_row("path", ["", "a", "//", "/a b", "/a#b", "/a?b", "/%", "/%4x", "/ä", "/a\r\nX: y", "*", "/{id}"])
def test_paths_are_absolute(path: str) -> None:
    """AGTP-020, AGTP-022: a fragment, a space or a raw question mark never leaves."""
    with pytest.raises(LocalProtocolError):
        serialize_request(Request(method="QUERY", path=path))


@each_row("query", ["a b", "a#b", "a\nb", "%", "ä", "<"])
def test_queries_follow_their_grammar(query: str) -> None:
    """Core v08 section 5.4.1: the characters of RFC 3986 section 3.4."""
    with pytest.raises(LocalProtocolError):
        serialize_request(Request(method="QUERY", query=query))


def test_the_request_line_to_hash_is_the_one_sent() -> None:
    """Companion section 5.2: what a client hashes is what it wrote."""
    request = Request(method="QUERY", path="/a", query="b=1", line=b"ignored")
    assert request_line(request) == b"AGTP/1.0 QUERY /a?b=1\r\n"
    assert serialize_request(request).startswith(request_line(request))
    with pytest.raises(LocalProtocolError):
        request_line(Request(method="QUERY", path="a"))


def test_every_message_of_the_table_survives_or_is_refused() -> None:
    """T-HI: parse(serialize(x)) == x for all messages that the cases hold, or LocalProtocolError."""
    survived = 0
    for case in CASES:
        for message in case.messages:
            sent = event(message)
            try:
                octets = serialize_request(sent) if isinstance(sent, Request) else serialize_response(sent)
            except LocalProtocolError:
                continue
            outcome = deliver(connect(case.role), [octets])
            if outcome.refusal:  # at its limit before Content-Length was added
                assert case.id in ("T-LM-block-most", "T-LM-count-most")
                continue
            if message.first == (262, ""):  # the standard text is filled in
                sent = replace(sent, text="Authorization Required")
            assert [event(message) for message in outcome.messages] == [sent]
            survived += 1
    assert survived > 200


NAMES = st.sampled_from([*grammar.USUAL_NAMES, "content-type", "X-Own", "agtp-status", "No Name", ""])
TEXTS = st.text(alphabet=st.sampled_from("ab ,:;\t\r\n\x7fé"), max_size=6) | st.just("text/plain")


def written(headers: Headers, body: bytes) -> bytes | str:
    """The octets, or why there are none."""
    try:
        return serialize_response(Response(status=200, headers=headers, body=body))
    except LocalProtocolError as error:
        return str(error)


@settings(max_examples=150)
@given(st.lists(st.tuples(NAMES, TEXTS), max_size=6), st.sampled_from([b"", b"x"]))
def test_usual_names_are_looked_at_together_and_others_one_by_one_alike(
    fields: list[tuple[str, str]], body: bytes
) -> None:
    """Whatever the fields are: the same octets, or the same reason why there are none."""
    together = written(Headers(fields), body)
    usual, codec._SENDABLE = codec._SENDABLE, frozenset()
    try:
        assert written(Headers(fields), body) == together
    finally:
        codec._SENDABLE = usual


def test_were_all_names_usual_a_second_length_would_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(codec, "_SENDABLE", frozenset({*grammar.USUAL_NAMES}))
    assert response(("Content-Length", "7")).count(b"Content-Length") == 2


def test_a_response_says_which_record_it_has() -> None:
    """By the name that this host writes; empty where it has none."""
    fields = [("Server-ID", "s"), ("Audit-ID", "ab"), ("Task-ID", "t")]
    assert Response(status=200, headers=Headers(fields)).audit_id == "ab"
    assert Response(status=200, headers=Headers(fields[:1])).audit_id == ""
