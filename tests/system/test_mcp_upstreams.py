"""MCP servers that die, are away and come back, as operators and agents see them: P16."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.measuring import measured
from tests.system.hosting import Host, free_port, running, sample, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HOSTILE = Path(__file__).resolve().parents[1] / "adapters/mcp/servers/hostile.py"


class Endpoint(BaseHTTPRequestHandler):
    """A server of the handshake era without sessions: one tool, ``work``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.reply(202, b"")
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        found = results.get(message["method"])
        outcome = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
        return self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode())

    def reply(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None: ...


@contextmanager
def serving(port: int) -> Iterator[None]:
    """The endpoint, for a while."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Endpoint)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Scene:
    """A host whose agent ``demo`` is its operator too."""

    def __init__(self, host: Host, client: Client) -> None:
        self.host = host
        self._client = client

    def call(self, tool: str) -> int:
        """The status of one call."""
        body = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": {"tool": tool}}
        return int(self._client.call(self.host.uri, "EXECUTE", "/", body).status)

    def seen(self, name: str) -> dict[str, Any]:
        """What ``agtp upstreams ls`` says of a server."""
        return {entry["name"]: entry for entry in self.host.agtp_json("upstreams", "ls")}[name]

    def described(self, name: str) -> dict[str, Any]:
        """What DESCRIBE says of it to any agent."""
        answer = self._client.call(self.host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result
        return {entry["name"]: entry for entry in answer["hosted_protocols"]}[name]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Scene]:
    """A stdio server that dies of its calls, and an HTTP server that is not there yet."""
    command = json.dumps([sys.executable, "-S", str(HOSTILE), "crash", "7"])
    servers = f'\n[[mcp.server]]\nname = "frail"\ncommand = {command}\n'
    servers += f'\n[[mcp.server]]\nname = "web"\nurl = "http://127.0.0.1:{port}/mcp"\nprotocol = "2025-11-25"\n'
    config = sample(tmp_path_factory.mktemp("upstreams"))
    with running(config) as host:
        certificate = str(host.state / "agents/demo/agent.pem")
        fingerprint = json.loads(host.agtp("cert", "show", certificate, "--json").stdout)["key_fingerprint"]
    with config.open("a") as file:
        file.write(f'{servers}\n[audit]\noperators = ["{fingerprint}"]\n')
    with running(config) as host:
        demo = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
            yield Scene(host, client)


def test_an_http_server_that_is_away_comes_back(scene: Scene, port: int) -> None:
    """Down with a reason and a next attempt; up by itself once it is there; latency of its calls; down again."""
    away = scene.seen("web")
    assert away["state"] in ("backoff", "starting") and away["latency"] == 0
    until(lambda: scene.seen("web")["next_attempt_in"] is not None)
    assert "nothing listens there" in scene.seen("web")["reason"]
    assert scene.call("web.work") == 503
    with serving(port):
        until(lambda: scene.seen("web")["state"] == "up", 60)
        assert scene.call("web.work") == 200
        up = scene.seen("web")
        assert up["transport"] == "http" and up["calls"]["ok"] == 1
        assert 0 < up["latency"] < 5
        assert scene.described("web")["latency"] > 0
        restarts = up["restarts"]
    # Nothing tells that an HTTP server is gone but the next call, which is sent once.
    assert scene.call("web.work") == 503
    gone = scene.seen("web")
    assert gone["state"] in ("backoff", "starting", "failed") and gone["reason"]
    with serving(port):
        until(lambda: scene.seen("web")["state"] == "up", 60)
        assert scene.seen("web")["restarts"] > restarts
        assert scene.call("web.work") == 200


def test_a_server_that_dies_is_seen_to_and_started_again(scene: Scene) -> None:
    """Its caller gets 503 once; state, reason and next attempt are shown; then it is up again, restarts counted."""
    until(lambda: scene.seen("frail")["state"] == "up")
    before = scene.seen("frail")["restarts"]
    assert scene.call("frail.work") == 503
    down = scene.seen("frail")
    assert down["state"] in ("backoff", "starting", "up")
    if down["state"] == "backoff":
        assert "exit code 7" in down["reason"]
        assert 0 <= down["next_attempt_in"] <= 60
    until(lambda: scene.seen("frail")["state"] == "up")
    again = scene.seen("frail")
    assert again["restarts"] == before + 1
    assert (again["next_attempt_in"], again["reason"]) == (None, "")
    assert again["pid"] and again["calls"]["errors"] >= 1
    assert scene.described("frail")["restarts"] == again["restarts"]


@pytest.mark.release
@measured
def test_a_server_that_keeps_dying_waits_longer_each_time(scene: Scene) -> None:
    """Backoff: the next attempt that ``agtp upstreams ls`` shows is further off each time."""
    waits: list[float] = []
    for _ in range(3):
        until(lambda: scene.seen("frail")["state"] == "up")
        assert scene.call("frail.work") == 503
        found = scene.seen("frail")
        waits.append(found["next_attempt_in"] or 0.0)
    assert waits[-1] > waits[0]
    line = next(line for line in scene.host.agtp("upstreams", "ls").stdout.splitlines() if "frail" in line)
    assert "MCP" in line and "backoff" in line
