"""``agtp client``: the entry in an editor's own file starts a bridge that works, and goes without a trace."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from agtphost.vocabulary import jsonc
from tests import forking
from tests.system.bridging import FIXTURE
from tests.system.up_host import Up, typed, up

MINE = """\
{
  // Servers of mine.
  "servers": {
    "github": { "type": "http", "url": "https://mcp.example/mcp" }, // keep
  },
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A host with two MCP servers, as somebody tries it."""
    folder = tmp_path_factory.mktemp("clients")
    command = shlex.join(forking.mcp_server(FIXTURE))
    words = ("work", "--json", "--mcp", f"one={command}", "--mcp", f"two={command}")
    with up(folder, *words, last="}") as started:
        yield started


def client(host: Up, line: str, home: Path) -> tuple[int, Any]:
    """``agtp client ... --json`` of a user, and what it prints."""
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    status, output = typed(host.folder, f"agtp client {line} --json 2> {home}/errors", environ)
    return status, json.loads(output)


def tools(entry: dict[str, Any], call: str) -> tuple[list[str], str]:
    """The tools of the bridge that an entry starts, and what one of them answers: by the official client."""

    async def story() -> tuple[list[str], str]:
        started = StdioServerParameters(command=entry["command"], args=entry["args"], cwd="/")
        async with Client(started, mode="legacy") as session:
            names = [tool.name for tool in (await session.list_tools()).tools]
            answer = await session.call_tool(call, {})
            return names, str(answer.content) + str(answer.meta)

    return anyio.run(story)


def test_a_client_is_connected_and_disconnected(host: Up, tmp_path: Path) -> None:
    """
    VS Code's file with comments: one entry more and nothing else changed, a backup, an agent for this alone. The entry
    as it stands starts a bridge that shows the server's tools and calls them. After it is removed the file is as it
    was, and the agent has ended.
    """
    file = tmp_path / ".config/Code/User/mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    file.chmod(0o640)
    status, dry = client(host, "connect vscode --server one --config work --dry-run", tmp_path)
    assert (status, dry["file"], dry["agent"]) == (0, str(file), "vscode-one")
    assert '+    "one": {' in dry["difference"] and file.read_text() == MINE and len([*file.parent.iterdir()]) == 1
    status, done = client(host, "connect vscode --server one --config work", tmp_path)
    assert status == 0 and done["host_runs"] and done["agent_is_new"]
    assert done["scopes"] == ["mcp:prompts:get", "mcp:resources:read", "mcp:tools:execute"]
    assert Path(done["backup"]).read_text() == MINE
    written = jsonc.parse(file.read_text()).value["servers"]
    assert written == {"one": done["entry"], "github": {"type": "http", "url": "https://mcp.example/mcp"}}
    assert "// keep" in file.read_text() and file.stat().st_mode & 0o777 == 0o640
    # The command as it stands there; its first word is the same program, forked.
    names, answer = tools(started(done["entry"]), "test_simple_text")
    assert "test_simple_text" in names and not any(name.startswith("two__") for name in names)
    assert "simple text" in answer and "agtp/audit-id" in answer
    # Of the other server it gets nothing, though the scope would do.
    other = typed(host.folder, "agtp tools call two.test_simple_text --config work --as vscode-one")
    assert other[0] == 1 and "455" in other[1] and "grant" in other[1], other
    assert done["narrowed"] and not client(host, "connect vscode --config work --dry-run", tmp_path)[1]["narrowed"]
    assert client(host, "connect vscode --server one --config work", tmp_path)[1]["changed"] is False
    assert [each["agent"] for each in client(host, "ls --project /nowhere", tmp_path)[1]] == ["vscode-one"]
    status, gone = client(host, "disconnect vscode --server one", tmp_path)
    assert (status, gone["told"]) == (0, "the agent vscode-one is revoked")
    assert file.read_text() == MINE
    refused = typed(host.folder, "agtp tools ls --config work --as vscode-one")
    assert refused[0] == 1 and "agent-retired" in refused[1]
    assert client(host, "disconnect vscode --server one", tmp_path) == (0, {**NOTHING, "file": str(file)})
    # A revoked agent is not issued again: the next has another name.
    assert client(host, "connect vscode --server one --config work", tmp_path)[1]["agent"] == "vscode-one-2"


NOTHING = {"client": "vscode", "name": "one", "changed": False}


def started(entry: dict[str, Any]) -> dict[str, Any]:
    """The same command, with the modules imported already."""
    command, *arguments = forking.agtp(*entry["args"])
    assert Path(entry["command"]).name == "agtp" and Path(entry["command"]).is_file()
    return {"command": command, "args": arguments}


@pytest.mark.parametrize(
    ("name", "own", "of_project"),
    [
        ("claude", ".config/Claude/claude_desktop_config.json", ".mcp.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
    ],
)
def test_each_client_has_its_files(host: Up, tmp_path: Path, name: str, own: str, of_project: str) -> None:
    """There was none: it is made, and the user's and the project's each have an agent of their own."""
    first = client(host, f"connect {name} --config work", tmp_path)[1]
    second = client(host, f"connect {name} --config work --project {tmp_path}/code", tmp_path)[1]
    assert json.loads((tmp_path / own).read_text()) == {"mcpServers": {"agtp": first["entry"]}}
    assert json.loads((tmp_path / "code" / of_project).read_text()) == {"mcpServers": {"agtp": second["entry"]}}
    assert (first["agent"], second["agent"]) == (name, f"{name}-2")


@pytest.mark.parametrize("text", ['{\n"servers": {\n', "[]", '{"servers": 1}', '{"servers": {"a": 1, "a": 2}}', "\xff"])
@pytest.mark.parametrize("words", ["connect vscode --config work", "disconnect vscode", "connect vscode --dry-run"])
def test_a_file_that_does_not_parse_is_left(host: Up, tmp_path: Path, text: str, words: str) -> None:
    """Byte for byte, with exit status 2 and the line; and no agent was made."""
    file = tmp_path / "mcp.json"
    file.write_bytes(text.encode("latin-1"))
    config = "" if "--config" in words or words.startswith("dis") else " --config work"
    known = {path.name for path in (host.folder / "work/state/agents").iterdir()}
    status, told = client(host, f"{words}{config} --file {file}", tmp_path)
    assert status == 2 and str(file) in told["error"] and "was not changed" in told["remedy"], told
    assert text == "[]" or "servers is not" in told["error"] or re.search(r"line [1-3]: ", told["error"])
    assert file.read_bytes() == text.encode("latin-1") and {*tmp_path.iterdir()} == {file, tmp_path / "errors"}
    assert {path.name for path in (host.folder / "work/state/agents").iterdir()} == known


def test_an_entry_of_somebody_else_is_left(host: Up, tmp_path: Path) -> None:
    """A server of the same name is neither replaced nor removed; a host's is by its own host alone."""
    file = tmp_path / "mcp.json"
    file.write_text('{"servers": {"agtp": {"command": "other", "args": []}}}')
    before = file.read_bytes()
    status, told = client(host, f"connect vscode --config work --file {file}", tmp_path)
    assert status == 2 and "--name" in told["remedy"]
    assert client(host, f"disconnect vscode --file {file}", tmp_path)[0] == 2
    assert file.read_bytes() == before
    link = tmp_path / "link.json"
    link.symlink_to(file)
    done = client(host, f"connect vscode --config work --name mine --as demo --file {link}", tmp_path)[1]
    assert (
        done["agent"] == "demo"
        and link.is_symlink()
        and set(json.loads(file.read_text())["servers"])
        == {
            "agtp",
            "mine",
        }
    )
    # An agent that was not made for the entry outlives it.
    assert client(host, f"disconnect vscode --name mine --file {link}", tmp_path)[1]["told"] == ""
    assert json.loads(file.read_bytes()) == json.loads(before)


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    """Of a host that was never started it tells the agent and its scopes, and makes no keys."""
    assert typed(tmp_path, "agtp init new --port 4499")[0] == 0
    before = {*tmp_path.rglob("*")}
    status, said = typed(tmp_path, "agtp client connect cursor --config new --dry-run", {"HOME": str(tmp_path)})
    assert status == 0 and "agent cursor would be issued: knowledge:query" in said, said
    assert {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts} == before
    # Without that it does, and the host admits the agent at its first start.
    status, said = typed(tmp_path, "agtp client connect cursor --config new", {"HOME": str(tmp_path)})
    assert status == 0 and "Start the host" in said, said
    assert typed(tmp_path, "agtp agent ls --config new")[1].count("cursor") == 1
