"""MCP servers out of a client's configuration: every form, and nothing secret where others read it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agtphost.cli.failures import WrongInput
from agtphost.cli.mcp_import import read_clients_file
from agtphost.config import load
from tests.cli.conftest import Run

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "TOKEN": "s3cret", "API_KEY": "k3y"}
CODE = """\
{
  // Asked for once.
  "inputs": [{"type": "promptString", "id": "api-key", "description": "Key of the tracker", "password": true}],
  "servers": {
    "My Tracker": {
      "type": "stdio", "command": "sh", "args": ["-c", "exit 0", "${workspaceFolder}/data"],
      "env": {"KEY": "${input:api-key}", "LEVEL": 3, "EMPTY": ""},
    },
    "remote": {"type": "http", "url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "old": {"type": "sse", "url": "https://mcp.example/sse"},
    "other": {"command": "sh", "env": {"KEY": "${input:other-key}"}},
    "own": {"command": "/opt/bin/agtp", "args": ["mcp-bridge", "--config", "host.toml"]},
    "gone": {"command": "no-such-program-4480"},
  }
}
"""


def test_vs_codes_form(tmp_path: Path) -> None:
    """With comments; folders and inputs are filled in; what cannot be run is told, each with its reason."""
    file = tmp_path / "code" / ".vscode" / "mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    found = read_clients_file(file, ENVIRON)
    tracker, remote = found.servers
    assert (tracker.name, tracker.command) == ("my-tracker", ("sh", "-c", "exit 0", f"{tmp_path}/code/data"))
    assert tracker.cwd == tmp_path / "code" and tracker.private
    assert tracker.env == {"KEY": "file:secrets/my-tracker.KEY", "LEVEL": "file:secrets/my-tracker.LEVEL", "EMPTY": ""}
    assert tracker.secrets == {"secrets/my-tracker.KEY": "k3y", "secrets/my-tracker.LEVEL": "3"}
    assert (remote.url, remote.headers) == (
        "https://mcp.example/mcp",
        {"Authorization": "file:secrets/remote.Authorization"},
    )
    assert remote.secrets == {"secrets/remote.Authorization": "Bearer s3cret"}
    assert list(found.notes) == [
        "My Tracker is named my-tracker here",
        "old is left out: its type is sse, and the host speaks Streamable HTTP",
        "other is left out: set OTHER_KEY in the environment, and run the command again",
        "own is left out: it is the bridge to an AGTP host",
        "gone is left out: its program no-such-program-4480 was not found",
    ]
    with pytest.raises(WrongInput, match="no server that this host can run") as raised:
        file.write_text(json.dumps({"servers": {"x": {"command": "sh", "args": ["${input:api-key}"]}}}))
        read_clients_file(file, {"PATH": ENVIRON["PATH"]})
    assert "set API_KEY in the environment" in raised.value.remedy


def test_claudes_and_cursors_form(tmp_path: Path) -> None:
    """``mcpServers``; variables with and without a default; a relative program and directory; disabled ones."""
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    servers = {
        "a": {"command": "./run.sh", "args": ["${TOKEN}", "${MISSING:-none}", "${userHome}"], "cwd": "data"},
        "b": {"command": "sh", "disabled": True},
        "c": {"url": "http://127.0.0.1:8931/mcp"},
        "d": {"url": "http://mcp.example/mcp"},
        "e": {"command": ["sh"]},
        "f": {"command": "sh", "envFile": ".env"},
        "g": 1,
    }
    (tmp_path / "data").mkdir()
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "data" / "run.sh").symlink_to(tmp_path / "run.sh")
    found = read_clients_file(file, ENVIRON)
    assert [(each.name, each.command, each.url) for each in found.servers] == [
        ("a", (f"{tmp_path}/data/run.sh", "s3cret", "none", "/home/me"), ""),
        ("c", (), "http://127.0.0.1:8931/mcp"),
    ]
    assert [note.partition(":")[0] for note in found.notes] == [f"{name} is left out" for name in "bdefg"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"servers": []}', '{"mcpServers": {}}', "\udcff"])
def test_what_is_no_configuration(tmp_path: Path, text: str, run: Run) -> None:
    """Exit status 2 with the file's name, and nothing is written."""
    file = tmp_path / "mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = run("init", str(tmp_path / "work"), "--import", str(file))
    assert done.exit_code == 2 and str(file) in done.stderr, done.output
    assert not (tmp_path / "work").exists()


def test_secrets_are_for_the_owner_alone(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``agtp init --import`` writes is sound, works without the environment, and shows no value to others."""
    monkeypatch.setenv("TOKEN", "s3cret-4480")
    for module in [module for module in list(sys.modules) if module.partition(".")[0] == "handlers"]:
        monkeypatch.delitem(sys.modules, module)
    file = tmp_path / ".mcp.json"
    entry = {"command": sys.executable, "args": ["-c", "0"], "env": {"TOKEN": "${TOKEN}"}}
    file.write_text(json.dumps({"mcpServers": {"mine": entry, "told": {**entry, "args": ["${TOKEN}"]}}}))
    for name in ("mine", "told"):
        one = {"mcpServers": {name: json.loads(file.read_text())["mcpServers"][name]}}
        (tmp_path / name).mkdir()
        (tmp_path / name / ".mcp.json").write_text(json.dumps(one))
        assert run("init", str(tmp_path / name / "host"), "--import", str(tmp_path / name / ".mcp.json")).exit_code == 0
    monkeypatch.delenv("TOKEN")
    for name in ("mine", "told"):
        folder = tmp_path / name / "host"
        (server,) = load(folder / "host.toml").mcp.server
        assert server.opened_env() == {"TOKEN": "s3cret-4480"}
        readable = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
        assert readable and not any("s3cret-4480" in path.read_text() for path in readable)
        assert (folder / "secrets").stat().st_mode & 0o777 == 0o700
        assert run("check", str(folder / "host.toml")).exit_code == 0
