"""Heads that a connection has sent before are what they were, and heads that only look so are read anew."""

from __future__ import annotations

import pytest

from agtphost.errors import RemoteProtocolError
from agtphost.wire import Connection, Request, Response, Role
from agtphost.wire.headers import Common
from agtphost.wire.heads import MOST_HEADS, MOST_OCTETS, Heads

LINES = ("AGTP/1.0 ECHO /text?a=1", "Agent-ID: " + "ab" * 32, "Task-ID: t-1", "X-Own: one", "Content-Length: 2")


def octets(*changes: tuple[str, str], lines: tuple[str, ...] = LINES, body: bytes = b"{}") -> bytes:
    text = "\r\n".join(lines) + "\r\n\r\n"
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text.encode("ascii") + body


def read(connection: Connection, given: bytes) -> Request:
    """The request, as this connection reads it; answered, so that the next may come."""
    connection.receive(given)
    request = connection.next_event()
    assert isinstance(request, Request)
    connection.send(Response(status=200))
    return request


CHANGES: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("t-1", "t-2"),),
    (("t-1", " t-3\t"),),
    (("Length: 2", "Length: 10"),),
    (("t-1", "t-4"), ("Length: 2", "Length: 1")),
    (("X-Own: one", "X-Own: two"),),
    (("X-Own", "X-oWn"),),
    (("Task-ID", "task-id"),),
    (("Task-ID", "Request-ID"),),
    (("a=1", "a=2"),),
    (("a=1", "a=1\r\nRequest-ID: r"),),
    (("X-Own: one", "Task-ID: t-5"),),
    (("Agent-ID", "Owner-ID"),),
)


@pytest.mark.parametrize("first", CHANGES)
def test_what_came_before_changes_nothing_of_what_is_read(first: tuple[tuple[str, str], ...]) -> None:
    """Each head after each other one, whole and in two pieces, as a connection reads it that saw none before."""
    for second in CHANGES:
        for repeats in (1, 2, 3):
            connection = Connection(Role.SERVER)
            for _ in range(repeats):
                read(connection, octets(*first, body=b"0123456789"[: _length(first)]))
            given = octets(*second, body=b"9876543210"[: _length(second)])
            alone = read(Connection(Role.SERVER), given)
            again = read(connection, given)
            assert again == alone
            assert again.headers.by_name == alone.headers.by_name
            assert again.headers.repeated_names == alone.headers.repeated_names
            cut = given.index(b"Task") if b"Task" in given else 9
            connection.receive(given[:cut])
            connection.next_event()
            assert read(connection, given[cut:]) == alone


def _length(changes: tuple[tuple[str, str], ...]) -> int:
    return int(next((new.rpartition(" ")[2] for _, new in changes if "Length" in new), "2"))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("Task-ID: t-1", "Task-ID : t-1"), "invalid-header-field"),
        (("Task-ID: t-1", " Task-ID: t-1"), "invalid-header-field"),
        (("Task-ID: t-1", "Task-ID"), "invalid-header-field"),
        (("t-1", "t\x01"), "invalid-header-field"),
        (("Length: 2", "Length: 02"), "invalid-content-length"),
        (("Length: 2", "Length: 9999999999"), "body-too-large"),
        (("X-Own: one", "Transfer-Encoding: chunked"), "transfer-encoding-refused"),
        (("Task-ID: t-1", "Content-Length: 2"), "invalid-content-length"),
    ],
)
def test_what_is_wrong_is_wrong_however_often_it_was_right(wrong: tuple[str, str], reason: str) -> None:
    connection = Connection(Role.SERVER)
    for _ in range(3):
        read(connection, octets())
    connection.receive(octets(wrong))
    with pytest.raises(RemoteProtocolError) as caught:
        connection.next_event()
    assert caught.value.reason == reason


def test_heads_that_differ_in_identifiers_of_calls_have_something_in_common() -> None:
    """From the second on; another field, or another first line, makes it another."""
    connection = Connection(Role.SERVER)
    seen = [read(connection, octets(*changes)).headers.common for changes in ((), (), (("t-1", "t-2"),), ())]
    assert seen[0] is None
    assert isinstance(seen[1], Common) and seen[1] is seen[2] is seen[3]
    other = [read(connection, octets(("X-Own: one", "X-Own: two"))).headers.common for _ in range(2)]
    line = [read(connection, octets(("a=1", "a=2"))).headers.common for _ in range(2)]
    assert len({seen[1], other[1], line[1]}) == 3
    fresh = read(Connection(Role.SERVER), octets())
    assert fresh.headers.common is None


def test_what_is_kept_is_bounded() -> None:
    """So many heads of a connection, none of them long; responses are not kept at all."""
    connection = Connection(Role.SERVER)
    heads: Heads = connection._reader._head_reader._heads  # type: ignore[assignment]
    for number in range(MOST_HEADS + 3):
        read(connection, octets(("a=1", f"a={number}")))
    assert [line.split(b"=")[1][:1] for line in heads._kept] == [b"%d" % n for n in range(3, MOST_HEADS + 3)]
    long = octets(("X-Own: one", "X-Own: " + "x" * MOST_OCTETS), ("a=1", "a=long"))
    assert read(connection, long) == read(connection, long)
    assert len(heads._kept) == MOST_HEADS and not any(b"long" in line for line in heads._kept)
    assert Connection(Role.CLIENT)._reader._head_reader._heads is None
