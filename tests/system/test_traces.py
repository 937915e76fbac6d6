"""Traces, seen from where they arrive: a collector, and what stands behind the host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from agtphost.identity.jws import parse_unverified
from tests import forking
from tests.system.collector import Collector, collecting
from tests.system.hosting import BIN, Host, running, sample, until

MCP = "application/vnd.mcp.tools+json"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{PARENT}-01"
SERVER = """
[[mcp.server]]
name = "meta"
command = {command}

[[mcp.server]]
name = "older"
command = {command}
protocol = "2025-06-18"

[[mcp.server]]
name = "down"
command = ["false"]
start = "lazy"
start_timeout = 5
"""


def servers() -> str:
    """Their sections."""
    return SERVER.format(command=json.dumps(forking.mcp_server(Path(__file__).with_name("meta_server.py"))))


def traces(collector: Collector, *lines: str) -> str:
    """The section that sends spans there."""
    return "\n".join(("", "[traces]", f'endpoint = "{collector.url}"', *lines, ""))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("traces"), append=traces(collector) + servers())
    with running(config) as started:
        yield started


@pytest.fixture(scope="module")
def demo(host: Host) -> Iterator[Client]:
    agent = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as found:
        yield found


def tool(host: Host, client: Client, name: str, *, headers: Any = (), meta: Any = None, **arguments: object) -> Reply:
    """One tool call."""
    payload = {"tool": f"meta.{name}", "arguments": arguments, **({"_meta": meta} if meta else {})}
    given = {"action": "mcp.tools.call", "payload_type": MCP, "payload": payload}
    return client.call(host.uri, "EXECUTE", input=given, headers=list(headers))


def trace_of(reply: Reply) -> dict[str, str]:
    """What the record of an answer says of its trace."""
    found: dict[str, str] = parse_unverified(reply.record or "")["extra"]["trace"]
    return found


def test_a_tool_call_is_one_trace_from_the_client_to_the_server(host: Host, demo: Client, collector: Collector) -> None:
    """The host's span is below the client's, the request to the server below the host's, and the server is told so."""
    reply = tool(host, demo, "meta", headers=[("traceparent", GIVEN), ("tracestate", "vendor=1")], secret="tell-no-1")
    told = json.loads(reply.result["tool_response"]["content"][0]["text"])
    spans = collector.wait(TRACE, "EXECUTE meta.meta", "tools/call meta", "gates", "handler", "ledger")
    call, request = spans["EXECUTE meta.meta"], spans["tools/call meta"]
    assert (call.kind, call.parent_id, call.state) == ("server", PARENT, "vendor=1")
    assert {spans[part].parent_id for part in ("gates", "handler", "ledger")} == {call.span_id}
    assert (request.kind, request.parent_id) == ("client", spans["handler"].span_id)
    assert told["traceparent"] == f"00-{TRACE}-{request.span_id}-01"
    assert told["tracestate"] == "vendor=1"
    assert call.attributes["agtp.audit_id"] == reply.audit_id
    assert call.attributes["agtp.status"] == 200
    assert call.attributes["agtp.agent"] == "demo"
    assert call.attributes["agtp.tool"] == "meta.meta"
    assert request.attributes["gen_ai.tool.name"] == "meta"
    assert b"tell-no-1" not in collector.octets
    assert not call.error and not request.error
    assert call.began <= spans["gates"].began <= spans["handler"].began <= request.began
    assert request.ended <= spans["handler"].ended <= spans["ledger"].ended <= call.ended


def test_a_trace_that_a_caller_writes_into_meta_does_not_reach_the_server(
    host: Host, demo: Client, collector: Collector
) -> None:
    """What the server is told is the call's own place; the rest of the caller's ``_meta`` is as it was."""
    meta = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "forged=1", "kept": "yes"}
    reply = tool(host, demo, "meta", meta=meta)
    told = json.loads(reply.result["tool_response"]["content"][0]["text"])
    recorded = trace_of(reply)
    assert told["kept"] == "yes"
    assert told["traceparent"].split("-")[1] == recorded["trace_id"] != "1" * 32
    assert "tracestate" not in told
    assert collector.wait(recorded["trace_id"], "tools/call meta")


def test_servers_of_the_handshake_era_are_told_alike(host: Host, demo: Client, collector: Collector) -> None:
    """``_meta`` is theirs too."""
    given = {"action": "mcp.tools.call", "payload_type": MCP, "payload": {"tool": "older.meta", "arguments": {}}}
    reply = demo.call(host.uri, "EXECUTE", input=given)
    told = json.loads(reply.result["tool_response"]["content"][0]["text"])
    spans = collector.wait(trace_of(reply)["trace_id"], "EXECUTE older.meta", "tools/call meta")
    request = spans["tools/call meta"]
    assert told["traceparent"].rpartition("-")[0] == f"00-{request.trace_id}-{request.span_id}"
    assert request.attributes["mcp.protocol.version"] == "2025-06-18"


def test_what_is_read_is_in_no_span(host: Host, demo: Client, collector: Collector) -> None:
    """Reads and prompts have spans by their kind: a URI is the caller's word."""
    uri = "note://x/tell-no-one"
    given = {
        "action": "mcp.resources.read",
        "payload_type": "application/vnd.mcp.resources+json",
        "payload": {"uri": uri, "server": "meta"},
    }
    reply = demo.call(host.uri, "EXECUTE", input=given)
    assert reply.result["mcp_response"]["contents"][0]["text"] == "the note x", reply.body
    spans = collector.wait(trace_of(reply)["trace_id"], "resources/read", "ledger")
    assert spans["resources/read"].kind == "client"
    until(lambda: any(span.kind == "server" for span in collector.of(trace_of(reply)["trace_id"])))
    assert b"tell-no-one" not in collector.octets


def test_a_tool_that_nobody_listed_is_in_no_span(host: Host, demo: Client, collector: Collector) -> None:
    """Of a server that is down nobody knows whether it has such a tool: its name is the caller's word."""
    given = {"action": "mcp.tools.call", "payload_type": MCP, "payload": {"tool": "down.tell-no-one", "arguments": {}}}
    reply = demo.call(host.uri, "EXECUTE", input=given)
    assert reply.status >= 500
    spans = collector.wait(trace_of(reply)["trace_id"], "EXECUTE /mcp/down", "tools/call")
    assert spans["EXECUTE /mcp/down"].error and spans["tools/call"].error
    assert spans["EXECUTE /mcp/down"].attributes["error.type"] == reply.reason
    assert b"tell-no-one" not in collector.octets


def test_a_tool_that_fails_is_an_error_of_its_request_alone(host: Host, demo: Client, collector: Collector) -> None:
    """Its answer is an answer: the call itself is none."""
    reply = tool(host, demo, "broken")
    assert reply.status == 200 and reply.result["tool_response"]["isError"] is True
    spans = collector.wait(trace_of(reply)["trace_id"], "EXECUTE meta.broken", "tools/call broken")
    request = spans["tools/call broken"]
    assert (request.error, request.attributes["error.type"]) == (True, "tool_error")
    assert not spans["EXECUTE meta.broken"].error
    assert b"it is broken" not in collector.octets


def test_a_recipes_calls_are_of_its_trace(host: Host, demo: Client, collector: Collector) -> None:
    """Each step is a call of its own below the recipe's handler."""
    given = {"isbn": "9780141439518", "arrival": "2026-12-01", "departure": "2026-12-03"}
    reply = demo.call(host.uri, "BOOK", "/reading", given)
    assert reply.ok, reply.body
    trace_id = trace_of(reply)["trace_id"]
    spans = collector.wait(trace_id, "QUERY /library/{isbn}", "BOOK /room", "BOOK /reading")
    top = spans["BOOK /reading"]
    (handler,) = [span for span in collector.of(trace_id) if span.name == "handler" and span.parent_id == top.span_id]
    assert spans["QUERY /library/{isbn}"].parent_id == spans["BOOK /room"].parent_id == handler.span_id


def test_the_pages_commands_show_the_trace(host: Host, collector: Collector) -> None:
    """docs/traces.rst: ``agtp call --traceparent``, ``$TRACEPARENT``, and ``agtp explain``."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "traces.rst").read_text()
    assert f"agtp call - ECHO /text text=hello --traceparent {GIVEN} -i\n" in page
    done = host.agtp("call", "-", "ECHO", "/text", "text=hello", "--traceparent", GIVEN, "-i")
    assert done.returncode == 0, done.stderr
    (audit_id,) = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("Audit-ID: ")]
    told = host.agtp("explain", audit_id).stdout
    (line,) = [line for line in told.splitlines() if line.startswith("  trace ")]
    shown = json.loads(line.split(maxsplit=1)[1])
    assert (shown["trace_id"], shown["parent_id"]) == (TRACE, PARENT)
    calls = [span for span in collector.of(TRACE) if span.name == "ECHO /text"]
    collector.wait(TRACE, "ECHO /text")
    calls = [span for span in collector.of(TRACE) if span.name == "ECHO /text"]
    assert shown["span_id"] in {span.span_id for span in calls}
    refused = host.agtp("call", "-", "DISCOVER", "--traceparent", "00-zz")
    assert refused.returncode == 2 and "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" in refused.stderr


@pytest.mark.parametrize(("value", "taken"), [(GIVEN, True), ("malformed", False)])
def test_the_environment_names_a_trace(host: Host, value: str, taken: bool) -> None:
    """What is malformed there is left out, as the standard has it."""
    done = forking.run(
        [BIN / "agtp", "call", "-", "ECHO", "/text", "text=hello", "--json"],
        timeout=60,
        env={**os.environ, "TRACEPARENT": value},
        cwd=host.config.parent,
    )
    assert done.returncode == 0, done.stderr
    told = host.agtp_json("explain", json.loads(done.stdout)["audit_id"])
    assert (told["payload"]["extra"]["trace"].get("parent_id") == PARENT) is taken
