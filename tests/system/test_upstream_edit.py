"""``agtp upstream add`` and ``remove`` against a running host."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests import forking
from tests.system.hosting import agtp, running, sample


def test_an_upstream_is_added_called_and_removed(tmp_path: Path) -> None:
    """
    One command makes the tools of a server callable in a running host, and says for whom; another one takes them away.

    Comments stay, the value of a variable is in a file of its own, and what a host does not take is not written.
    """
    config = sample(tmp_path)
    before = config.read_text()
    server = forking.mcp_server(config.parent / "mcp/files_server.py", config.parent / "mcp/files")
    with running(config) as host:
        planned = host.agtp("upstream", "add", "--dry-run", "notes", "--", *server)
        assert planned.returncode == 0 and '"--"' not in planned.stdout, "-- ends the options, as everywhere"
        planned = host.agtp("upstream", "add", "--dry-run", "notes", *server)
        assert planned.returncode == 0 and '+name = "notes"' in planned.stdout, planned.stderr
        misplaced = host.agtp("upstream", "add", "notes", "--command", "python3")
        assert misplaced.returncode == 2 and "Write options before NAME" in misplaced.stderr, misplaced.stderr
        assert config.read_text() == before

        assert host.agtp("agent", "new", "powerless", "--admit").returncode == 0
        done = host.agtp("upstream", "add", "--json", "--env", "TOKEN=secret-abc", "notes", *server)
        assert done.returncode == 0, done.stderr
        added = json.loads(done.stdout)
        assert config.read_text().startswith(before)
        assert "secret-abc" not in config.read_text()
        assert (config.parent / "secrets/notes.TOKEN").stat().st_mode & 0o077 == 0
        [reach] = added["upstreams"]
        assert added["applied"] and reach["state"] == "up", host.output[-3000:]
        assert "notes.list_files" in reach["callable"]["demo"]
        assert "agtp agent allow powerless notes." in reach["refused"]["powerless"]
        called = host.agtp("tools", "call", "notes.list_files")
        assert called.returncode == 0, called.stderr

        again = host.agtp("upstream", "add", "notes", *server)
        assert again.returncode == 2 and "in line" in again.stderr and "agtp upstream remove" in again.stderr
        secret = config.parent / "secrets/notes.TOKEN"
        for words in (("--env", "TOKEN=other"), ("--dry-run", "--env", "NEW=other"), ("--env", "../TOKEN=x")):
            assert host.agtp("upstream", "add", *words, "notes", *server).returncode == 2
        assert secret.read_text() == "secret-abc\n", "a refused change replaces no secret"
        planned = host.agtp("upstream", "add", "--dry-run", "--env", "NEW=x", "further", *server)
        assert planned.returncode == 0 and "secrets/further.NEW" in planned.stdout, planned.stderr
        outside = host.agtp("upstream", "add", "--env", "A=x", "out/side", *server)
        assert outside.returncode == 2 and "is not a name of an upstream" in outside.stderr
        assert [file.name for file in secret.parent.iterdir()] == ["notes.TOKEN"]

        listed = {entry["name"] for entry in host.agtp_json("upstream", "list")}
        assert "notes" in listed
        assert {entry["name"] for entry in host.agtp_json("upstreams")} == listed

        removed = host.agtp("upstream", "remove", "notes")
        assert removed.returncode == 0, removed.stderr
        assert "secrets/notes.TOKEN" in removed.stderr
        assert config.read_text() == before
        assert host.agtp("tools", "call", "notes.list_files").returncode == 1

        refused = host.agtp("upstream", "add", "notes", str(tmp_path / "no-such-program"))
        assert refused.returncode != 0, refused.stdout
        assert config.read_text() == before, "a host that refuses a change leaves the file as it was"

        dying = ("import sys", "sys.exit('no module named notes')")
        ended = host.agtp("upstream", "add", "ending", sys.executable, "-c", "; ".join(dying))
        assert "mcp.ending is down, and will be started again: the process ended with exit code 1" in ended.stdout
        assert "stderr: no module named notes" in ended.stdout
        assert "stderr: no module named notes" in host.agtp("upstream", "show", "ending").stdout


def test_a_stopped_host_takes_the_change_at_its_next_start(tmp_path: Path) -> None:
    """Without a host the change is checked as a start would check it."""
    config = sample(tmp_path)
    before = config.read_text()
    done = agtp("upstream", "add", "a2a.helper", "http://127.0.0.1:9", "--config", str(config), cwd=tmp_path)
    assert done.returncode == 2, "options come before the name"
    done = agtp("upstream", "add", "--config", str(config), "a2a.helper", "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "next start" in done.stderr
    assert '[[a2a.agent]]\nname = "helper"' in config.read_text()
    wrong = agtp("upstream", "add", "--config", str(config), "Bad Name", "http://127.0.0.1:9")
    assert wrong.returncode == 2 and "name" in wrong.stderr
    done = agtp("upstream", "remove", "--config", str(config), "a2a.helper")
    assert done.returncode == 0, done.stderr
    assert config.read_text() == before
