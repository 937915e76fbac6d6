"""Frameworks that list tools before each step, through every door: few records, and nothing that acts is counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from agtphost.audit.list_reads import LISTS
from agtphost.audit.summaries import READS
from agtphost.client.mcp import governed_session
from agtphost.identity.jws import parse_unverified, verify
from tests.system.bridging import stdio
from tests.system.gateways import ask, with_gateway
from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink
from tests.system.trail import database, keys, stored, verified

STEPS = 6
"""Steps of each framework: lists of tools, resources and prompts, and a call."""


def payloads(host: Host) -> list[dict[str, Any]]:
    return [parse_unverified(record.signed.decode()) for record in stored(database(host)) if record.format == "jws"]


def lists(host: Host) -> list[dict[str, Any]]:
    return [payload for payload in payloads(host) if payload.get("event_type") == LISTS]


def is_list(payload: dict[str, Any]) -> bool:
    action = str(payload.get("extra", {}).get("action", ""))
    return payload.get("method") == "DISCOVER" or action.endswith(".list")


async def use_bridge(host: Host) -> None:
    """A framework with its own MCP client, through the bridge."""
    async with Client(stdio(host), mode="legacy") as mcp:
        for _ in range(STEPS):
            await mcp.list_tools()
            await mcp.list_resources()
            await mcp.list_prompts()
            assert not (await mcp.call_tool("files__list_files", {})).is_error


async def use_session(host: Host) -> None:
    """A framework with a session in its own process."""
    async with governed_session(host.config, as_="demo") as session:
        for _ in range(STEPS):
            await session.list_tools()
            assert not (await session.call_tool("files__list_files", {})).is_error


def count_session(folder: Path, more: str) -> tuple[Counter[str], int]:
    """Let two frameworks work; return how many records there are of what, and how many reads were counted."""
    folder.mkdir()
    with running(sample(folder, append=more, eager=True)) as host:
        before = len(payloads(host))
        anyio.run(use_bridge, host)
        anyio.run(use_session, host)
        host.stop()
        found = payloads(host)[before:]
        counted = sum(each["count"] for each in lists(host))
        assert verified(host, stored(database(host))).faults == []
    records: Counter[str] = Counter()
    for each in found:
        kind = str(each.get("event_type")) if "event_type" in each else "lists" if is_list(each) else "calls"
        records[kind] += 1
    return records, counted


def test_a_session_of_two_frameworks(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    """All calls have a record, and of the lists one in ten or fewer; both ways of counting them come to the same."""
    whole, none = count_session(tmp_path / "whole", "\n[audit]\nlist_summaries = false\n")
    short, counted = count_session(tmp_path / "short", "")
    record_property("records", json.dumps([whole, short]))
    print("records:", dict(whole), dict(short), "counted:", counted)
    assert none == 0 and whole["calls"] == short["calls"] >= 2 * STEPS
    assert short["lists"] + counted == whole["lists"] >= 4 * STEPS
    assert short["lists"] + short[LISTS] < whole["lists"] / 2


def test_lists_of_every_door_are_counted(tmp_path: Path) -> None:
    """AGTP, and the gateway with its documents: the first read has a record, and later ones name the summary."""
    config, port = with_gateway(tmp_path, eager=True)
    with running(config) as host:
        execute = {"parameters": {"action": "mcp.tools.list", "payload_type": "application/vnd.mcp.tools+json"}}
        with RawLink(host) as link:
            for method, path, body in (
                ("DISCOVER", "/tools", None),
                ("DISCOVER", "/methods", None),
                ("DISCOVER", "/agents", None),
                ("QUERY", "/agents", None),
                ("EXECUTE", "/", execute),
                *(
                    ("EXECUTE", "/", {"parameters": {**execute["parameters"], "action": f"mcp.{kind}.list"}})
                    for kind in ("resources", "resources.templates", "prompts")
                ),
            ):
                first, *again = (link.ask(method, path, body, Task_ID=f"t-{number}") for number in range(3))
                assert first.status == 200, (path, first.body)
                assert "audit-summary" not in first.headers, (method, path)
                for answer in again:
                    record = verify(answer.record, keys(host))
                    assert record["summary_id"] == answer.headers["audit-summary"] and record["durable"] is False
            link.ask("QUERY", "/library/978", None)
            assert "audit-summary" not in link.ask("QUERY", "/library/978", None).headers
        for path in ("/agents", "/.well-known/openapi.json"):
            first, second = (ask(port, "GET", path) for _ in range(2))
            assert (first.status, second.status) == (200, 200), path
            assert "Audit-Summary" not in first.fields and second.fields["Audit-Summary"], path
        walked = host.agtp_json("audit", "walk", "host", "--as", "registrar")
        events = [each for each in walked if each["payload"].get("event_type") == LISTS]
        doors = {entry.get("http", {}).get("surface") for each in events for entry in each["payload"]["lists"]}
        assert doors == {None, "gateway"}
        table = host.agtp("audit", "walk", "host", "--as", "registrar").stdout
        assert "16 further reads of unchanged lists, DISCOVER /agents, DISCOVER /methods" in table
        explained = host.agtp("explain", events[-1]["audit_id"]).stdout
        assert "caller   demo, known by certificate" in explained
        assert "read     mcp.tools.list: 2 times" in explained
        found = host.agtp_json("audit", "search", "--agent", "demo", "--text", "further reads of unchanged lists")
        assert {each["audit_id"] for each in found} == {each["audit_id"] for each in events}
        export = tmp_path / "all.jsonl"
        assert host.agtp("audit", "export", "-o", str(export)).returncode == 0
        assert host.agtp("audit", "verify", "--file", str(export), "--signing-key", "state/signing.pub").returncode == 0
        assert host.agtp("audit", "verify").returncode == 0
        entries = [entry for each in events for entry in each["payload"]["lists"]]
        for entry in entries:
            record = host.agtp_json("audit", "get", entry["record"])
            said = record.get("payload", record)
            assert (said["request_hash"], said["result_hash"]) == (entry["request_hash"], entry["result_hash"])


def test_a_killed_host_loses_counts_and_no_record(tmp_path: Path) -> None:
    """The chain verifies, what was counted before is on record, and each answer has a signed record of its own."""
    with running(sample(tmp_path)) as host:
        with RawLink(host) as link:
            answers = [link.ask("DISCOVER", "/methods") for _ in range(4)]
        host.agtp_json("audit", "walk", "host", "--as", "registrar")
        with RawLink(host) as link:
            link.ask("DISCOVER", "/methods")
        host.process.kill()
        host.process.wait()
        assert [each["count"] for each in lists(host)] == [3], "the fourth read after the summary is lost with the host"
        assert {verify(answer.record, keys(host))["status"] for answer in answers} == {200}
        assert not [each for each in payloads(host) if each.get("event_type") == READS]
    with running(host.config) as host:
        assert host.agtp("audit", "verify").returncode == 0
