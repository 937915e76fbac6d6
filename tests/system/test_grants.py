"""What a host lets its agents call: by the operator's commands, on a host in a process of its own."""

from __future__ import annotations

import grp
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.system.bridging import stdio
from tests.system.hosting import Host, agtp, running, sample, until
from tests.system.mcp_sessions import ERAS
from tests.system.pages import playing, steps

MCP = "payload_type=application/vnd.mcp.tools+json"


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
    assert done.returncode == 0 and done.stdout.startswith("demo had no grants before"), done.stderr
    listed = [tool["name"] for tool in host.agtp_json("tools", "ls")]
    assert listed == ["files.read_file"]
    assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 0
    refused = host.agtp("tools", "call", "files.list_files")
    assert refused.returncode == 1 and "[grant-required]" in refused.stderr
    assert "agtp agent allow demo files.list_files" in refused.stderr
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
    assert "may call nothing" in taken.stdout and "--all" in taken.stdout
    assert host.agtp_json("tools", "ls") == []
    assert "no limits by grants" in host.agtp("agent", "ungrant", "demo", "--all").stdout
    assert host.agtp("tools", "call", "files.list_files").returncode == 0
    assert host.agtp("audit", "verify").returncode == 0


WAYS: dict[str, tuple[str, ...]] = {
    "the path of its server": (
        "EXECUTE",
        "/mcp/files",
        MCP,
        "action=mcp.tools.call",
        'payload:={"tool": "list_files"}',
    ),
    "its bare name": ("EXECUTE", "/", "action=mcp.tools.call", MCP, 'payload:={"tool": "list_files"}'),
    "a resource": (
        "EXECUTE",
        "/mcp/files",
        MCP,
        "action=mcp.resources.read",
        'payload:={"uri": "file:///welcome.txt"}',
    ),
    "a prompt": ("EXECUTE", "/mcp/files", MCP, "action=mcp.prompts.get", 'payload:={"prompt": "summarize"}'),
    "a completion": (
        *("EXECUTE", "/mcp/files", MCP, "action=mcp.completion.complete"),
        'payload:={"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}',
    ),
    "a subscription": (
        *("EXECUTE", "/mcp/files", MCP, "action=mcp.subscriptions.listen"),
        'payload:={"notifications": {"resourceSubscriptions": ["file:///welcome.txt"]}}',
    ),
    "a question": ("QUERY", "/", "intent=x", "modality=mcp.resource", "mcp_resource_uri=file:///welcome.txt"),
    "a delegation": ("DELEGATE", "/", f"target_agent_id={'a' * 64}", 'task:={"method": "QUERY", "path": "/"}'),
    "a proposal": ("PROPOSE", "/", "name=x", "method=LOCATE", "path=/x", "description=x"),
}
"""Other ways to what a server has, or to work in another's name."""


def test_there_is_no_other_way(host: Host) -> None:
    """Each is refused for want of a grant alone: with it, it goes on to whatever else it needs."""
    try:
        assert host.agtp("agent", "grant", "demo", "files.read_file").returncode == 0
        for name, words in WAYS.items():
            answer = host.agtp("call", "-", *words, "--json")
            assert json.loads(answer.stdout)["body"]["reason"] == "grant-required", (name, answer.stdout)
        assert host.agtp("agent", "grant", "demo", "*").returncode == 0
        for name, words in WAYS.items():
            answer = host.agtp("call", "-", *words, "--json")
            assert json.loads(answer.stdout)["body"].get("reason") != "grant-required", (name, answer.stdout)
    finally:
        host.agtp("agent", "ungrant", "demo", "--all")


def test_grants_of_the_file_are_taken_while_the_host_runs(tmp_path: Path) -> None:
    """
    On SIGHUP: at the next request, without a restart; one of no endpoint and no server changes nothing.

    A tool that its server does not list grants nothing, and is named: servers can change their lists at any time, so a
    start cannot depend on it, and a reload that takes rights away must not.
    """
    config = sample(tmp_path)
    with running(config) as host:
        assert host.agtp("tools", "call", "files.list_files").returncode == 0
        text = config.read_text()
        config.write_text(text + '\n[[grant]]\nagent = "demo"\nallow = ["files.read_file"]\n')
        hang_up(host, "SIGHUP: taken")
        refused = host.agtp("tools", "call", "files.list_files")
        assert refused.returncode == 1 and "grant-required" in refused.stderr
        assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 0
        config.write_text(text + '\n[[grant]]\nagent = "demo"\nallow = ["QUERY /nothing"]\n')
        hang_up(host, "this host has nothing named QUERY /nothing")
        assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 0
        config.write_text(text + '\n[[grant]]\nagent = "demo"\nallow = ["files.read_fil"]\n')
        for words in (("reload", "--check"), ("reload",)):
            done = host.agtp(*words)
            assert done.returncode == 0, done.stderr
            warned = "warning: [[grant]] of demo grants nothing by files.read_fil: the server files has nothing named"
            assert f"{warned} read_fil; did you mean files.read_file" in done.stderr
        assert host.agtp("tools", "call", "files.read_file", "path=welcome.txt").returncode == 1
        config.write_text(text)
        hang_up(host, "SIGHUP: taken")
        assert host.agtp("tools", "call", "files.list_files").returncode == 0


VARYING = re.compile(
    r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32,40}\b|\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?Z)?|key:[0-9a-f]{8}\.\.\."
)
"""What differs from run to run."""


def plain(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    return [re.sub(r" {2,}", "  ", VARYING.sub("*", line)).strip() for line in text.splitlines() if line.strip()]


def test_the_page_shows_what_the_commands_say(host: Host) -> None:
    """``docs/grants.rst``: each command of it, with its exit status and every line of its output."""
    every = steps("grants.rst")
    assert len(every) >= 12
    with playing(every) as player:
        for step in every:
            found, output = player.type(step, host.config.parent)
            assert found == step.status, f"{step.command}\n{output}"
            shown = plain("\n".join(step.shown))
            assert plain(output.replace(f"{host.config.parent}/", "")) == shown, step.command


def hang_up(host: Host, word: str) -> None:
    """SIGHUP, and wait for a line that has the word."""
    seen = len(host.lines)
    host.process.send_signal(signal.SIGHUP)
    until(lambda: any(word in line for line in host.lines[seen:]))


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


def test_check_asks_servers_what_a_grant_names(tmp_path: Path) -> None:
    """A tool that its server has not is told once the server was asked; before, only its name could be compared."""
    misspelt = '\n[[grant]]\nagent = "demo"\nallow = ["files.read_fil", "files.read_*"]\n'
    config = sample(tmp_path, append=misspelt)
    unasked = agtp("check", str(config))
    assert unasked.returncode == 0
    assert "whether files has files.read_fil, files.read_* was not checked: `agtp check --ask`" in unasked.stderr
    done = agtp("check", str(config), "--ask", "--json")
    notes = [note for note in json.loads(done.stdout)["notes"] if "[[grant]]" in note]
    assert notes == [
        "[[grant]] of demo: files has no tool files.read_fil (did you mean files.read_file?); the entry grants nothing"
    ], done.stdout


def test_a_start_warns_of_a_grant_that_names_no_tool(tmp_path: Path) -> None:
    """Once the server has listed its tools, the log says which entry grants nothing; the others are not named."""
    misspelt = '\n[[grant]]\nagent = "demo"\nallow = ["files.read_fil", "files.list_files", "ECHO /text"]\n'
    with running(sample(tmp_path, append=misspelt, eager=True)) as host:
        until(lambda: any("grants nothing" in line for line in host.lines))
        warned = [line for line in host.lines if "grants nothing" in line]
        assert len(warned) == 1 and "[[grant]] of demo" in warned[0], warned
        assert "files.read_fil" in warned[0] and "did you mean files.read_file" in warned[0], warned


def test_a_grant_that_a_lazy_server_does_not_have_is_named_at_its_first_call(tmp_path: Path) -> None:
    """A lazy server lists its tools when it is first called; only the next reload named the entry."""
    misspelt = '\n[[grant]]\nagent = "demo"\nallow = ["files.read_fil", "files.list_files"]\n'
    with running(sample(tmp_path, append=misspelt)) as host:

        def warned() -> list[str]:
            return [line for line in host.lines if "grants nothing by files.read_fil" in line]

        assert not warned(), "the server is not asked before it is called"
        assert host.agtp("tools", "call", "files.list_files").returncode == 0
        until(lambda: bool(warned()))
        assert "warning" not in host.agtp("reload").stderr
        assert len(warned()) == 1, warned()


def test_a_warning_about_the_configuration_is_written_once(tmp_path: Path) -> None:
    """Reloads find it again and write it no more, also for files; one that went and came back is written again."""
    misspelt = """
[policies.methods]
disallow = ["NOSUCHMETHOD"]

[[grant]]
agent = "demo"
allow = ["files.read_fil", "files.list_files"]

[[grant]]
agent = "demo"
allow = ["files.list_files"]
until = "2026-01-01T00:00:00Z"
"""
    config = sample(tmp_path, append=misspelt, eager=True)
    config.chmod(0o646)
    with running(config) as host:
        until(lambda: any("grants nothing by" in line for line in host.lines))
        text = config.read_text()

        def warned() -> list[str]:
            return sorted(line.partition("#warn] ")[2] for line in host.lines if "#warn] " in line)

        first = warned()
        for words in ("has mode 646", "grants nothing by files.read_fil", "ended at 2026-01-01", "profile development"):
            assert sum(words in line for line in first) == 1, first
        assert sum("NOSUCHMETHOD" in line for line in first) == 1, first
        for second in (40, 41):
            config.write_text(text.replace("timeout = 30", f"timeout = {second}"))
            assert "taken: configuration ([mcp])" in (done := host.agtp("reload")).stdout
            assert "warning" not in done.stderr
        assert warned() == first
        config.write_text(text.replace("files.read_fil", "files.read_file"))
        assert "warning" not in host.agtp("reload").stderr
        config.write_text(text)
        assert "warning: [[grant]] of demo grants nothing by files.read_fil" in host.agtp("reload").stderr
        until(lambda: len(warned()) == len(first) + 1)


def test_a_path_with_parameters_of_another_framework_is_named(tmp_path: Path) -> None:
    """The check has the file, the line and the right form of the parameter."""
    config = sample(tmp_path)
    file = config.parent / "endpoints" / "text.toml"
    file.write_text(file.read_text().replace('path = "/text"', 'path = "/text/:id"'))
    done = agtp("check", str(config))
    assert done.returncode == 0, done.stderr
    assert re.search(r"text\.toml:\d+: ECHO /text/:id: the segment ':id' is literal text here; .* \{id\}", done.stderr)


def test_a_state_directory_that_others_can_change_is_named(tmp_path: Path) -> None:
    """The check and the log of a start name its mode and the command that mends it; 0700 and 0755 are left alone."""
    config = sample(tmp_path)
    state = config.parent / "state"
    own, shared, unnamed = os.getgid(), grp.getgrnam("users").gr_gid, 61_234
    for mode, group, warned in (
        (0o700, own, False),
        (0o755, own, False),
        (0o777, own, True),
        (0o1777, own, True),
        # A group of the owner alone, and one without a name, as the volume of a container has.
        (0o770, own, False),
        (0o2770, unnamed, False),
        (0o770, shared, True),
    ):
        state.mkdir(exist_ok=True)
        if os.getuid() == 0:
            os.chown(state, -1, group)
        elif group != own:
            continue
        state.chmod(mode)
        done = agtp("check", str(config))
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"has mode {mode:o}: other users can") == warned, done.stderr
    state.chmod(0o777)
    config.chmod(0o666)
    assert f"run: chmod 644 {config}" in agtp("check", str(config)).stderr
    with running(config) as host:
        assert any("has mode 777" in line and "chmod 755" in line for line in host.lines), host.lines


def test_the_bridge_offers_what_is_granted(host: Host) -> None:
    """An MCP client sees the one tool, and hears why another is refused, in both eras of the protocol."""

    async def story(era: str) -> tuple[list[str], bool, str]:
        async with Client(stdio(host), mode=era) as mcp:
            listed = [tool.name for tool in (await mcp.list_tools()).tools]
            read = await mcp.call_tool(next(name for name in listed if "read_file" in name), {"path": "welcome.txt"})
            try:
                refused = str(await mcp.call_tool("files.list_files", {}))
            except MCPError as error:
                refused = str(error.data)
            return listed, bool(read.is_error), refused

    host.agtp("agent", "grant", "demo", "files.read_file")
    try:
        for era in ERAS:
            listed, failed, refused = anyio.run(story, era)
            assert len([name for name in listed if "files" in name]) == 1 and not failed
            assert "grant-required" in refused, refused
    finally:
        host.agtp("agent", "ungrant", "demo", "--all")


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
    assert [(line.partition(" ")[0], "this host knows no such agent" in message) for line, message, _ in said] == [
        ("agent", True),
        ("allow", False),
        ("allow", False),
    ], said
    assert said[0][2] == "did you mean demo?" and "this host has no server named nowhere" in said[1][1]
    assert "this host has nothing named QUERY /word" in said[2][1]
