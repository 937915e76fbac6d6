"""Responses, read by a client: T-RS."""

from __future__ import annotations

from tests.wire.case import (
    ENCODING,
    ENDING,
    FIELD,
    LENGTH,
    NO_LENGTH,
    RESPONSE_LINE,
    ZERO,
    Message,
    Table,
)

TABLE = Table()


def _response(id: str, source: str, line: bytes, *first: object) -> None:
    octets = line + b"\r\nContent-Length: 0\r\n\r\n"
    if first:
        TABLE.case(f"T-RS-{id}", source, octets, "", Message(first=first, fields=(ZERO,)), role="client")
    else:
        TABLE.case(f"T-RS-{id}", source, octets, RESPONSE_LINE, role="client")


def _responses() -> None:
    source = "AGTP-018, AGTP-019"
    for code, text in (
        (200, "OK"),
        (263, "Banana"),
        (0, "OK"),
        (599, "x"),
        (999, "x"),
        (42, "x"),
        (204, "No Content"),
        (262, ""),
    ):
        _response(f"code-{code:03d}", source, f"AGTP/1.0 {code:03d} {text}".encode(), code, text)
    for id, text in {
        "space": " ",
        "two-spaces": "  a  b ",
        "tab": "a\tb",
        "fragment": "#1",
        "punctuation": "a/b?c=%zz",
    }.items():
        _response(f"text-{id}", source, f"AGTP/1.0 200 {text}".encode(), 200, text)
    for id, line in {
        "two-digits": b"AGTP/1.0 20 OK",
        "four-digits": b"AGTP/1.0 2000 OK",
        "no-digits": b"AGTP/1.0 OK",
        "signed": b"AGTP/1.0 +20 OK",
        "foreign-digits": "AGTP/1.0 ٢٠٠ OK".encode(),
        "letter": b"AGTP/1.0 2o0 OK",
        "no-space": b"AGTP/1.0 200",
        "joined": b"AGTP/1.0 200OK",
        "double-space": b"AGTP/1.0  200 OK",
        "tab": b"AGTP/1.0 200\tOK",
        "tab-before-code": b"AGTP/1.0\t200 OK",
        "version": b"AGTP/1.1 200 OK",
        "http": b"HTTP/1.1 200 OK",
        "lower-case": b"agtp/1.0 200 OK",
        "empty": b"",
        "nul-in-text": b"AGTP/1.0 200 a\x00b",
        "delete-in-text": b"AGTP/1.0 200 a\x7f",
        "8-bit-in-text": b"AGTP/1.0 200 \xfc",
        "request": b"AGTP/1.0 QUERY /",
    }.items():
        _response(f"line-{id}", source, line)
    ok = b"AGTP/1.0 200 OK\r\n"
    whole = Message(first=(200, "OK"), fields=(("Content-Length", "2"),), body=b"{}")
    TABLE.case("T-RS-body", "AGTP-013", ok + b"Content-Length: 2\r\n\r\n{}", "", whole, role="client")
    TABLE.case("T-RS-two", "AGTP-013", (ok + b"Content-Length: 2\r\n\r\n{}") * 2, "", whole, whole, role="client")
    TABLE.case("T-RS-body-short", "AGTP-013", ok + b"Content-Length: 2\r\n\r\n{", waiting="body", role="client")
    TABLE.case("T-RS-head-short", "AGTP-013", ok, waiting="header", role="client")
    TABLE.case("T-RS-no-length", "AGTP-012", ok + b"\r\n", NO_LENGTH, role="client")
    TABLE.case("T-RS-no-length-204", "AGTP-012", b"AGTP/1.0 204 No Content\r\n\r\n", NO_LENGTH, role="client")
    TABLE.case(
        "T-RS-length-twice",
        "AGTP-012",
        ok + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        LENGTH,
        role="client",
    )
    TABLE.case("T-RS-length-plus", "AGTP-012", ok + b"Content-Length: +0\r\n\r\n", LENGTH, role="client")
    TABLE.case(
        "T-RS-chunked",
        "AGTP-015",
        ok + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ENCODING,
        role="client",
    )
    TABLE.case("T-RS-lf", "core v08 section 5.4.1", b"AGTP/1.0 200 OK\nContent-Length: 0\n\n", ENDING, role="client")
    TABLE.case("T-RS-fold", "RFC 9112 section 5.2", ok + b"X-A: a\r\n b\r\n\r\n", FIELD, role="client")
    TABLE.case(
        "T-RS-too-large",
        "security section 2.4",
        ok + b"Content-Length: 1048577\r\n\r\n",
        "body-too-large",
        role="client",
    )
    TABLE.case(
        "T-RS-garbage-behind",
        "AGTP-013",
        ok + b"Content-Length: 2\r\n\r\n{}garbage",
        RESPONSE_LINE,
        whole,
        role="client",
    )
    interim = b"AGTP/1.0 202 Accepted\r\nContinuation-Token: c\r\nContent-Length: 0\r\n\r\n"
    token = Message(first=(202, "Accepted"), fields=(("Continuation-Token", "c"), ZERO))
    TABLE.case(
        "T-RS-interim",
        "AGTP-016",
        interim * 2 + ok + b"Content-Length: 2\r\n\r\n{}",
        "",
        token,
        token,
        whole,
        role="client",
    )


_responses()
