"""The shared verbs where a group had no command for them: new commands, further names, and where to go instead."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from agtphost.cli.root import agtp
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("tools", "allow"), "agtp agent allow"),
        (("tools", "create"), "agtp upstream add or agtp endpoint create"),
        (("endpoint", "limit"), "agtp agent limit"),
        (("agent", "decide"), "agtp approvals decide or agtp contracts decide"),
        (("registry", "decide"), "approve"),
        (("audit", "list"), "search"),
        (("cluster", "list"), "status"),
        (("contracts", "create"), "agtp propose"),
        (("key", "revoke"), "rotate"),
        (("create",), "agent create"),
        (("revoke",), "agent revoke"),
    ],
)
def test_a_verb_without_sense_in_a_group_names_the_command_that_is_meant(
    run: Run, words: tuple[str, ...], suggested: str
) -> None:
    """What a user knows from another group leads on, and not to a name that is spelt alike."""
    result = run(*words, "x")
    assert result.exit_code == 2 and f"Did you mean {suggested}" in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("group", "verb", "name"),
    [
        ("upstream", "create", "add"),
        ("upstream", "revoke", "remove"),
        ("registry", "create", "add"),
        ("registry", "revoke", "withdraw"),
        ("client", "create", "connect"),
        ("client", "revoke", "disconnect"),
        ("store", "create", "init"),
        ("store", "show", "status"),
        ("cluster", "show", "status"),
        ("genesis", "show", "verify"),
        ("document", "show", "verify"),
        ("key", "list", "history"),
        ("audit", "show", "get"),
    ],
)
def test_a_shared_verb_is_a_further_name_of_a_command(run: Run, group: str, verb: str, name: str) -> None:
    """Help shows both names."""
    context = click.Context(agtp)
    commands = agtp.get_command(context, group)
    assert isinstance(commands, click.Group)
    assert commands.get_command(context, verb) is commands.commands[name]
    assert f"{verb}, {name}" in run(group, "--help").stdout


def test_certificates_are_listed_with_the_days_that_are_left(run: Run, folder: Path) -> None:
    """The host's own, an agent's, the registrar's and the authority: what ends first comes first."""
    listed = json.loads(run("cert", "list", "--json").stdout)
    assert {each["name"] for each in listed} == {"demo", "registrar", "localhost", "ca.pem"}
    days = [each["days_left"] for each in listed]
    assert days == sorted(days) and days[0] > 30
    assert all(Path(each["file"]).is_file() for each in listed)
    shown = run("cert", "ls", "--config", str(folder))
    assert shown.exit_code == 0 and "DAYS LEFT" in shown.stdout and "agent-certificate" in shown.stdout


def test_endpoints_are_listed_from_their_files(run: Run, folder: Path) -> None:
    """Without a running host; a host without endpoints has an empty list."""
    assert json.loads(run("endpoint", "list", "--json").stdout) == []
    (folder / "endpoints").mkdir()
    with (folder / "host.toml").open("a") as file:
        file.write('[endpoints]\ndirectory = "endpoints"\npython_path = ["."]\n')
    made = run("endpoint", "create", "QUERY", "/orders/{id}", "--function", "orders.find")
    assert made.exit_code == 0, made.stderr
    (entry,) = json.loads(run("endpoint", "list", "--json").stdout)
    assert (entry["method"], entry["path"]) == ("QUERY", "/orders/{id}")
    assert "/orders/{id}" in run("endpoint", "ls").stdout


SCHEMA = {
    "properties": {
        "query": {"type": "string", "description": "What to\nlook for."},
        "limit": {"type": "integer", "default": 20},
        "order": {"enum": ["name", "date"]},
        "since": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["query"],
}
TOOL = {"name": "files.search", "description": "Finds.", "required_scopes": ["a:b"], "input_schema": SCHEMA}
HOSTILE = {
    "name": "files.sly",
    "input_schema": {"properties": {"$(id)": {"type": "integer"}}, "required": ["$(id)"]},
}


def test_a_tool_is_shown_with_its_arguments_and_a_call(run: Run, server: AgtpServer) -> None:
    """Each argument with its type, default and description; a name that is not listed gets a close one."""
    server.answers["DISCOVER", "/tools"] = Answer([TOOL, HOSTILE, {"name": "files.bare", "input_schema": "?"}])
    shown = run("tools", "show", "files.search").stdout
    assert "agtp tools call files.search query=..." in shown and "a:b" in shown
    for line in ("query string yes What to look for.", "limit integer no (default: 20)", 'order "name" | "date" no'):
        assert line in " ".join(shown.split())
    assert "since string | null no" in " ".join(shown.split())
    assert json.loads(run("tools", "show", "files.search", "--json").stdout) == TOOL
    assert run("tools", "show", "files.bare").exit_code == 0
    assert "agtp tools call files.sly '$(id)=1'" in run("tools", "show", "files.sly").stdout
    wrong = run("tools", "show", "files.serch")
    assert wrong.exit_code == 1 and "Did you mean files.search" in wrong.stderr


def test_an_upstream_is_shown_by_its_name(run: Run, server: AgtpServer) -> None:
    """With its protocol where several have the name; the lines of stderr follow."""
    entries = [
        {"name": "files", "protocol": "MCP", "state": "up", "link": {"stderr": ["ready"]}, "instances": []},
        {"name": "files", "protocol": "A2A", "state": "down", "reason": "refused"},
    ]
    server.answers["INSPECT", "/"] = Answer({"status": 200, "result": {"upstreams": entries}})
    two = run("upstream", "show", "files")
    assert two.exit_code == 1 and "Choose one of: mcp.files, a2a.files." in two.stderr
    shown = run("upstream", "show", "mcp.files").stdout
    assert "stderr: ready" in shown and "instances" not in shown
    assert json.loads(run("upstream", "show", "a2a.files", "--json").stdout)["reason"] == "refused"
    assert "mcp.files, a2a.files" in run("upstream", "show", "x").stderr


def test_a_contract_is_shown_by_the_beginning_of_its_id(run: Run, server: AgtpServer) -> None:
    """As lists show it; two that begin alike are not guessed."""
    contracts = [{"synthesis_id": "ab12", "method": "BOOK"}, {"synthesis_id": "ab34", "method": "QUERY"}]
    server.answers["DISCOVER", "/contracts"] = Answer(contracts)
    assert "BOOK" in run("contracts", "show", "ab1...").stdout
    for words, said in (("ab", "2 contracts begin with 'ab'"), ("zz", "no contract 'zz'")):
        wrong = run("contracts", "show", words)
        assert wrong.exit_code == 1 and said in wrong.stderr
