"""One trace through fronts, the bridge and all kinds of upstreams; and a collector that holds nobody up."""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters

from agtphost.client.sync import Client
from agtphost.identity.provisioning import provision_development
from tests.rows import each_row
from tests.system.bridging import stdio
from tests.system.collector import Collector, collecting
from tests.system.hosting import BIN, Host, free_port, running, sample, until
from tests.system.mcp_sessions import ERAS, said
from tests.system.peers import TASK_ID, Pair
from tests.system.peers import demo as pair_demo
from tests.system.scraping import scrape
from tests.system.test_check_agrees import hidden
from tests.system.test_traces import GIVEN, PARENT, TRACE, servers, traces

A2A, ACP = "application/a2a+json", "application/vnd.acp.run+json"
PLACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")

UPSTREAMS = """
[[a2a.agent]]
name = "moody"
url = "http://127.0.0.1:{plain}"
scopes = ["mcp:tools:execute"]

[[acp.agent]]
name = "hive"
url = "http://127.0.0.1:{plain}"
scopes = ["mcp:tools:execute"]

[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""

SERVICE = """
method = "FETCH"
path = "/weather"
description = "Weather."
namespace = "samples"
errors = ["upstream_timeout", "upstream_connection_error", "upstream_malformed_response",
          "upstream_authentication_failed", "upstream_error"]
output_schema = {{ type = "object" }}

[input_schema]
type = "object"
required = ["town"]
additionalProperties = false
properties = {{ town = {{ type = "string" }} }}

[semantic]
intent = "Get weather."
actor = "agent"
outcome = "It is known."
capability = "retrieval"
confidence = 0.9
impact = "informational"
is_idempotent = true

[handler]
type = "external_service"
url = "https://localhost:{secure}/v1/{{town}}/today"
method = "GET"
ca = "../state/ca.pem"
allow_addresses = ["127.0.0.1/32", "::1/128"]
"""


class Noting:
    """An A2A agent, an ACP server and an HTTPS service in one, which notes what it is told of the trace."""

    def __init__(self, state: Path) -> None:
        noting = self
        self.told: list[tuple[str, dict[str, str]]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(noting.document(self.path))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/rpc":
                    message = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "well"}]}
                    self.answer({"jsonrpc": "2.0", "id": 1, "result": {"message": message}})
                else:
                    run = {
                        "run_id": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
                        "agent_name": "worker",
                        "status": "completed",
                        "output": [],
                    }
                    run["created_at"] = "2026-11-22T00:00:00Z"
                    streamed = self.headers["Accept"] == "text/event-stream"
                    self.answer({"type": "run.completed", "run": run} if streamed else run, streamed=streamed)

            def answer(self, value: Any, *, streamed: bool = False) -> None:
                noting.told.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                body = json.dumps(value).encode()
                body = b"data: " + body + b"\n\n" if streamed else body
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        self.plain, self.secure = (int(server.server_address[1]) for server in self.servers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(state / "server.pem", state / "server.key")
        self.servers[1].socket = context.wrap_socket(self.servers[1].socket, server_side=True)

    def document(self, path: str) -> Any:
        if path.startswith("/agents"):
            return {"agents": [{"name": "worker", "description": "Works."}]}
        if path.startswith("/v1/"):
            return {"weather": "fair"}
        interface = {
            "url": f"http://127.0.0.1:{self.plain}/rpc",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        more = {"supportedInterfaces": [interface], "capabilities": {}, "skills": []}
        return {"name": "moody", "description": "Moods.", "version": "1", **more}

    def place(self, path: str) -> tuple[str, str]:
        """The trace and the span that its last request of a path names."""
        fields = [fields for asked, fields in self.told if asked.startswith(path)][-1]
        found = PLACE.fullmatch(fields.get("traceparent", ""))
        assert found is not None, fields
        return found[1], found[2]


@contextmanager
def noting(state: Path) -> Iterator[Noting]:
    found = Noting(state)
    for server in found.servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    for server in found.servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture(scope="module")
def front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = sample(tmp_path_factory.mktemp("traced"))
    agents = [config.parent / "agents" / "librarian.agent.json"]
    provision_development(config.parent / "state", server_id="localhost", hosted=agents)
    return config


@pytest.fixture(scope="module")
def upstream(config: Path) -> Iterator[Noting]:
    with noting(config.parent / "state") as found:
        yield found


@pytest.fixture(scope="module")
def host(config: Path, upstream: Noting, front: int, collector: Collector) -> Iterator[Host]:
    state, endpoints = config.parent / "state", config.parent / "endpoints"
    agent_id = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    text = (endpoints / "text.toml").read_text()
    (endpoints / "text.toml").write_text('min_assurance = "header"\n' + text)
    (endpoints / "weather.toml").write_text(SERVICE.format(secure=upstream.secure))
    more = UPSTREAMS.format(plain=upstream.plain, front=front, agent_id=agent_id)
    config.write_text(config.read_text() + traces(collector) + servers() + more)
    with running(config) as started:
        until(lambda: "the A2A front is served" in started.output)
        yield started


@pytest.fixture(scope="module")
def demo(host: Host) -> Iterator[Client]:
    agent = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as found:
        yield found


@pytest.mark.parametrize(
    ("path", "call", "name", "asked"),
    [
        (
            "/a2a/moody",
            {
                "action": "a2a.message.send",
                "payload_type": A2A,
                "payload": {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "tell-no-one"}]}},
            },
            "SendMessage",
            "/rpc",
        ),
        (
            "/acp/hive",
            {
                "action": "acp.runs.create",
                "payload_type": ACP,
                "payload": {
                    "agent_name": "worker",
                    "input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": "tell-no-one"}]}],
                },
            },
            "POST /runs",
            "/runs",
        ),
        (
            "/acp/hive",
            {
                "action": "acp.runs.create",
                "payload_type": ACP,
                "payload": {
                    "agent_name": "worker",
                    "mode": "async",
                    "input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": "tell-no-one"}]}],
                },
            },
            "POST /runs",
            "/runs",
        ),
    ],
    ids=["a2a", "acp-streamed", "acp"],
)
def test_agents_behind_the_host_are_told(
    host: Host, demo: Client, upstream: Noting, collector: Collector, path: str, call: Any, name: str, asked: str
) -> None:
    """By the field of HTTP, which names the host's request, and never the caller's span."""
    reply = demo.call(host.uri, "EXECUTE", path, call, headers=[("traceparent", GIVEN)])
    assert reply.ok, reply.body
    told = upstream.place(asked)
    assert told[0] == TRACE and told[1] != PARENT
    until(lambda: told[1] in {span.span_id for span in collector.of(TRACE)})
    (span,) = [span for span in collector.of(TRACE) if span.span_id == told[1]]
    assert (span.kind, span.name) == ("client", name)
    assert b"tell-no-one" not in collector.octets


def test_a_service_is_told(host: Host, demo: Client, upstream: Noting, collector: Collector) -> None:
    """The span has the template of its URL, and not what a caller filled in."""
    reply = demo.call(host.uri, "FETCH", "/weather", {"town": "tell-no-one"}, headers=[("traceparent", GIVEN)])
    assert reply.ok and reply.result == {"weather": "fair"}, reply.body
    told = upstream.place("/v1/tell-no-one/today")
    spans = collector.wait(TRACE, "GET /v1/{town}/today", "FETCH /weather")
    span = spans["GET /v1/{town}/today"]
    assert told == (TRACE, span.span_id)
    assert span.attributes["server.address"] == "localhost"
    assert b"tell-no-one" not in collector.octets


@each_row(
    ("fields", "taken"),
    [
        ([("traceparent", GIVEN), ("tracestate", "vendor=1")], True),
        ([("traceparent", GIVEN), ("traceparent", GIVEN)], False),
        ([("traceparent", GIVEN.upper())], False),
        ([("traceparent", GIVEN + "-more")], False),
        ([("tracestate", "vendor=1")], False),
    ],
    ids=["named", "twice", "capitals", "longer", "alone"],
)
def test_clients_of_the_front_name_their_trace(
    host: Host, front: int, collector: Collector, fields: list[tuple[str, str]], taken: bool
) -> None:
    """By the fields of HTTP; what is malformed counts as absent, and the call is made all the same."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    sent = [("A2A-Version", "1.0"), ("Content-Type", "application/json"), *fields]
    answer = httpx.post(f"http://127.0.0.1:{front}/agents/librarian", json=body, headers=sent, timeout=30)
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", answer.text
    recorded = host.agtp_json("audit", "get", task["metadata"]["agtp.audit_id"])["payload"]["extra"]["trace"]
    assert (recorded.get("parent_id"), recorded["trace_id"] == TRACE) == ((PARENT if taken else None), taken)
    spans = collector.wait(recorded["trace_id"], "ECHO /text")
    assert spans["ECHO /text"].state == ("vendor=1" if taken else "")


# The bridge


def bridged(host: Host, **environ: str) -> StdioServerParameters:
    found = stdio(host)
    return found.model_copy(update={"env": {**(found.env or {}), **environ}})


def asked_through(host: Host, era: str, meta: dict[str, Any], **environ: str) -> dict[str, Any]:
    """What a server behind host and bridge is told in ``_meta``, whatever its client sends there."""

    async def story() -> str:
        async with McpClient(bridged(host, **environ), mode=era) as mcp:
            return said(await mcp.call_tool("meta__meta", {}, meta=meta))

    found: dict[str, Any] = json.loads(anyio.run(story))
    return found


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
def test_client_bridge_host_and_server_are_one_trace(host: Host, collector: Collector, era: str) -> None:
    """With spans of the bridge's own between, where the environment says where they go."""
    told = asked_through(host, era, {"traceparent": GIVEN}, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    place = PLACE.fullmatch(told["traceparent"])
    assert place is not None and place[1] == TRACE
    # The last that is delivered are the bridge's: it sends them when it ends.
    until(lambda: any(span.service == "agtp-mcp-bridge" and "tools/call" in span.name for span in collector.of(TRACE)))
    until(lambda: {place[2]} <= {span.span_id for span in collector.of(TRACE)})
    by_id = {span.span_id: span for span in collector.of(TRACE)}
    way, at = [], place[2]
    while at in by_id:
        way.append((by_id[at].service, by_id[at].kind, by_id[at].name))
        at = by_id[at].parent_id
        until(lambda at=at: at == PARENT or at in {span.span_id for span in collector.of(TRACE)})
        by_id = {span.span_id: span for span in collector.of(TRACE)}
    assert at == PARENT
    assert way == [
        ("agtphost", "client", "tools/call meta"),
        ("agtphost", "internal", "handler"),
        ("agtphost", "server", "EXECUTE meta.meta"),
        ("agtp-mcp-bridge", "server", "tools/call meta__meta"),
    ]


def test_a_bridge_without_a_collector_passes_its_clients_trace_on(host: Host, collector: Collector) -> None:
    """And one that is started in a trace has that for requests which name none."""
    told = asked_through(host, "2026-07-28", {}, TRACEPARENT=f"00-{'5' * 32}-{'6' * 16}-01")
    assert told["traceparent"].split("-")[1] == "5" * 32
    spans = collector.wait("5" * 32, "EXECUTE meta.meta")
    assert spans["EXECUTE meta.meta"].parent_id == "6" * 16
    named = asked_through(
        host, "2026-07-28", {"traceparent": f"00-{'7' * 32}-{'8' * 16}-01"}, TRACEPARENT="00-malformed"
    )
    assert named["traceparent"].split("-")[1] == "7" * 32


# Another host


def test_two_hosts_are_one_trace(tmp_path: Path, collector: Collector) -> None:
    """DELEGATE goes on in the trace of its caller: the call of the other host is below this one's request."""
    pair = Pair(tmp_path)
    for name, config in (("front", pair.front), ("back", pair.back)):
        config.write_text(config.read_text() + traces(collector, f'service_name = "{name}"'))
    trace_id = "9" * 32
    with pair.running() as (front, _), pair_demo(front) as client:
        fields = [("traceparent", f"00-{trace_id}-{PARENT}-01")]
        reply = client.call(front.uri, "DELEGATE", input=pair.asked(pair.archivist), task_id=TASK_ID, headers=fields)
        assert reply.ok, reply.body
        until(lambda: {"front", "back"} <= {span.service for span in collector.of(trace_id) if span.kind == "server"})
        until(lambda: any(span.kind == "client" for span in collector.of(trace_id)))
        (request,) = [span for span in collector.of(trace_id) if span.kind == "client"]
        assert (request.service, request.name) == ("front", "DELEGATE")
        until(lambda: any(span.parent_id == request.span_id for span in collector.of(trace_id)))
        (below,) = [span for span in collector.of(trace_id) if span.parent_id == request.span_id]
        assert (below.service, below.kind) == ("back", "server")


# Collectors that are none


@contextmanager
def mute() -> Iterator[int]:
    """Takes connections, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize("kind", ["dead", "mute"])
def test_a_collector_that_takes_nothing_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    """Calls are answered as ever, metrics count what is lost, and a stop waits a second or two: not for a minute."""
    with mute() as port:
        url = f'endpoint = "http://127.0.0.1:{port if kind == "mute" else free_port()}"'
        watched = free_port()
        traced = f"\n[traces]\n{url}\ntimeout = {60 if kind == 'mute' else 0.2}\n"
        told = f'\n[metrics]\nlisten = "tcp:{watched}:interface=127.0.0.1"\n'
        config = sample(tmp_path, append=traced + told)
        with running(config) as host:
            agent = host.state / "agents" / "demo"
            with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as client:
                for number in range(20):
                    assert client.call(host.uri, "ECHO", "/text", {"text": str(number)}).ok
                if kind == "dead":
                    until(lambda: "does not take spans" in host.output)
                    assert scrape(watched)["agtphost_spans_lost_total", (("why", "undelivered"),)] >= 1
                    assert client.call(host.uri, "ECHO", "/text", {"text": "still"}).ok
            began = time.monotonic()
            assert host.stop() == 0
            assert time.monotonic() - began < 20
        assert host.output.count("does not take spans") == (kind == "dead")
        assert re.search(r"traces: [0-9]+ spans were not delivered", host.output)
        assert "Traceback" not in host.output and "opentelemetry" not in host.output


@pytest.mark.release
def test_without_the_extra_the_section_is_a_start_error(tmp_path: Path) -> None:
    """It says what to install, and with its line."""
    config = sample(tmp_path, append='\n[traces]\nendpoint = "http://127.0.0.1:4318"\n')
    environ = hidden("opentelemetry.exporter")(config)
    line = config.read_text().splitlines().index("[traces]") + 1
    for command in (["twistd", "-n", "--pidfile=", "agtp", "--config"], ["agtp", "check"]):
        # Processes of their own: those that tests fork have imported everything.
        words = [str(BIN / command[0]), *command[1:], str(config)]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=120, cwd=config.parent, env={**os.environ, **environ}
        )
        assert done.returncode != 0
        assert "pip install 'agtphost[traces]'" in done.stdout + done.stderr
        assert f"host.toml:{line}" in done.stdout + done.stderr


def test_secrets_of_the_collector_are_in_no_line(host: Host, tmp_path: Path, collector: Collector) -> None:
    """They come from the environment or a file, go to the collector, and nowhere else."""
    more = traces(collector, 'headers = { "x-key" = "env:COLLECTOR_KEY" }', 'service_name = "keyed"')
    config = sample(tmp_path, append=more)
    with running(config, environ={"COLLECTOR_KEY": "tell-no-one-at-all"}) as keyed:
        agent = keyed.state / "agents" / "demo"
        with Client(trust=keyed.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as client:
            assert client.call(keyed.uri, "ECHO", "/text", {"text": "hello"}).ok
        until(lambda: any(fields.get("x-key") == "tell-no-one-at-all" for _, fields in collector.requests))
    assert "tell-no-one-at-all" not in keyed.output
    assert any(span.service == "keyed" for span in collector.spans)
    assert os.environ.get("COLLECTOR_KEY") is None
