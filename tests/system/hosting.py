"""Real hosts for tests: ``twistd -n agtp`` in a process of its own, on a port of its own."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests import forking

ETC = Path(__file__).resolve().parents[2] / "etc"
BIN = Path(sys.executable).parent
READY = re.compile(r"agtphost (?:ready|serves, and is not ready): agtp://(\S+):([0-9]+)")
START_TIMEOUT = 60.0


_LISTENING: list[socket.socket] = []

_HELD: deque[socket.socket] = deque(maxlen=100)
"""Bound, and listened on by nobody: the system gives their ports to no other process that asks for any."""


def newcomer(home: Path, *places: Path | str) -> dict[str, str]:
    """
    The environment of somebody who has just come: an empty home, the system's programs, and ours; nothing else. Another
    host has the usual port.

    :param home: made, if it is not there.
    :param places: further directories for ``PATH``, before all others.
    """
    home.mkdir(exist_ok=True)
    programs = Path(shutil.which("npm") or "/usr/bin/npm").parent
    path = (*places, forking.path(), BIN, programs, "/usr/bin", "/bin")
    found = {"PATH": ":".join(map(str, path)), "HOME": str(home), "NO_COLOR": "1", "LANG": "C.UTF-8"}
    return {**found, "AGTPHOST_PORT": str(usual_port())}


@cache
def _home() -> Path:
    """One for the hosts and commands that keep nothing there."""
    return Path(tempfile.mkdtemp(dir=Path(forking.path()).parent))


@cache
def usual_port() -> int:
    """Somebody listens there as long as the tests run, and it is the usual port for who is told so."""
    taken = socket.create_server(("127.0.0.1", 0))
    _LISTENING.append(taken)
    return int(taken.getsockname()[1])


def free_port() -> int:
    """Find a port that nothing has at any address, and keep it for the listener who names it."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # At every address: a connection from 127.0.0.9 with the same port would keep a host from listening at all of them.
    probe.bind(("", 0))
    _HELD.append(probe)
    return int(probe.getsockname()[1])


def sample(directory: Path, *, edit: Sequence[tuple[str, str]] = (), append: str = "", eager: bool = False) -> Path:
    """
    A copy of ``etc/`` that listens on a free port.

    :param edit: replacements in ``host.toml``, each of which must hit.
    :param append: more TOML.
    :param eager: start its MCP server with the host, as the sample itself does; that costs as much as the host.
    :return: the copy's ``host.toml``.
    """
    target = directory / "etc"
    shutil.copytree(ETC, target, ignore=shutil.ignore_patterns("state", "__pycache__"))
    file = target / "host.toml"
    text = file.read_text()
    lazy = () if eager else (("timeout = 30\n", 'timeout = 30\nstart = "lazy"\n'),)
    for old, new in [("port = 4480", f"port = {free_port()}"), *edit, *lazy]:
        assert old in text, f"etc/host.toml has no {old!r}"
        text = text.replace(old, new)
    text = text.replace(_FILES, json.dumps(forking.mcp_server("mcp/files_server.py"))[:-1])
    file.write_text(text + append)
    return file


_FILES = '["{python}", "mcp/files_server.py"'
"""Of ``etc/host.toml``: the sample's MCP server."""


class Host:
    """One running host."""

    def __init__(self, config: Path, *, environ: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> None:
        self.config = config
        self.state = config.parent / "state"
        self.lines: list[str] = []
        self.port = 0
        self._ready = threading.Event()
        self.process = forking.start(
            [*prefix, str(BIN / "twistd"), "-n", "--pidfile=", "agtp", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=config.parent,
            env={**newcomer(_home()), **(environ or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self.lines.append(line)
            found = READY.search(line)
            if found:
                self.port = int(found.group(2))
                self._ready.set()
        self._ready.set()

    def wait(self) -> Host:
        """Until the port accepts."""
        if not self._ready.wait(START_TIMEOUT) or not self.port:
            self.kill()
            raise AssertionError("the host did not start:\n" + "\n".join(self.lines[-40:]))
        return self

    @property
    def uri(self) -> str:
        return f"agtp://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def stop(self, timeout: float = 40.0) -> int:
        """SIGTERM, and the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout)
        self._reader.join(5)
        return status

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(60)

    def agtp(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the ``agtp`` command against this host, from its own directory, as a user would."""
        return agtp(*words, cwd=self.config.parent)

    def agtp_json(self, *words: str) -> Any:
        """The same with ``--json``, which must succeed."""
        done = self.agtp(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


def agtp(
    *words: str, cwd: Path | None = None, environ: dict[str, str] | None = None, timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run the ``agtp`` command."""
    return forking.run([BIN / "agtp", *words], timeout=timeout, env={**newcomer(_home()), **(environ or {})}, cwd=cwd)


@contextmanager
def running(config: Path, **options: Any) -> Iterator[Host]:
    """A host that is ready, and gone afterwards."""
    host = Host(config, **options)
    try:
        yield host.wait()
    finally:
        if host.process.poll() is None:
            host.stop()


def until(condition: Any, seconds: float = 60.0, pause: float = 0.02) -> None:
    """
    Wait for a condition of another process.

    :param seconds: only what never happens takes so long, however busy the machine is.
    :param pause: between two looks; longer where a look is dear, or puts off what it looks for.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)
