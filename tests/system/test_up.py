"""``agtp up``: from nothing to a verified call, beside whatever runs already."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import socket
from pathlib import Path

from tests import forking
from tests.system.bridging import FIXTURE
from tests.system.hosting import BIN, agtp, usual_port
from tests.system.up_host import typed, up


def test_it_says_what_to_try_and_that_works(tmp_path: Path) -> None:
    """
    Word for word, with the usual port taken, and a server of somebody's own. Ctrl-C leaves nothing behind.

    The sample's commands are those of ``docs/first-minutes.rst``, which ``test_first_minutes.py`` plays.
    """
    words = ("--mcp", "own=" + shlex.join(forking.mcp_server(FIXTURE)))
    with up(tmp_path, *words) as host:
        folder = Path(host.value("directory"))
        port = int(host.value("ready").rpartition(":")[2])
        assert port != usual_port() and f"port       {port}  (a free one)" in host.text
        lines = [line.strip() for line in host.lines if line.startswith("  agtp ")]
        assert len(lines) == 3
        told = [typed(tmp_path, line) for line in lines]
        assert [status for status, _ in told] == [0, 0, 0], told
        assert "own.test_simple_text" in told[0][1] and "up" in told[1][1] and "verified" in told[2][1]
        # The working directory is as it was: no pid file, no state.
        assert [*tmp_path.iterdir()] == []
        (entry,) = [json.loads("{" + line.strip() + "}") for line in host.lines if '"mcp-bridge"' in line]
        assert entry["agtp"]["args"] == ["mcp-bridge", "--config", str(folder / "host.toml"), "--as", "demo"]
        assert host.stop() == 0
    assert not folder.exists()


def test_a_named_directory_is_kept(tmp_path: Path) -> None:
    """The same agent at the same address the next time; while it runs, a second is refused and says what to do."""
    words = ("work", "--json", "--mcp", "kept=" + shlex.join(forking.mcp_server(FIXTURE)))
    with up(tmp_path, *words, last="}") as host:
        first = json.loads(host.text)
        again = agtp("up", "work", "--json", cwd=tmp_path)
        assert again.returncode == 2 and f"runs already, pid {host.process.pid}" in again.stderr
        assert json.loads(again.stdout)["remedy"].startswith("Try agtp tools ls --config ")
        assert host.stop(signal.SIGTERM) == 0
    key = (tmp_path / "work/state/signing.pub").read_bytes()
    # The second time with a server more, out of an editor's file.
    command, *arguments = forking.mcp_server(FIXTURE)
    imported = {"mcpServers": {"More": {"command": command, "args": arguments}}}
    (tmp_path / "mcp.json").write_text(json.dumps(imported))
    with up(tmp_path, "work", "--json", "--import", "mcp.json", last="}") as host:
        assert json.loads(host.text) == first
        assert "note: More is named more here" in host.errors
        listed = json.loads(typed(tmp_path, first["try"][0] + " --json")[1])
        assert {tool["name"].partition(".")[0] for tool in listed} == {"kept", "more"}
    assert (tmp_path / "work/state/signing.pub").read_bytes() == key
    # Its port is another's now: it says which it has instead, and its commands reach it.
    port = int(first["uri"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)), up(tmp_path, "work", "--json", last="}") as host:
        moved = json.loads(host.text)
        assert moved["uri"] != first["uri"] and moved["entry"] == first["entry"]
        assert typed(tmp_path, moved["try"][0])[0] == 0


def test_a_chosen_port_is_not_called_a_free_one(tmp_path: Path) -> None:
    """The user named it, and the host takes no other."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with up(tmp_path, "--port", str(port), "--mcp", "own=" + shlex.join(forking.mcp_server(FIXTURE))) as host:
        assert f"port       {port}  (as given)" in host.text
        assert host.stop(signal.SIGTERM) == 0


def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    """A window that is closed leaves neither the host nor its directory, though SIGHUP has hosts read files again."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        program = str(BIN / "agtp")
        os.execve(program, [program, "demo", "--json"], {**os.environ, "AGTPHOST_PORT": str(usual_port())})
    said = b""
    while b"}\r\n}\r\n" not in said.replace(b" ", b""):
        said += os.read(terminal, 65_536)
    (folder,) = re.findall(rb'"directory": "(.*?)"', said)
    assert Path(folder.decode()).is_dir()
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not Path(folder.decode()).exists()


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    """Exit status 2 and what to do; a temporary directory is gone then, and a named one that cannot be is not made."""
    (tmp_path / "file").touch()
    assert agtp("init", "live", "--production", "--server-id", "localhost", cwd=tmp_path).returncode == 0
    (tmp_path / "tmp").mkdir()
    environ = {"TMPDIR": str(tmp_path / "tmp")}
    for line, told in (
        (f"--port {usual_port()}", "cannot listen"),
        ("--mcp files=no-such-program-4480", "names a program that cannot be run"),
        ("--mcp files", "is not NAME=COMMAND"),
        ("file", "file"),
        ("live", "twistd -n agtp --config"),
        ("--import absent.json", "absent.json"),
    ):
        status, said = typed(tmp_path, f"agtp up {line}", environ)
        assert status == 2 and told in said and "Traceback" not in said, said
    status, said = typed(tmp_path, "agtp up", environ | {"AGTPHOST_PORT": "many"})
    assert status == 2 and "AGTPHOST_PORT is not a port" in said
    assert {*tmp_path.iterdir()} == {tmp_path / name for name in ("file", "live", "tmp")}
    assert [*(tmp_path / "tmp").glob("agtp-*")] == []
