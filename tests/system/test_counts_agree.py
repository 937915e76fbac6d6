"""The metrics of a host count the calls that its records prove."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity import envelope
from agtphost.vocabulary.display_names import name_tool
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.scraping import Samples, scrape, total

pytestmark = pytest.mark.slow

TOOLS = "application/vnd.mcp.tools+json"
LISTS = 5
KNOWN = ("files.read_file", "files.list_files")


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Host]:
    config = sample(
        tmp_path_factory.mktemp("counts"),
        append=f'\n[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\nagents = true\n',
        eager=True,
    )
    with running(config) as first:
        made = first.agtp("agent", "new", "clerk", "--scope", "mcp:tools:execute", "--owner", "Somebody")
        assert made.returncode == 0, made.stdout + made.stderr
    with running(config) as host:
        yield host


def tool(client: Client, host: Host, name: str, **arguments: Any) -> None:
    """Call a tool, whatever the answer is."""
    given = {"action": "mcp.tools.call", "payload_type": TOOLS, "payload": {"tool": name, "arguments": arguments}}
    client.call(host.uri, "EXECUTE", "/", given)


def make_calls(host: Host) -> None:
    """Make calls of every kind: answered, refused, streamed, nested, repeated lists, strangers' and operators'."""
    with ExitStack() as stack:

        def client(name: str) -> Client:
            files = host.state / "agents" / name
            pair = (files / "agent.pem", files / "agent.key") if files.is_dir() else (None, None)
            return stack.enter_context(Client(trust=host.state / "ca.pem", cert=pair[0], key=pair[1]))

        demo, clerk, stranger = client("demo"), client("clerk"), client("no such agent")
        for _ in range(3):
            demo.call(host.uri, "ECHO", "/text", {"text": "one two"})
        assert len(list(demo.stream(host.uri, "ECHO", "/text", {"text": "one two three"}))) > 1
        demo.call(host.uri, "BOOK", "/reading", {})
        demo.call(host.uri, "QUERY", "/nothing-is-here", {})
        for caller in (demo, clerk):
            tool(caller, host, "files.read_file", path="welcome.txt")
            tool(caller, host, "files.read_file")
            tool(caller, host, "files.nothing")
            for _ in range(LISTS):
                caller.call(host.uri, "DISCOVER", "/tools", {})
        clerk.call(host.uri, "BOOK", "/room", {})
        for _ in range(4):
            stranger.call(host.uri, "QUERY", "/library/1", {})
            stranger.call(host.uri, "DISCOVER", "/tools", {})
    for words in (("agent", "rights", "demo"), ("agent", "limit", "clerk", "files.list_files", "--yes")):
        done = host.agtp(*words)
        assert done.returncode == 0, done.stdout + done.stderr


def payloads(export: Path) -> list[Mapping[str, Any]]:
    """Return the signed members of each record and event of an export."""
    found = []
    for line in export.read_text().splitlines():
        entry = json.loads(line)
        if "signed" in entry:
            signed = envelope.from_text(entry["format"], entry["signed"])
            found.append({**envelope.parse_unverified(entry["format"], signed), "kind": entry["kind"]})
    return found


def calls_of(found: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the members of each call that records and summaries prove."""
    calls: list[Mapping[str, Any]] = []
    for each in found:
        if each["kind"] == "record":
            # An interim message of a stream has a record, and ends no call.
            if each["status"] != 202 or "reason" in each:
                calls.append(each)
        elif each["event_type"] == "lists_summed_up":
            for listed in each["lists"]:
                counted = {"method": listed["method"], "status": 200, "caller_id": each["caller_id"]}
                calls += [counted] * listed["count"]
        elif "summary_id" in each:
            raise AssertionError(f"the test makes no calls that are summed up otherwise: {each}")
    return calls


def counted(samples: Samples, name: str, *labels: str) -> dict[Any, float]:
    """Return the values of a metric by labels."""
    return {
        tuple(dict(found)[label] for label in labels): value
        for (metric, found), value in samples.items()
        if metric == name
    }


def searched(host: Host, field: str) -> dict[str, int]:
    """Return what a search counts by a field."""
    counts = host.agtp_json("audit", "search", "--offline", "--count", field)["counts"]
    return {each["value"]: each["records"] for each in counts}


def test_metrics_count_what_an_export_and_a_search_have(host: Host, port: int, tmp_path: Path) -> None:
    """Over the same calls; what a summary counts has no record of its own."""
    make_calls(host)
    # An operator who reads this chain has what is counted written first.
    assert host.agtp("audit", "walk", "host", "-n", "1", "--as", "registrar").returncode == 0
    export = tmp_path / "all.jsonl"
    assert host.agtp("audit", "export", "-o", str(export)).returncode == 0
    found = payloads(export)
    # Metrics begin with the process: the host that issued the agent counted its own calls.
    calls = calls_of(found)
    until(lambda: total(scrape(port), "agtphost_calls_total") == len(calls))
    samples = scrape(port)
    by_status = Counter((each["method"], str(each["status"]), each.get("reason", "")) for each in calls)
    assert counted(samples, "agtphost_calls_total", "method", "status", "reason") == by_status
    documents = (host.state / "agents").glob("*/document.json")
    names = {json.loads(file.read_text())["agent_id"]: file.parent.name for file in documents}
    by_agent = Counter((names.get(each.get("caller_id", ""), "none"),) for each in calls)
    assert counted(samples, "agtphost_agent_calls_total", "agent") == by_agent
    by_operator = Counter((each["operator"]["name"],) for each in calls if "operator" in each)
    assert counted(samples, "agtphost_operator_calls_total", "operator") == by_operator
    tools = Counter(
        (tool, "refused" if "reason" in each else "answered") for each in calls if (tool := name_tool(each)) in KNOWN
    )
    called = counted(samples, "agtphost_called_total", "called", "outcome")
    assert {key: value for key, value in called.items() if key[0] in KNOWN} == tools
    # A search counts records: events and interim messages too, and a summary as one.
    assert searched(host, "status") == Counter(str(each["status"]) for each in found)
    assert searched(host, "operator") == Counter(each.get("operator", {}).get("name", "") for each in found)
    proven = Counter(each["caller_id"] for each in found if each["kind"] == "record" and each.get("caller_id"))
    assert {agent: count for agent, count in searched(host, "agent").items() if agent in proven} == proven + Counter(
        each["caller_id"] for each in found if each["kind"] == "event" and each.get("caller_id")
    )
    of_tools = {name: count for name, count in searched(host, "tool").items() if name in KNOWN}
    assert of_tools == Counter(filter(KNOWN.__contains__, map(name_tool, found)))
