"""What requests over HTTP leave in memory: nothing that has to be found by looking at everything that is there."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.logger import LogLevel, capturedLogs
from twisted.python.failure import Failure

from agtphost.gateway.feature import Gateway
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mount, Mounts
from agtphost.http.refusals import RefusalRecorder
from agtphost.mcp.feature import McpFront
from agtphost.registry.feature import Registry
from agtphost.testing import MemoryHost
from agtphost.vocabulary.mount_paths import MountPath
from tests.host.carried import carried
from tests.http.test_mounts import Wire
from tests.rows import each_row

TOKEN = "0123456789abcdef" * 2
HERE = IPv4Address("TCP", "127.0.0.1", 8080)
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
FRONT = (
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    "MCP-Protocol-Version: 2026-07-28",
)


def asked(line: str, *fields: str, body: Any = None) -> bytes:
    """One request of the client."""
    octets = b"" if body is None else json.dumps(body).encode()
    length = [f"Content-Length: {len(octets)}"] if body is not None else []
    said = [f"{line} HTTP/1.1", "Host: localhost:8080", f"Authorization: Bearer {TOKEN}", *fields, *length]
    return ("\r\n".join(said) + "\r\n\r\n").encode() + octets


def mcp(method: str, **params: Any) -> bytes:
    """One request to the MCP front."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": MODERN}}
    named = [f"Mcp-Name: {params['name']}"] if "name" in params else []
    return asked("POST /mcp", *FRONT, f"Mcp-Method: {method}", *named, body=body)


REQUESTS = {
    "a call": ("/", asked("ECHO /text", "Content-Type: application/json", body={"parameters": {"text": "x"}}), 200),
    "a call that is refused": ("/", asked("ECHO /nowhere"), 404),
    "a stream": (
        "/",
        asked(
            "ECHO /text",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            body={"parameters": {"text": "x"}},
        ),
        200,
    ),
    "a document": ("/", asked("GET /agents/demo"), 200),
    "a document of the gateway's own": ("/", asked("GET /.well-known/agis.json"), 200),
    "a tool": ("/mcp", mcp("tools/call", name="echo_text", arguments={"text": "x"}), 200),
    "a list of tools": ("/mcp", mcp("tools/list"), 200),
    "a session": (
        "/mcp",
        asked("POST /mcp", *FRONT[:2], body={"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}),
        400,
    ),
    "a list of cards": ("/registry", asked("GET /registry/agents"), 200),
}


WAITING: list[Deferred[None]] = []


async def speak(context: Any) -> dict[str, Any]:
    """Say one word of a stream, and wait."""
    await context.emit({"word": "one"})
    WAITING.append(Deferred())
    await WAITING[-1]
    return {"text": context.input["text"]}


@pytest.fixture(scope="module")
def served() -> MemoryHost:
    """A host with a gateway, a front and a registry."""
    client = {"name": "tests", "token": "env:TOKEN", "agent": "demo"}
    settings = {
        "gateway": {"listen": "tcp:8080:interface=127.0.0.1"},
        "mcp": {"front": {"listen": "tcp:8080:interface=127.0.0.1"}},
        "registry": {"listen": "tcp:8080:interface=127.0.0.1", "path": "/registry"},
        "http": {"client": [client]},
    }
    host = MemoryHost(settings, environ={"TOKEN": TOKEN})
    host.agent("demo", hosted=True, scopes=("documents:query",))
    host.endpoint("ECHO", "/text", lambda context: {"text": context.input["text"]}, {"text": "string"})
    host.endpoint("ECHO", "/slowly", speak, {"text": "string"})
    return host


def connected(host: MemoryHost) -> tuple[Any, Wire]:
    """A connection to all of them."""
    door = RefusalRecorder(host.dispatcher)
    resources = {
        "/": carried(host, "gateway", Gateway).resource,
        "/mcp": carried(host, "mcp", McpFront).resource,
        "/registry": carried(host, "registry", Registry).surface.resource,
    }
    mounts = [
        Mount(surface="test", path=MountPath(path, rest=path == "/"), resource=resource, door=door)
        for path, resource in resources.items()
    ]
    channel: Any = HttpFactory(Mounts(mounts), HTTP_LIMITS, host.clock).buildProtocol(HERE)
    wire = Wire(hostAddress=HERE)
    channel.makeConnection(wire)
    return channel, wire


@contextmanager
def kept() -> Iterator[list[Any]]:
    """What is collected as garbage meanwhile."""
    gc.collect()
    gc.disable()
    found: list[Any] = []
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@each_row("case", REQUESTS)
def test_a_request_leaves_no_garbage(case: str, served: MemoryHost) -> None:
    """Collecting that of two thousand requests held every other one up for as long as two hundred take."""
    _, octets, status = REQUESTS[case]
    # What was there before is not looked through again and again; what the first request makes, the second would drop.
    gc.collect()
    gc.freeze()
    channel, wire = connected(served)

    def ask() -> None:
        wire.clear()
        channel.dataReceived(octets)
        served.clock.settle()
        assert wire.value().startswith(b"HTTP/1.1 %d " % status), wire.value()

    ask()  # the first time something may be made for later
    with kept() as found:
        ask()
    assert [type(each) for each in found] == []


def test_a_client_that_leaves_a_stream_is_no_fault(served: MemoryHost) -> None:
    """The call ends, and nothing critical is logged: its connection is no more."""
    fields = ("Content-Type: application/json", "Accept: text/event-stream")
    channel, wire = connected(served)
    with capturedLogs() as logged:
        channel.dataReceived(asked("ECHO /slowly", *fields, body={"parameters": {"text": "x"}}))
        served.clock.settle()
        assert b"one" in wire.value()
        channel.connectionLost(Failure(ConnectionDone()))
        served.clock.settle()
        WAITING[-1].callback(None)
        served.clock.settle()
    assert [each for each in logged if each["log_level"] >= LogLevel.error] == []
