"""``twistd agtp`` without ``-n``: whoever starts a daemon learns how its start went, and what is in the way."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import forking
from tests.system.hosting import BIN, running, sample, until
from tests.system.test_start_errors import edited, start

TWO_OF_A_PATH = """
[[endpoint]]
method = "QUERY"
path = "/doubtful/{first}"
description = "One."
[endpoint.handler]
type = "registered_function"
function = "handlers.text.echo"
[endpoint.input]
type = "object"
required = ["first"]
properties.first = {type = "string"}
[endpoint.output]
type = "object"
"""


def daemon(config: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """
    Start a daemon as a shell does: until the command returns and nobody holds its standard error any more.

    :param program: before the command.
    """
    words = [*program, BIN / "twistd", "--pidfile=host.pid", "--logfile=host.log", "agtp", "--config", config]
    return forking.run(words, timeout=90, cwd=config.parent)


@contextmanager
def port_taken(config: Path) -> Iterator[None]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        found = re.search(r"port = \d+", config.read_text())
        assert found is not None
        edited((found[0], f"port = {other.getsockname()[1]}"))(config)
        yield


@contextmanager
def no_store(config: Path) -> Iterator[None]:
    (config.parent / "state").mkdir(mode=0o700)
    (config.parent / "state" / "agtphost.sqlite3").write_bytes(b"a letter to a friend\n" * 100)
    yield


@contextmanager
def other_host(config: Path) -> Iterator[None]:
    with running(config):
        yield


@contextmanager
def ambiguous(config: Path) -> Iterator[None]:
    file = config.parent / "endpoints"
    (file / "one.toml").write_text(TWO_OF_A_PATH)
    (file / "two.toml").write_text(TWO_OF_A_PATH.replace("first", "second"))
    yield


@contextmanager
def misspelled(config: Path) -> Iterator[None]:
    edited(("port = ", "prot = "))(config)
    yield


IN_THE_WAY: dict[str, tuple[Callable[[Path], object], str]] = {
    "the port is taken": (port_taken, "cannot listen"),
    "the store is none": (no_store, r"agtphost\.sqlite3"),
    "another host has the state": (other_host, "another host"),
    "endpoints are ambiguous": (ambiguous, "doubtful"),
    "the configuration is wrong": (misspelled, "prot"),
}


def reasons(said: str) -> list[str]:
    """The sentences, without the stamps that a log puts before each, and without the number of a process."""
    lines = [re.sub(r"^\S+ \[[^]]*\] ", "", line) for line in said.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("agtphost cannot start with"))
    last = next((n for n in range(first + 1, len(lines)) if not lines[n].startswith("  ")), len(lines))
    return [line.strip() for line in lines[first:last]]


@pytest.mark.release
@pytest.mark.parametrize("name", IN_THE_WAY)
def test_the_shell_learns_why_a_daemon_did_not_start(tmp_path: Path, name: str) -> None:
    """Exit status 1, and the sentences that ``-n`` says."""
    arrange, reason = IN_THE_WAY[name]
    config = sample(tmp_path)
    with arrange(config):  # type: ignore[attr-defined]
        made = daemon(config)
        foreground = start(config)
    assert made.returncode == 1, made.stdout + made.stderr
    assert foreground.returncode == 1
    assert re.search(reason, made.stderr)
    assert reasons(made.stderr) == reasons(foreground.stdout + foreground.stderr)
    assert not (config.parent / "host.pid").exists()


@pytest.mark.release
def test_a_daemon_that_starts_lets_go_of_the_shell(tmp_path: Path) -> None:
    """Status 0, nothing said, and no end of the shell's pipes is left in it: reading them comes to an end."""
    config = sample(tmp_path)
    made = daemon(config, "env")  # An interpreter of its own.
    assert (made.returncode, made.stderr) == (0, ""), made.stderr
    log = config.parent / "host.log"
    pid = int((config.parent / "host.pid").read_text())
    try:
        until(lambda: "agtphost ready" in log.read_text(), 60)
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not (config.parent / "host.pid").exists(), 60)


OF_OLD = """
import sys
from twisted.scripts.twistd import run

class CannotStart(SystemExit):
    pass

import agtphost.host.root
agtphost.host.root.StartFailed = CannotStart
run()
"""


@pytest.mark.release
def test_a_plain_system_exit_leaves_the_shell_waiting(tmp_path: Path) -> None:
    """The control: with the exception of old, the tests above would notice."""
    config = sample(tmp_path)
    file = tmp_path / "of_old.py"
    file.write_text(OF_OLD)
    words = [sys.executable, str(file), "--pidfile=host.pid", "--logfile=host.log", "agtp", "--config", str(config)]
    with port_taken(config):
        shell = subprocess.Popen(words, cwd=config.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            log = config.parent / "host.log"
            # The daemon has said why in its log and is gone; the shell's process is still there some time after.
            until(lambda: log.exists() and "cannot listen" in log.read_text(), 60)
            with pytest.raises(subprocess.TimeoutExpired):
                shell.wait(3)
        finally:
            shell.kill()
            shell.wait(10)
