"""``agtp up``: from nothing to a verified call, beside whatever runs already."""

from __future__ import annotations

import json
import shlex
import signal
import socket
from pathlib import Path

from tests import forking
from tests.system.bridging import FIXTURE
from tests.system.hosting import agtp
from tests.system.up_host import second_host, typed, up


def test_it_says_what_to_try_and_that_works(tmp_path: Path) -> None:
    """
    Word for word, with the usual port taken: a call and its record, a refusal, the trail. Ctrl-C leaves nothing.
    """
    with second_host() as environ, up(tmp_path, environ=environ) as host:
        folder = Path(host.value("directory"))
        port = int(host.value("ready").rpartition(":")[2])
        assert str(port) != environ["AGTPHOST_PORT"] and f"port       {port}  (a free one)" in host.text
        lines = [line.strip() for line in host.lines if line.startswith("  agtp ")]
        assert len(lines) == 3
        told = [typed(tmp_path, line) for line in lines]
        assert [status for status, _ in told] == [0, 1, 0], told
        assert "Welcome" in told[0][1] and "record verified" in told[0][1]
        assert "401" in told[1][1] and "client certificate" in told[1][1]
        # The working directory is as it was: no pid file, no state.
        assert [*tmp_path.iterdir()] == []
        (entry,) = [json.loads("{" + line.strip() + "}") for line in host.lines if '"mcp-bridge"' in line]
        assert entry["agtp"]["args"] == ["mcp-bridge", "--config", str(folder / "host.toml"), "--as", "demo"]
        assert host.stop() == 0
    assert not folder.exists()


def test_a_named_directory_is_kept(tmp_path: Path) -> None:
    """The same agent at the same address the next time; while it runs, a second is refused and says what to do."""
    words = ("work", "--json", "--mcp", "kept=" + shlex.join(forking.mcp_server(FIXTURE)))
    with second_host() as environ, up(tmp_path, *words, last="}", environ=environ) as host:
        first = json.loads(host.text)
        again = agtp("up", "work", "--json", cwd=tmp_path)
        assert again.returncode == 2 and f"runs already, pid {host.process.pid}" in again.stderr
        assert json.loads(again.stdout)["remedy"].startswith("agtp tools ls --config ")
        assert host.stop(signal.SIGTERM) == 0
    key = (tmp_path / "work/state/signing.pub").read_bytes()
    with up(tmp_path, "work", "--json", last="}") as host:
        assert json.loads(host.text) == first
        listed = json.loads(typed(tmp_path, first["try"][0] + " --json")[1])
        assert listed and all(tool["name"].startswith("kept.") for tool in listed)
    assert (tmp_path / "work/state/signing.pub").read_bytes() == key
    # Its port is another's now: it says which it has instead, and its commands reach it.
    port = int(first["uri"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)), up(tmp_path, "work", "--json", last="}") as host:
        moved = json.loads(host.text)
        assert moved["uri"] != first["uri"] and moved["entry"] == first["entry"]
        assert typed(tmp_path, moved["try"][0])[0] == 0
