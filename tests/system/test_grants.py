"""What a host lets its agents call: by the operator's commands, on a host in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.hosting import Host, agtp, running, sample


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all, whose agent demo each test leaves as it was."""
    with running(sample(tmp_path_factory.mktemp("grants"))) as started:
        yield started


def test_one_command_leaves_an_agent_one_tool(host: Host) -> None:
    """From the next request on, by the list and by calls alike; a tool of a server that nobody has called is known."""
    wrong = host.agtp("agent", "grant", "demo", "files.read_fil")
    assert wrong.returncode == 1 and "files.read_file" in wrong.stderr
    assert host.agtp("tools", "call", "files.list_files").returncode == 0, "nothing was granted, and nobody narrowed"
    done = host.agtp("agent", "grant", "demo", "files.read_file", "--for", "7d")
    assert done.returncode == 0 and done.stdout.startswith("demo was not narrowed before"), done.stderr
    listed = [tool["name"] for tool in host.agtp_json("tools", "ls")]
    assert listed == ["files.read_file"]
    assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 0
    refused = host.agtp("tools", "call", "files.list_files")
    assert refused.returncode == 1 and "[grant-required]" in refused.stderr
    assert "agtp agent grant demo files.list_files" in refused.stderr
    can = host.agtp("can", "demo", "EXECUTE", "/", "--tool", "files.list_files")
    assert can.returncode == 1 and "grant-required" in can.stdout
    audit_id = refused.stderr.rpartition("Audit-ID: ")[2].strip()
    explained = host.agtp("explain", audit_id)
    assert "grant" in explained.stdout, explained.stdout + explained.stderr
    shown = host.agtp_json("agent", "grants", "demo")[0]
    assert shown["narrowed"] and [grant["allow"] for grant in shown["grants"]] == ["files.read_file"]
    granted = shown["grants"][0]["audit_id"]
    record = host.agtp_json("call", "-", "INSPECT", "/", "target=audit", f"audit_id={granted}", "--as", "registrar")
    assert '"granted"' in json.dumps(record) and "files.read_file" in json.dumps(record)
    asked = host.agtp_json("agent", "grants", "demo", "--uri", host.uri)[0]
    assert asked["grants"] == shown["grants"], "the store and the host say the same"
    taken = host.agtp("agent", "ungrant", "demo", "files.read_file")
    assert "calls nothing" in taken.stdout and "--all" in taken.stdout
    assert host.agtp_json("tools", "ls") == []
    assert "narrowed no longer" in host.agtp("agent", "ungrant", "demo", "--all").stdout
    assert host.agtp("tools", "call", "files.list_files").returncode == 0
    assert host.agtp("audit", "verify").returncode == 0


BAD = """
[[grant]]
agent = "dema"
allow = ["files.read_file"]

[[grant]]
agent = "demo"
allow = ["nowhere.x", "QUERY /word"]

[[grant]]
agent = "demo"
allow = ["files.*.x"]
until = "soon"
"""


def test_grants_of_the_file_that_name_nothing_are_told_with_their_lines(tmp_path: Path) -> None:
    """By `agtp check`, each with what was perhaps meant."""
    config = sample(tmp_path, append=BAD)
    done = agtp("check", str(config), "--json")
    assert done.returncode == 2
    lines = config.read_text().splitlines()
    told = json.loads(done.stdout)
    found = {(lines[each["line"] - 1].partition(" ")[0], each["message"]) for each in told["problems"]}
    for key, said in (("allow", "files.*.x"), ("until", "a time such as")):
        assert any(place == key and said in message for place, message in found), found
    config.write_text(config.read_text().replace('"files.*.x"', '"files.*"').replace('until = "soon"\n', ""))
    done = agtp("check", str(config), "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)["problems"]
    lines = config.read_text().splitlines()
    said = [(lines[each["line"] - 1], each["message"], each["hint"]) for each in told]
    assert [(line.partition(" ")[0], "no agent known here" in message) for line, message, _ in said] == [
        ("agent", True),
        ("allow", False),
        ("allow", False),
    ], said
    assert said[0][2] == "did you mean demo?" and "no server behind this host is named nowhere" in said[1][1]
    assert "nothing here is called QUERY /word" in said[2][1]
