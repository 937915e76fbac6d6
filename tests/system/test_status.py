"""``agtp status`` of real hosts: ready, not ready, not running, and who is told what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.stores.state_lock import StateLock
from tests import forking
from tests.system.hosting import BIN, Host, free_port, running, sample, until
from tests.system.scraping import readiness


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Host]:
    """Its MCP server, which it needs, cannot be started before there is a file."""
    folder = tmp_path_factory.mktemp("status")
    config = sample(folder, append=f'\n[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\n', eager=True)
    gate = f'command = ["sh", "-c", "test -e {folder}/go && exec \\"$0\\" \\"$@\\"", '
    config.write_text(config.read_text().replace("command = [", gate, 1))
    with running(config) as started:
        yield started


def test_why_a_host_is_not_ready_and_that_it_is(host: Host, port: int) -> None:
    """Exit status 1 and 0; what is in the way is what ``/readyz`` says, and who is to be tried again when is told."""
    done = host.agtp("status")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "state        degraded" in done.stdout and "upstream: mcp.files is " in done.stdout
    # Between two looks the server may begin another attempt: then it is neither in backoff nor as it was before.
    until(lambda: "mcp.files  backoff  in " in host.agtp("status").stdout, pause=0.1)
    looks = []

    def agree() -> bool:
        said = json.loads(host.agtp("status", "--json").stdout)
        looks.append((said, readiness(port)))
        return looks[-1][1] == (503, {"status": "not ready", "reasons": said["obstacles"]})

    until(agree, pause=0.1)
    assert all(said["ready"] is False and status == 503 for said, (status, _) in looks)
    until(lambda: json.loads(host.agtp("status", "--json").stdout)["upstreams"][0]["next_attempt_in"], pause=0.1)
    (host.config.parent.parent / "go").touch()
    until(lambda: host.agtp("status").returncode == 0, pause=0.3)
    assert readiness(port) == (200, {"status": "ready"})


def test_what_is_told_of_a_running_host(host: Host) -> None:
    """Calls and refusals of the last minute, records, agents: those that there are."""
    before = host.agtp_json("status")
    assert host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
    assert host.agtp("call", "-", "DISCOVER", "/nothing").returncode == 1
    after = host.agtp_json("status")
    # The look before is counted by now, too.
    assert after["recent_calls"] - before["recent_calls"] == 3
    assert after["recent_refusals"] - before["recent_refusals"] == 1
    assert after["records"] - before["records"] == 3
    assert after["agents"] == {"active": 2} and after["uptime"] > 0 and after["server_id"] == "localhost"
    shown = host.agtp("status").stdout
    assert "ledger       healthy, " in shown and "agents       2 active" in shown
    assert "\nnow          1 connection, 0 calls that wait\n" in shown, "one is not many"


def test_who_is_told_what(host: Host) -> None:
    """Strangers hear that the host answers; who says who it is, and may not know, is refused."""
    stranger = host.agtp("status", "--no-cert", "--json")
    assert (stranger.returncode, json.loads(stranger.stdout)["state"]) == (0, "answers")
    assert "records" not in json.loads(stranger.stdout)
    refused = host.agtp("status", "--as", "demo")
    assert refused.returncode == 1 and "operators-only" in refused.stderr


def test_a_watch_goes_on_over_the_end_of_the_host(tmp_path: Path) -> None:
    """One look a line; a host that is gone is told as such, with what its files say; exit status 3."""
    config = sample(tmp_path)
    with running(config) as host:
        words = [BIN / "agtp", "status", "--watch", "--every", "0.1", "--json"]
        watch = forking.start(words, cwd=config.parent, stdout=subprocess.PIPE, env=dict(os.environ))
        assert watch.stdout is not None
        first = next(seen for line in watch.stdout if (seen := json.loads(line))["checkpoint_age"] == 0)
        assert first["state"] == "ready"
        host.kill()
        last = next(seen for line in watch.stdout if (seen := json.loads(line))["state"] == "not running")
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=30)
        assert watch.returncode == 3, "how it was when it was looked at last"
    assert last["records"] >= first["records"] and last["checkpoint"] >= 1 and "nothing listens there" in last["why"]
    done = host.agtp("status")
    assert done.returncode == 3 and "state          not running" in done.stdout, done.stdout
    lock = StateLock(host.state, host.state / "agtphost.sqlite3")
    lock.acquire()
    try:
        held = json.loads(host.agtp("status", "--json").stdout)
    finally:
        lock.release()
    assert f"a host, pid {os.getpid()}, uses this state" in held["held_by"]
