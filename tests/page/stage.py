"""What stories at the page are played with: an assistant on the official MCP client, and somebody at the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any

import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client

from agtphost.client.sync import Client as Caller
from tests.system.bridging import stdio
from tests.system.hosting import Host, until


class Assistant:
    """
    A model's client with one open session at the bridge, which has one open connection to the host.

    :param portal: where its event loop is.
    """

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def call(self, tool: str, **arguments: Any) -> Future[types.CallToolResult]:
        """Call a tool; the answer may take as long as a person does."""
        return self._portal.start_task_soon(self._client.call_tool, tool, arguments)


@contextmanager
def assistant(host: Host, *words: str) -> Iterator[Assistant]:
    """
    One at the terminal, as ``demo``.

    :param words: further words of ``agtp mcp-bridge``.
    """
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(stdio(host, *words))) as client:
        yield Assistant(portal, client)


def edited(host: Host, statement: str, *values: Any) -> None:
    """
    Change the database behind the host's back, as an editor of SQLite does.

    The host notices that somebody wrote, and reads the heads of its chains again: where one of these was damaged it
    would answer nothing any more. What is waited for is that it goes on.
    """
    with closing(sqlite3.connect(host.state / "agtphost.sqlite3", timeout=30)) as database:
        changed = database.execute(statement, values).rowcount
        database.commit()
    assert changed == 1, f"{changed} rows"
    with Caller(trust=host.state / "ca.pem") as caller:
        until(lambda: caller.call(host.uri, "DISCOVER", "/methods").status == 200)


def signed_of(host: Host, audit_id: str) -> bytes:
    """The octets of a record as they lie in the database."""
    with closing(sqlite3.connect(host.state / "agtphost.sqlite3", timeout=30)) as database:
        ((octets,),) = database.execute("SELECT signed FROM record WHERE audit_id = ?", (bytes.fromhex(audit_id),))
    assert isinstance(octets, bytes)
    return octets


def flip(host: Host, audit_id: str, bit: int = 0) -> None:
    """One bit of a record, in the middle of what was signed."""
    octets = bytearray(signed_of(host, audit_id))
    octets[len(octets) // 2] ^= 1 << bit
    edited(host, "UPDATE record SET signed = ? WHERE audit_id = ?", bytes(octets), bytes.fromhex(audit_id))
