"""``agtp audit search`` of a real host, running and stopped, and the filter language of the other commands."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.vocabulary.display_names import NAMES_BELIEVED
from tests.system.hosting import Host, agtp, running, sample

TOOL = "files.list_files"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host on which demo called a tool, and was refused by an endpoint that does not exist."""
    with running(sample(tmp_path_factory.mktemp("searched"))) as started:
        for _ in range(3):
            assert started.agtp("tools", "call", TOOL).returncode == 0
        assert started.agtp("call", "-", "DISCOVER", "/nothing").returncode == 1
        yield started


def found(host: Host, *words: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = host.agtp_json("audit", "search", *words)
    assert all(entry["verified"] for entry in entries)
    assert [entry["number"] for entry in entries] == sorted({entry["number"] for entry in entries}, reverse=True)
    return entries


def test_a_filter_as_text_and_as_options_finds_the_same(host: Host) -> None:
    """The calls of a tool between two times are one command; each record is verified."""
    as_text = found(host, f"tool:{TOOL} agent:demo from:-1h until:now", "--all")
    as_options = found(host, "--tool", TOOL, "--agent", "demo", "--from", "-1h", "--until", "now", "--all")
    assert len(as_text) == 3 and [each["audit_id"] for each in as_text] == [each["audit_id"] for each in as_options]
    assert {each["payload"]["extra"]["mcp_tool"] for each in as_text} == {"list_files"}
    refused = found(host, "status:4xx", "caller:demo", "nothing")
    assert [each["payload"]["path"] for each in refused] == ["/nothing"]
    assert not found(host, "--tool", TOOL, "--until", "-1h") and len(found(host, "-n", "2")) == 2


def test_tables_and_counts(host: Host) -> None:
    """People get a table, spreadsheets CSV; counts are by tool, agent, status and hour."""
    table = host.agtp("audit", "search", "--tool", TOOL)
    assert table.stdout.splitlines()[0].split() == ["NUMBER", "ISSUED", "STATUS", "WHAT", "CALLER", "AUDIT-ID"]
    assert table.stdout.count(TOOL) == 3 and table.stdout.count("demo") == 3
    rows = list(csv.DictReader(host.agtp("audit", "search", "--tool", TOOL, "--csv").stdout.splitlines()))
    assert {(row["called"], row["caller"], row["status"], row["verified"]) for row in rows} == {
        (TOOL, "demo", "200", "yes")
    }
    ids = host.agtp("audit", "search", "--tool", TOOL, "--ids").stdout.split()
    assert ids == [row["audit_id"] for row in rows]
    by_tool = {
        each["value"]: each["records"] for each in host.agtp_json("audit", "search", "--count", "tool")["counts"]
    }
    assert by_tool[TOOL] == 3 and by_tool["DISCOVER"] >= 1
    by_status = host.agtp_json("audit", "search", "--tool", TOOL, "--count", "status")
    assert by_status == {"count": "status", "counts": [{"value": "200", "records": 3}]}
    by_agent = host.agtp("audit", "search", "--tool", TOOL, "--count", "agent")
    assert by_agent.stdout.split()[:4] == ["AGENT", "RECORDS", "demo", "3"]
    assert NAMES_BELIEVED in by_agent.stderr, "a development host counts calls that only named the agent"
    assert NAMES_BELIEVED not in host.agtp("audit", "search", "--count", "tool").stderr
    hours = host.agtp("audit", "search", "--tool", TOOL, "--count", "hour", "--csv").stdout.splitlines()
    assert hours[0] == "hour,records" and sum(int(line.split(",")[1]) for line in hours[1:]) == 3


def test_a_caller_that_was_only_named_is_listed_as_unproven(host: Host, tmp_path: Path) -> None:
    """Text, JSON, CSV and reports tell a caller that a header named from one that a certificate proved."""
    assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt", "--no-cert").returncode == 1
    assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 0
    words = ("audit", "search", "--tool", "files.read_file")
    for command in (words, ("audit", "search", "--offline", *words[2:]), ("audit", "walk", "host", *words[2:])):
        listed = host.agtp(*command).stdout
        assert listed.count("demo (unproven)") == 1, listed
        assert {each["caller_proven"] for each in host.agtp_json(*command)} <= {True, False}
    proven = {each["payload"]["status"]: each["caller_proven"] for each in host.agtp_json(*words)}
    assert proven == {401: False, 200: True}
    sent = ("call", "-", "INSPECT", "/", "target=records", "filter=tool:files.read_file", "--as", "registrar")
    assert {
        each["status"]: each["caller_proven"] for each in host.agtp_json(*sent)["body"]["result"]["records"]
    } == proven
    rows = csv.DictReader(host.agtp(*words, "--csv").stdout.splitlines())
    assert {row["status"]: row["caller"] for row in rows} == {"401": "demo (unproven)", "200": "demo"}
    export, page = tmp_path / "all.jsonl", tmp_path / "all.html"
    assert host.agtp("audit", "export", "-o", str(export)).returncode == 0
    assert host.agtp("audit", "report", str(export), "-o", str(page)).returncode == 0
    assert "<td>demo (unproven)</td>" in page.read_text()
    (refused,) = host.agtp(*words, "--status", "401", "--ids").stdout.split()
    assert "demo (unproven) called files.read_file" in host.agtp("explain", refused).stdout


def test_the_other_commands_take_the_same_filter(host: Host, tmp_path: Path) -> None:
    """walk, export and report select by the same options, or by a text."""
    walked = host.agtp_json("audit", "walk", "host", "--filter", "caller:demo status:404 from:-1h")
    assert [each["payload"]["path"] for each in walked] == ["/nothing"]
    export = tmp_path / "calls.jsonl"
    assert host.agtp("audit", "export", "--tool", TOOL, "--from", "-1h", "-o", str(export)).returncode == 0
    records = [json.loads(line) for line in export.read_text().splitlines() if '"signed"' in line]
    assert len(records) == 3
    everything, table = tmp_path / "all.jsonl", tmp_path / "all.csv"
    assert host.agtp("audit", "export", "-o", str(everything)).returncode == 0
    made = host.agtp("audit", "report", str(everything), "--csv", str(table), "--status", "404")
    assert made.returncode == 0, made.stderr
    assert {row["status"] for row in csv.DictReader(table.read_text().splitlines())} == {"404"}
    assert "follow goes on until" in host.agtp("audit", "follow", "--filter", "until:now").stderr


def test_what_is_wrong_is_named(host: Host) -> None:
    """A value that cannot be used is exit status 2 with what to write; the host names it as well."""
    for words, said in (
        (("--status", "abc"), "Write a number from 100 to 999, or a class such as 4xx."),
        (("--from", "2026-11-27T10:00"), "Write 2026-11-27T10:00Z for UTC"),
        (("agnet:demo",), "Did you mean agent?"),
        (("x" * 10_000,), "has 10000 characters"),
        (("--csv", "--json"), "Give one of them."),
    ):
        done = host.agtp("audit", "search", *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    unknown = host.agtp("audit", "search", "agent:unknown")
    assert unknown.returncode == 1 and "'unknown' is not the name of an agent here" in unknown.stderr
    counted = host.agtp("audit", "search", "some text", "--count", "tool")
    assert counted.returncode == 1 and "Leave text out." in counted.stderr


def test_a_search_without_a_record_says_so(host: Host) -> None:
    """On standard error; a tool without its server is named as the likely cause."""
    assert host.agtp("audit", "search", "path:/nowhere-at-all").stderr == "no record matches\n"
    wrong = host.agtp("audit", "search", "tool:files.list_fils")
    assert "if the name is misspelt: `agtp tools ls` lists them" in wrong.stderr
    short = host.agtp("audit", "search", "tool:list_files")
    assert short.returncode == 0 and "named SERVER.TOOL" in short.stderr, short.stderr
    walked = host.agtp("audit", "walk", "host", "--filter", "status=4xx", "--as", "registrar")
    assert "status=4xx is looked for as a text: write status:4xx" in walked.stderr, walked.stderr


def test_a_stopped_store_is_searched(tmp_path: Path) -> None:
    """``--offline`` reads the store; names are those of the agents on this machine."""
    config = sample(tmp_path)
    with running(config) as host:
        assert host.agtp("tools", "call", TOOL).returncode == 0
    done = agtp("audit", "search", "--offline", "--json", "--agent", "demo", "--tool", TOOL, cwd=config.parent)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)
    assert entry["verified"] and entry["payload"]["extra"]["mcp_tool"] == "list_files"
    counted = agtp("audit", "search", "--offline", "--count", "tool", cwd=config.parent)
    assert TOOL in counted.stdout and NAMES_BELIEVED not in counted.stderr
    assert NAMES_BELIEVED in agtp("audit", "search", "--offline", "--count", "agent", cwd=config.parent).stderr
    assert agtp("audit", "search", "agent:demo", cwd=config.parent).returncode == 3


def test_a_counted_read_of_a_list_leads_to_its_summary(host: Host) -> None:
    """Its Audit-ID has no record: the refusal says what happened, and ends in the command that shows the summary."""
    demo = host.state / "agents" / "demo"
    given = {"trust": host.state / "ca.pem", "cert": demo / "agent.pem", "key": demo / "agent.key"}
    with Client(**given) as client:
        first, second = (client.call(host.uri, "DISCOVER", "/tools") for _ in range(2))
    summary_id = str(second.headers.get("audit-summary"))
    refused = host.agtp("audit", "get", str(second.headers.get("audit-id")))
    assert refused.returncode == 1 and "read an unchanged list again" in refused.stderr
    assert f"`agtp audit get {summary_id}`" in refused.stderr
    shown = host.agtp_json("audit", "get", summary_id)
    assert shown["verified"] and shown["payload"]["summary_id"] == summary_id
    assert str(first.headers.get("audit-id")) in json.dumps(shown["payload"])
    unknown = host.agtp("audit", "get", f"{summary_id[:-4]}0000")
    assert unknown.returncode == 2 and "no record of the host is the summary" in unknown.stderr
