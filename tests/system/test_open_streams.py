"""Streams that only wait for news end when the host stops, and hold a stop or a hand-over up for no second."""

from __future__ import annotations

import json
import ssl
import threading
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.errors import CannotConnect
from agtphost.identity.jws import parse_unverified
from tests.page.browsing import served
from tests.system.fronting import front, token_of, write_tokens
from tests.system.held_calls import caller, delete, held_sample, listed, note, operator
from tests.system.hosting import free_port, running, sample, until
from tests.system.trail import database, stored

HOUR = "\n[limits]\ndrain_timeout = 3600\n"
"""How long the host would wait for streams that are owed."""

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ABOUT = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def ask(port: int, revision: str, message: dict[str, Any] | None, **fields: str) -> HTTPResponse:
    """Send a message, or a GET for the stream of a session, and return the response with its head."""
    headers = {
        "Authorization": f"Bearer {token_of('laptop')}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
        **fields,
    }
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    body = None if message is None else json.dumps({"jsonrpc": "2.0", **message})
    connection.request("GET" if message is None else "POST", "/mcp", body, headers)
    return connection.getresponse()


def test_a_stop_ends_the_streams_of_both_eras_and_waits_for_none(tmp_path: Path) -> None:
    """Each ends whole, with an answer where it is a request."""
    port, clients = free_port(), {"laptop": "demo"}
    config = sample(tmp_path, append=front(port, clients) + HOUR)
    write_tokens(config.parent, clients)
    with running(config) as host:
        begun = ask(port, HANDSHAKE, {"id": 1, "method": "initialize", "params": ABOUT})
        session = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
        begun.read()
        ask(port, HANDSHAKE, {"method": "notifications/initialized"}, **session).read()
        older = ask(port, HANDSHAKE, None, **session)
        listen = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
        asked = {"id": 2, "method": "subscriptions/listen", "params": listen}
        newer = ask(port, STATELESS, asked, **{"Mcp-Method": "subscriptions/listen"})
        assert (older.status, newer.status) == (200, 200)
        assert b"message" in newer.readline() and b"acknowledged" in newer.readline()
        assert host.stop() == 0
        older.read()  # Raises where the connection was cut before the end of the stream.
        *_, last = (json.loads(line[6:]) for line in newer.read().splitlines() if line.startswith(b"data: "))
        assert last["id"] == 2 and last["result"]["resultType"] == "complete"


def test_a_stop_ends_the_feed_of_an_open_page(tmp_path: Path) -> None:
    """The browser asks for it again, which is how it notices when the host is there again."""
    with served(tmp_path, append=HOUR) as site:
        context = ssl.create_default_context(cafile=str(site.trust))
        connection = HTTPSConnection("127.0.0.1", site.port, timeout=60, context=context)
        connection.request("GET", "/live", headers={"Cookie": site.browser().cookie})
        feed = connection.getresponse()
        assert feed.status == 200 and feed.readline().startswith(b"retry: ")
        assert site.host.stop() == 0
        feed.read()


def test_a_stop_ends_the_wait_for_a_person(tmp_path: Path) -> None:
    """The held call is answered with 202, as one that doesn't wait is; its client asks again, and finds no host."""
    with running(held_sample(tmp_path, more=HOUR)) as host:
        note(host, "old")
        failed: list[CannotConnect] = []

        def wait() -> None:
            with caller(host) as client, pytest.raises(CannotConnect) as error:
                delete(host, client, "old", stream=lambda _: None, wait_for_approval=600)
            failed.append(error.value)

        waiting = threading.Thread(target=wait)
        waiting.start()
        with operator(host) as client:
            until(lambda: listed(client, host, state="pending"))
        assert host.stop() == 0
        waiting.join(60)
        answers = [parse_unverified(each.signed.decode()) for each in stored(database(host)) if each.format == "jws"]
    assert failed and [each["status"] for each in answers if each.get("method") == "EXECUTE"].count(202) >= 1
