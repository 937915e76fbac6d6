"""What a terminal shows of an answer over HTTP."""

from __future__ import annotations

import pytest

from agtphost.client.printed_answer import read_printed
from tests.rows import each_row

HEAD = (
    b"HTTP/1.1 200 OK\r\nAGTP-Status: 262 Authorization Required\r\n"
    b"Attribution-Record: a.b.c\r\nContent-Length: 2\r\n\r\n"
)


@each_row(
    "octets, status, body",
    [
        (HEAD + b"{}", 262, b"{}"),
        (HEAD + b"{}\n", 262, b"{}"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"{}", 262, b"{}"),
        (HEAD.replace(b"\r\n", b"\n") + b"{}", 262, b"{}"),
        (HEAD, 262, None),
        (HEAD + b"{", 262, None),
        (HEAD + b"{} and more", 262, None),
        (HEAD.replace(b"AGTP-Status: 262 Authorization Required\r\n", b"") + b"{}", None, b"{}"),
        (b"a.b.c\n", None, None),
    ],
)
def test_the_record_is_found(octets: bytes, status: int | None, body: bytes | None) -> None:
    """With the body where all of it is there, and not a part of it."""
    found = read_printed(octets)
    assert (found.headers.get("attribution-record"), found.status, found.body) == ("a.b.c", status, body)


@each_row("octets", [b"", b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n{}", b"a.b", b"a. b.c"])
def test_without_one_there_is_nothing_to_verify(octets: bytes) -> None:
    with pytest.raises(ValueError, match="Attribution-Record is missing"):
        read_printed(octets)
