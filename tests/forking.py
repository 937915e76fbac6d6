"""
Processes that start as fast as a fork: ``twistd`` and ``agtp`` whose modules are imported already.

An import of the host is a second of a processor's time, and the suite starts thousands. What runs is the command's own
main function in a process of its own, with its own descriptors, directory, environment and signals. A test that is
about the interpreter's start (a daemon, a program before the command) uses :mod:`subprocess`.
"""

from __future__ import annotations

import atexit
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import agtphost
from tests.forked import ask, inherited, send
from tests.forkserver import COMMANDS

SERVER, LAUNCHER = Path(__file__).with_name("forkserver.py"), Path(__file__).with_name("forked.py")
SCRIPTS = {Path(sys.executable).with_name(name) for name in ("agtp", "twistd")}
OF_IMAGES = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Variables that images set, and newcomers have not: no test is about them, and a fork heeds neither."""

LATER = (
    "twisted.scripts.twistd",
    "twisted.internet.epollreactor",
    "twisted.cred.strcred",
    "unittest",
    "jmespath",
    # A sixth of the hosts imports these: where there are many tools, or tokens of a provider.
    "numpy",
    "tokenizers",
    "joserfc.jws",
)
"""What a host imports when it runs."""

A2A = ("a2a.helpers", "a2a.server.request_handlers", "a2a.server.routes", "uvicorn")
MCP = (
    "mcp.server.mcpserver",
    "mcp.server.stdio",
    "mcp.server.streamable_http_manager",
    "uvicorn",
    # What the SDK imports when a server runs.
    "anyio._backends._asyncio",
    "rich.console",
    "rich.logging",
    "rich.traceback",
)


@cache
def product() -> str:
    """The socket of a process that has imported all of agtphost but what is for tests."""
    return preloaded("product", *_product())


def _product() -> list[str]:
    package = Path(agtphost.__file__).parent
    names = sorted(
        ".".join(("agtphost", *file.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        for file in package.rglob("*.py")
        if "testing" not in file.parts
    )
    return [*names, *LATER]


@cache
def a2a_sdk() -> str:
    """The same for agents on the official A2A SDK."""
    return preloaded("a2a", *A2A)


@cache
def mcp_sdk() -> str:
    """The same for servers on the official MCP SDK."""
    return preloaded("mcp", *MCP)


def shared() -> dict[str, str]:
    """Variables for a program that starts hosts itself: with them it asks the processes of this one."""
    return {"FORKSERVER_PRODUCT": product(), "FORKSERVER_MCP": mcp_sdk()}


def mcp_server(script: str | Path, *words: str | Path) -> list[str]:
    """The command of a script on that SDK."""
    return launched(mcp_sdk(), script, *words)


def agtp(*words: str | Path) -> list[str]:
    """The command ``agtp`` for others to start."""
    return launched(product(), Path(sys.executable).with_name("agtp"), *words)


def launched(server: str, program: str | Path, *words: str | Path) -> list[str]:
    """A command for others to start: a small program that has one forked, and lives as long."""
    return [sys.executable, "-I", "-S", str(LAUNCHER), server, str(program), *map(str, words)]


@cache
def path() -> str:
    """A directory for ``PATH`` with both scripts, for a shell to start; and ``python``, which forks for a file."""
    folder = Path(tempfile.mkdtemp(dir=Path(product()).parent))
    for script in SCRIPTS:
        file = folder / script.name
        file.write_text(f'#!/bin/sh\nexec {shlex.join(launched(product(), script))} "$@"\n')
        file.chmod(0o755)
    file = folder / "python"
    forked = shlex.join([sys.executable, "-I", "-S", str(LAUNCHER), product()])
    file.write_text(f'#!/bin/sh\ncase "$1" in *.py) exec {forked} "$@";; esac\nexec {sys.executable} "$@"\n')
    file.chmod(0o755)
    return str(folder)


def preloaded(name: str, *modules: str) -> str:
    """The socket of a process that has imported these; it ends with the one that made it."""
    given = os.environ.get(f"FORKSERVER_{name.upper()}")
    if given is None:
        given, server = _begin(name, modules)
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    else:
        late = time.monotonic() + 120
        while not Path(given).exists():
            assert time.monotonic() < late, f"{given} is not there: the process that forks has ended"
            time.sleep(0.02)
    return given


def share() -> None:
    """Begin all of them for the workers that are started from now on; they are there before a worker has collected."""
    for name, modules in (("product", _product()), ("a2a", A2A), ("mcp", MCP)):
        os.environ[f"FORKSERVER_{name.upper()}"] = _begin(name, modules)[0]


def _begin(name: str, modules: Iterable[str]) -> tuple[str, subprocess.Popen[bytes]]:
    """Start :mod:`tests.forkserver` with these modules."""
    return begin(name, [sys.executable, "-P", str(SERVER)], modules)


def begin(
    name: str, command: Sequence[str], words: Iterable[str], *, cwd: Path | None = None
) -> tuple[str, subprocess.Popen[bytes]]:
    """
    Start a process that forks: the command, the path of its socket, and these words.

    :return: the path, where the socket will be, and the process, which ends with this one.
    """
    folder = tempfile.mkdtemp(prefix=f"fork-{name}-")
    path = f"{folder}/socket"
    server = subprocess.Popen([*command, path, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd)
    atexit.register(server.communicate)
    return path, server


class Popen(subprocess.Popen[Any]):
    """:class:`subprocess.Popen` for the scripts ``twistd`` and ``agtp``: a fork instead of a new interpreter."""

    def _execute_child(
        self,
        args: Sequence[str | Path],
        executable: None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: Sequence[int],
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        startupinfo: None,
        creationflags: int,
        shell: bool,
        *files: Any,
    ) -> None:
        stdin, to_stdin, from_stdout, stdout, from_stderr, stderr, *_, session, group = files
        assert not (executable or preexec_fn or pass_fds or shell) and group == -1, "for subprocess alone"
        handed = [own if file == -1 else file for own, file in enumerate((stdin, stdout, stderr))]
        environ = dict(os.environ if env is None else env)
        folder = str(cwd or Path.cwd())
        self._begin([*map(str, args)], environ, handed, cwd=folder, session=session)
        self._child_created = True
        self._close_pipe_fds(stdin, to_stdin, from_stdout, stdout, from_stderr, stderr)  # type: ignore[attr-defined]

    def _begin(self, words: list[str], environ: dict[str, str], files: list[int], *, cwd: str, session: bool) -> None:
        """Have the process forked."""
        asked = ask(product(), words, environ, files, cwd=cwd, session=session, bound=False)
        self._connection = socket.socket(fileno=asked)
        self._answers = self._connection.makefile("rb")
        self.pid = int(self._answers.readline())

    def _end(self) -> int:
        """Return the status that its parent tells; without a parent there is none."""
        status = os.waitstatus_to_exitcode(int(self._answers.readline() or signal.SIGKILL))
        self._connection.close()
        return status

    def _wait(self, timeout: float | None) -> int:
        """The status, from the process's parent."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._connection, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._end()
        return int(self.returncode)

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None and self._connection.fileno() < 0:
            # Collected before anybody waited for it, its socket first: its parent reaps it, and nobody is told more.
            self.returncode = -signal.SIGKILL
            return int(self.returncode)
        try:
            return self._wait(0)
        except subprocess.TimeoutExpired:
            return None


class Runner:
    """A process that runs commands, one after the other: see :func:`tests.forkserver.attend`."""

    def __init__(self) -> None:
        self.connection, other = socket.socketpair()
        with other:
            self.process = Popen([COMMANDS], stdin=other, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.answers = self.connection.makefile("rb")
        self._made = os.getpid(), inherited()

    def is_ours(self) -> bool:
        """Return whether a child of this process would have what it has."""
        return self._made == (os.getpid(), inherited())


_IDLE: list[Runner] = []
"""Runners without a command."""


class Command(Popen):
    """A command in a process that has run others, each of which left nothing in it."""

    def _begin(self, words: list[str], environ: dict[str, str], files: list[int], *, cwd: str, session: bool) -> None:
        while _IDLE:
            runner = _IDLE.pop()
            if runner.is_ours():
                break
            runner.connection.close()
        else:
            runner = Runner()
        self._runner, self._connection, self.pid = runner, runner.connection, runner.process.pid
        send(runner.connection, {"words": words, "cwd": cwd, "environ": environ, "session": session}, files)

    def _end(self) -> int:
        answer = b""
        with suppress(ConnectionResetError):  # It was killed before it read the request.
            answer = self._runner.answers.readline()
        if answer:
            _IDLE.append(self._runner)
            return int(answer)
        self._connection.close()
        return self._runner.process.wait()


def start(
    words: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """
    A process: forked, where the words are one of the scripts and its interpreter has no variables of its own.

    So is a file that this interpreter is to run, such as a host with a deliberate fault.

    But for ``PYTHONPATH``: what lies there is found, and what has been imported already is not exchanged for it. Where
    there is a ``sitecustomize``, it is a new interpreter all the same.
    """
    program = words[1:] if Path(words[0]) == Path(sys.executable) and str(words[1]).endswith(".py") else words
    if is_forked(words, env):
        return Popen([*map(str, program)], env=env, **options)
    return subprocess.Popen([*map(str, words)], env=env, **options)


def is_forked(words: Sequence[str | Path], env: Mapping[str, str] | None) -> bool:
    """Return whether :func:`start` forks a process for these words."""
    file = Path(words[0]) == Path(sys.executable) and str(words[1]).endswith(".py")
    return (file or Path(words[0]) in SCRIPTS) and _python(os.environ if env is None else env) == _python(os.environ)


def _python(environ: Mapping[str, str]) -> dict[str, object]:
    """What an interpreter looks at when it starts."""
    found: dict[str, object] = {
        name: value for name, value in environ.items() if name.startswith("PYTHON") and name not in OF_IMAGES
    }
    places = str(found.pop("PYTHONPATH", "")).split(os.pathsep)
    return {**found, "customized": [place for place in places if place and Path(place, "sitecustomize.py").exists()]}


def run(
    words: Sequence[str | Path],
    *,
    timeout: float = 60.0,
    input: str | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """
    :func:`subprocess.run` by :func:`start`, with what it writes as text.

    A command ``agtp`` runs in a process that may have run others before: half the time of a fork is that of the pages
    which it copies.
    """
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    reused = (
        Path(words[0]).name == "agtp" and not options.keys() - {"cwd", "env"} and is_forked(words, options.get("env"))
    )
    begin = Command if reused else start
    with begin(words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess([*map(str, words)], process.returncode, output, errors)
