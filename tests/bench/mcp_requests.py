"""Requests of MCP over HTTP for the benchmarks: ``tools/call``, without sessions and with them."""

from __future__ import annotations

import itertools
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from tests.bench.load import answer_to

STATELESS, WITH_SESSIONS = "2026-07-28", "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT = {"protocolVersion": WITH_SESSIONS, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
ACCEPTED = "Accept: application/json, text/event-stream"


def post(port: int, path: str, value: object, *fields: str) -> bytes:
    """Return a POST of JSON."""
    body = json.dumps(value).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: localhost:{port}", "Content-Type: application/json", *fields]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def call(port: int, tool: str, arguments: Mapping[str, Any], *fields: str) -> bytes:
    """Return a tools/call of the stateless revision."""
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    version = f"MCP-Protocol-Version: {STATELESS}"
    return post(port, "/mcp", message, ACCEPTED, version, "Mcp-Method: tools/call", f"Mcp-Name: {tool}", *fields)


def session(port: int, context: ssl.SSLContext | None, tool: str, arguments: Mapping[str, Any]) -> Callable[[], bytes]:
    """Begin a session of the older revision, and return what makes its tools/call, each with an id of its own."""
    head = answer_to(port, context, post(port, "/mcp", _message(0, "initialize", CLIENT), ACCEPTED))
    fields = dict(line.split(b": ", 1) for line in head.lower().partition(b"\r\n\r\n")[0].split(b"\r\n")[1:])
    of_session = (
        ACCEPTED,
        f"MCP-Protocol-Version: {WITH_SESSIONS}",
        f"Mcp-Session-Id: {fields[b'mcp-session-id'].decode()}",
    )
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = answer_to(port, context, post(port, "/mcp", begun, *of_session))
    assert answer.startswith(b"HTTP/1.1 202"), answer
    numbers = itertools.count(1)
    params = {"name": tool, "arguments": arguments}
    return lambda: post(port, "/mcp", _message(next(numbers), "tools/call", params), *of_session)


def _message(number: int, method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def check(port: int, context: ssl.SSLContext | None, octets: bytes, expected: bytes) -> None:
    """Ask once: the answer is that of the tool, as an error of one has the same status."""
    answer = answer_to(port, context, octets)
    assert expected in answer and b'"isError":true' not in answer, answer
