"""``agtp up --hosts``: a database, two hosts on it, and what the manual of standby hosts says one sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agtphost import extras
from agtphost.cli.failures import WrongInput
from agtphost.cli.trial_cluster import copy_state
from agtphost.cli.up_hosts import require_postgresql
from tests import postgres
from tests.system.hosting import agtp, sample, until
from tests.system.pages import DOCS, playing, shows, steps
from tests.system.test_standby_page import PAGE, TRY_IT
from tests.system.up_host import Up, typed

CHANGE = re.compile(r"\d\d:\d\d:\d\d   ")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that the database can be below where root runs the tests: every user can enter it."""
    made = Path(tempfile.mkdtemp(prefix="agtp-trial-"))
    made.chmod(0o755)
    yield made
    for path in (made, made.with_name(f"{made.name}-home")):
        shutil.rmtree(path, ignore_errors=True)


def mask(text: str) -> str:
    """Return a text with each number, such as one of a time or a process, as N."""
    return re.sub(r"\d+", "N", text)


def mask_changes(lines: list[str]) -> list[str]:
    """Return the lines on changes, masked."""
    return sorted(mask(line.strip()) for line in lines if CHANGE.match(line.strip()))


def processes(folder: Path) -> list[str]:
    """Return the processes that work in a directory, or are given a path below it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in f"{words} {os.readlink(place / 'cwd')}":
                found.append(words)
    return found


@pytest.mark.release
@postgres.needed
@pytest.mark.slow
def test_the_manual_says_what_one_sees(folder: Path) -> None:
    """
    Calls are answered before and after a kill, who serves is printed, and Ctrl-C leaves no process.

    The second start has the records of the first, also where it ends while one of its hosts has been killed.
    """
    first, call, kill, status, again, hand_over = tried = steps(PAGE)[:TRY_IT]
    changes = mask_changes((DOCS / PAGE).read_text().splitlines())
    with playing(tried) as player:
        hosts = player.up(first, folder, last='  "agtp": {')
        try:
            shown = mask(hosts.wait().text)
            assert [line for line in map(mask, first.shown) if line.strip() not in shown] == []
            pids = dict(re.findall(r"^host (\w) .*, pid (\d+)$", hosts.text, re.MULTILINE))
            assert "host a     serves" in hosts.text and f"\n  kill -9 {pids['a']}\n" in hosts.text
            shows(call, *player.type(call, folder))
            player.type(kill, folder, line=f"kill -9 {pids['a']}")
            until(lambda: "a stands by" in hosts.text)
            assert "b serves, " in hosts.text
            shows(status, *player.type(status, folder))
            answered = player.type(again, folder)
            shows(again, *answered)
            player.type(hand_over, folder, line=f"kill {pids['b']}")
            until(lambda: "b stands by" in hosts.text.partition("b ended")[2])
            assert mask_changes(hosts.lines) == changes
        finally:
            assert hosts.stop(signal.SIGINT) == 0
    assert processes(folder) == []
    (record,) = re.findall(r"record verified: ([0-9a-f]{64})", answered[1])
    second = Up(folder, "demo", "--hosts", "2", "--json", last='{"event":"ready"')
    try:
        ready = json.loads(second.wait().lines[0])
        assert [host["role"] for host in ready["hosts"]] == ["serves", "stands by"]
        verified = typed(folder, "agtp audit verify --config demo")
        assert verified[0] == 0 and record in verified[1], verified[1]
        refused = agtp("up", "demo", "--hosts", "2", cwd=folder)
        assert refused.returncode == 2 and f"run already, pid {second.process.pid}" in refused.stderr
        assert typed(folder, ready["hosts"][0]["kill"])[0] == 0
        until(lambda: len(second.lines) > 1)
        ended = json.loads(second.lines[1])
        assert ended == {"event": "ended", "host": "a", "pid": ready["hosts"][0]["pid"], "exit_status": -9}
    finally:
        assert second.stop(signal.SIGTERM) == 0
    assert processes(folder) == []
    alone = agtp("up", "demo", cwd=folder)
    assert alone.returncode == 2 and "agtp up demo --hosts 2" in alone.stderr


@postgres.needed
def test_a_host_that_stops_hands_over_to_the_other(folder: Path) -> None:
    """The short form of the manual: one command starts both, each change is a line, and Ctrl-C leaves no process."""
    hosts = Up(folder, "demo", "--hosts", "2", "--json", last='{"event":"ready"')
    try:
        first, second = json.loads(hosts.wait().lines[0])["hosts"]
        assert (first["role"], second["role"]) == ("serves", "stands by")
        os.kill(first["pid"], signal.SIGTERM)
        until(lambda: any(line.startswith('{"event":"serving"') for line in hosts.lines[1:]))
        (serving,) = [json.loads(line) for line in hosts.lines if line.startswith('{"event":"serving"')]
        assert (serving["host"], serving["pid"]) == (second["host"], second["pid"])
        listed = agtp("tools", "list", "--config", "demo", cwd=folder)
        assert listed.returncode == 0 and "files.read_file" in listed.stdout, listed.stderr
        status = agtp("store", "status", "--config", "demo", "--json", cwd=folder)
        assert json.loads(status.stdout)["serving"] == second["host"]
    finally:
        assert hosts.stop(signal.SIGINT) == 0
    assert processes(folder) == []


def test_a_machine_without_postgresql_is_told_what_to_install(tmp_path: Path) -> None:
    """Exit status 2, and no directory is made."""
    refused = agtp("up", "demo", "--hosts", "2", cwd=tmp_path, environ={"PATH": str(tmp_path)})
    assert refused.returncode == 2 and "apt-get install postgresql" in refused.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra that has it."""
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "psycopg")
    with pytest.raises(WrongInput) as refused:
        require_postgresql(2)
    assert "pip install 'agtphost[postgres]'" in refused.value.remedy


@postgres.needed
@pytest.mark.skipif(os.getuid() != 0, reason="only root's PostgreSQL runs as another user")
def test_roots_closed_directory_is_refused(tmp_path: Path) -> None:
    """The message says which directories are possible; nothing is left behind."""
    tmp_path.chmod(0o700)
    refused = agtp("up", "demo", "--hosts", "2", cwd=tmp_path)
    assert refused.returncode == 2 and "choose a directory that every user can enter" in refused.stderr
    assert [*tmp_path.iterdir()] == []


@postgres.needed
def test_a_file_of_that_name_is_named(tmp_path: Path) -> None:
    """And left as it is."""
    (tmp_path / "demo").touch()
    refused = agtp("up", "demo", "--hosts", "2", cwd=tmp_path)
    assert refused.returncode == 2 and f"{tmp_path / 'demo'} exists" in refused.stderr, refused.stderr
    assert (tmp_path / "demo").is_file()


@postgres.needed
@pytest.mark.parametrize(
    ("append", "store", "message"),
    [("", True, "several hosts need their own PostgreSQL"), ("[metrics]\nlisten = 'tcp:0'\n", False, "[metrics]")],
)
def test_a_directory_of_another_host_is_refused(tmp_path: Path, append: str, store: bool, message: str) -> None:
    """One with records in SQLite, or with a port for each host; nothing in it is changed."""
    config = sample(tmp_path, append=f"\n{append}")
    if store:
        (config.parent / "state").mkdir()
        (config.parent / "state" / "agtphost.sqlite3").touch()
    before = config.read_text()
    refused = agtp("up", "etc", "--hosts", "2", cwd=tmp_path)
    assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert config.read_text() == before and not (config.parent / "postgres").exists()


def test_a_file_that_the_first_host_is_writing_is_not_copied(tmp_path: Path) -> None:
    """It may be renamed before it is read, as a checkpoint is every second; here it is a link to nothing."""
    source = tmp_path / "state"
    (source / "keys").mkdir(parents=True)
    (source / "keys" / "a.json").write_text("{}")
    (source / "checkpoint.txt").write_text("x")
    (source / ".checkpoint.txt.468d916a3bbbe75f").symlink_to(tmp_path / "gone")
    copy_state(source, tmp_path / "other")
    assert sorted(path.name for path in (tmp_path / "other").rglob("*")) == ["a.json", "checkpoint.txt", "keys"]
