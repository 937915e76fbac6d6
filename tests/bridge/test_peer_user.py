"""Whose a loopback connection is, as a bridge over HTTP asks."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address

from agtphost.bridge.peer_user import TABLE, belongs_to_this_user

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@dataclass
class Ends:
    """The two ends of a connection, as a transport tells them."""

    ours: int
    theirs: int

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", self.ours)

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", self.theirs)


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A real connection of this process to itself."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            yield Ends(server.getsockname()[1], client.getsockname()[1])


def row(ends: Ends, user: int) -> str:
    """The line of the client's end."""
    client, server = f"0100007F:{ends.theirs:04X}", f"0100007F:{ends.ours:04X}"
    return f"   1: {client} {server} 01 00000000:00000000 00:00000000 00000000 {user:5d} 0 1 1 0 20 4 30 10 -1\n"


@pytest.mark.skipif(not TABLE.exists(), reason="the system does not list its connections in /proc")
def test_a_connection_of_this_process_is_of_this_user(ends: Ends) -> None:
    """The kernel's own table is read right."""
    assert belongs_to_this_user(ends)
    assert not belongs_to_this_user(Ends(ends.ours, ends.ours)), "a connection that does not exist"


def test_a_connection_of_another_user_is_not(ends: Ends, tmp_path: Path) -> None:
    """The user of the client's end decides; the server's own end, which this user has, says nothing."""
    own_end = row(Ends(ends.theirs, ends.ours), os.getuid())
    table = tmp_path / "tcp"
    table.write_text(HEAD + own_end + row(ends, os.getuid() + 1))
    assert not belongs_to_this_user(ends, table)
    table.write_text(HEAD + own_end + row(ends, os.getuid()))
    assert belongs_to_this_user(ends, table)


def test_what_cannot_be_read_is_nobody(ends: Ends, tmp_path: Path) -> None:
    """No table, an empty one, and lines that are cut: not this user."""
    assert not belongs_to_this_user(ends, tmp_path / "missing")
    for text in ("", HEAD, HEAD + row(ends, os.getuid())[:40], "\xff\xfe"):
        (tmp_path / "tcp").write_text(text)
        assert not belongs_to_this_user(ends, tmp_path / "tcp"), text
