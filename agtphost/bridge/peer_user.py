"""Find out which user of this machine a loopback connection belongs to, from the Linux kernel's table."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Any

TABLE = Path("/proc/self/net/tcp")
"""The IPv4 connections of this network namespace, one a line: field 1 is the local end, 2 the remote, 7 the user."""


def belongs_to_this_user(transport: Any, table: Path = TABLE) -> bool:
    """
    Return whether the other end of a loopback connection is a process of the user that runs this one.

    :param transport: the TCP connection over IPv4, as Twisted gives it to a protocol.
    :param table: the file that lists connections.
    :return: False as well where it is unknown: on other systems than Linux, or for a connection that has ended.
    """
    ours, theirs = transport.getHost(), transport.getPeer()
    wanted = [_table_form(theirs.host, theirs.port), _table_form(ours.host, ours.port)]
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return False
    rows = (line.split() for line in lines)
    return any(len(row) > 7 and row[1:3] == wanted and row[7] == str(os.getuid()) for row in rows)


def _table_form(host: str, port: int) -> str:
    """Return an address in the table's form: ``127.0.0.1`` and 80 is ``0100007F:0050`` on a little-endian machine."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
