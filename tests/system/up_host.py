"""``agtp up`` for tests: in a process of its own, read line by line as a person does."""

from __future__ import annotations

import importlib.metadata
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests import forking
from tests.system.hosting import BIN, newcomer, until

_FORKED_MODULE = Path(__file__).with_name("forked_module.py")
_FORKED_UP = Path(__file__).with_name("forked_up.py")

VERIFIER = Path(__file__).resolve().parents[2] / "packages" / "agtp-verify" / "agtp_verify.py"

PASSWORD = "a password\n" * 2
"""What a person types who is asked for a new one: without a terminal, openssl reads it from the standard input."""


def module(name: str, *words: str | Path) -> list[str]:
    """Return the words of ``python -m MODULE``, with which :func:`tests.forking.run` forks."""
    return [sys.executable, str(_FORKED_MODULE), name, *map(str, words)]


@cache
def without_others() -> tuple[str, ...]:
    """Return pytest's options against each plugin of this environment but ours: users have none of them."""
    plugins = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")} - {"agtphost"}
    return tuple(word for name in sorted(plugins) for word in ("-p", f"no:{name}"))


def beside(folder: Path) -> Path:
    """A home that is no part of what is looked at."""
    return folder.with_name(f"{folder.name}-home")


class Up:
    """One ``agtp up``."""

    def __init__(self, folder: Path, *words: str, environ: dict[str, str] | None = None, last: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._last = last
        forked = [sys.executable, _FORKED_UP, forking.path()] if "--hosts" in words else [BIN / "agtp"]
        self.process = forking.start(
            [*forked, "up", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**newcomer(beside(folder), BIN), **(environ or {})},
        )
        self.errors: list[str] = []
        self._beside = threading.Thread(target=self._read_errors, daemon=True)
        self._beside.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            self.lines.append(raw.decode().rstrip("\n"))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            self.errors.append(raw.decode().rstrip("\n"))

    @property
    def text(self) -> str:
        """What it has said so far."""
        return "\n".join(self.lines)

    def wait(self) -> Up:
        """Until it has said its last line."""
        until(lambda: any(line.startswith(self._last) for line in self.lines) or self.process.poll() is not None)
        assert self.process.poll() is None, self.text + "\n".join(self.errors)
        return self

    def stop(self, number: int = signal.SIGINT) -> int:
        """As Ctrl-C does, and the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self._reader.join(5)
        return status

    def value(self, name: str) -> str:
        """Of a line ``name  value  (remark)``."""
        (line,) = [line for line in self.lines if line.startswith(f"{name} ")]
        return line.split()[1]


@contextmanager
def up(folder: Path, *words: str, last: str = '  "agtp": {', environ: dict[str, str] | None = None) -> Iterator[Up]:
    """A host to try that is ready, and gone afterwards."""
    started = Up(folder, *words, environ=environ, last=last)
    try:
        yield started.wait()
    finally:
        started.stop()


def typed(folder: Path, line: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """
    Run one line as a person types it who has just come: :func:`newcomer`.

    :param environ: what is otherwise for this person.
    :return: exit status, and all that it said.
    """
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        env={**newcomer(beside(folder), _programs()), **(environ or {})},
        input=PASSWORD if "pkcs12 -export" in line else "",
        start_new_session=True,
    )
    return done.returncode, done.stdout + done.stderr


@cache
def _programs() -> Path:
    """
    A directory with ``agtp-verify``, and with ``pytest`` and ``python -m pytest``, which fork.

    The verifier is a distribution of its own, which tests/supply/test_verifier.py installs; here, as it lies in the
    source.
    """
    folder = Path(forking.path()).parent / "programs"
    folder.mkdir(exist_ok=True)
    pytest, of_module = (
        shlex.join(forking.launched(forking.product(), file)) for file in (BIN / "pytest", _FORKED_MODULE)
    )
    python = shlex.quote(str(Path(forking.path(), "python")))
    for name, text in {
        "agtp-verify": f'exec {sys.executable} -I {VERIFIER} "$@"',
        "pytest": f'exec {pytest} "$@"',
        "python": f'case "$1 $2" in "-m pytest") shift; exec {of_module} "$@";; esac\nexec {python} "$@"',
    }.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    return folder
