"""
A PostgreSQL server of the machine's packages for trials and tests: below one directory, by a UNIX socket alone.

It runs as an ordinary user, because PostgreSQL refuses to run as root, and its ``fsync`` is on, as in production.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

USER = "agtp"
"""The role that owns the server, and all stores."""

PORT = 5433
"""Of the UNIX socket alone; nothing listens on TCP."""

UNPRIVILEGED = "nobody"
"""The user that the server runs as where this process is root's."""

START_SECONDS = 60.0
STOP_SECONDS = 60.0

_ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C"}
_PACKAGES = Path("/usr/lib/postgresql")


class TrialDatabaseError(Exception):
    """The server cannot be made or started; the message says why."""


def find_programs() -> Path | None:
    """Return the directory of ``initdb`` and ``postgres``; None where they are not installed."""
    found = shutil.which("initdb")
    if found is not None and Path(found).resolve().with_name("postgres").is_file():
        return Path(found).resolve().parent
    # Debian has only the client's programs on the path.
    if shutil.which("psql") is None:
        return None
    places = [place.parent for place in _PACKAGES.glob("*/bin/initdb") if place.with_name("postgres").is_file()]
    return max(places, key=_version, default=None)


def _version(programs: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in programs.parent.name.split(".") if part.isdecimal())


class TrialDatabase:
    """
    A PostgreSQL server below a directory.

    :param folder: the directory, which exists; as root, it is given to :data:`UNPRIVILEGED`.
    :param programs: what :func:`find_programs` returned.
    :param sockets: the directory of the UNIX socket, with a short name; by default ``folder``.
    """

    def __init__(self, folder: Path, programs: Path, sockets: Path | None = None) -> None:
        self.folder = folder
        self.sockets = sockets or folder
        self.data = folder / "data"
        self._programs = programs
        self._prefix = _prefix_of_user({folder, self.sockets})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file of the server's log."""
        return self.folder / "log"

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    @property
    def version(self) -> str:
        """The major version of the server that made the data."""
        return (self.data / "PG_VERSION").read_text().strip()

    def address(self, options: str = "", *, host: Path | None = None, user: str = USER) -> str:
        """
        Return the URL of the database.

        :param options: settings of the connection, each with ``-c`` in front.
        :param host: the directory of another socket, such as that of a proxy.
        """
        place = f"postgresql://{user}@/postgres?host={quote(str(host or self.sockets))}&port={PORT}"
        return f"{place}&options={quote(options)}" if options else place

    def create(self, *words: str) -> None:
        """
        Make the data, if they are not there.

        :param words: more options of ``initdb``.
        :raises TrialDatabaseError: ``initdb`` fails.
        """
        if self.data.exists():
            return
        # Made under another name, so that what an interrupted run leaves behind is not taken for a database.
        begun = self.data.with_name("data.new")
        shutil.rmtree(begun, ignore_errors=True)
        command = ["-D", str(begun), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", *words]
        done = subprocess.run(
            [*self._prefix, str(self._programs / "initdb"), *command],
            capture_output=True,
            text=True,
            cwd="/",
            env=_ENVIRON,
            start_new_session=True,
        )
        if done.returncode:
            raise TrialDatabaseError(
                f"PostgreSQL's initdb cannot make a database in {self.data}. Correct what it names, and run "
                f"the command again. It ended with status {done.returncode} and says: {done.stderr.strip()[-1000:]}"
            )
        begun.rename(self.data)

    def start(self, **settings: str) -> None:
        """
        Start the server, and wait until it answers.

        :param settings: more settings.
        :raises TrialDatabaseError: it does not start; the message is the end of its log.
        """
        known = {
            "unix_socket_directories": str(self.sockets),
            "listen_addresses": "",
            "port": str(PORT),
            "fsync": "on",
            "shared_buffers": "16MB",
            "max_connections": "40",
            "max_wal_size": "64MB",
            "logging_collector": "off",
            **settings,
        }
        words = [word for name, value in known.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            begun = log.tell()
            # A new session: Ctrl-C must not reach it before the hosts that use it have stopped.
            self._process = subprocess.Popen(
                [*self._prefix, str(self._programs / "postgres"), "-D", str(self.data), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_ENVIRON,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if not self.is_running or time.monotonic() > end:
                text = self.log.read_bytes()[begun:].decode(errors="replace").strip()
                raise TrialDatabaseError(
                    f"PostgreSQL does not start; its log is {self.log}. Correct what it names, and run the command "
                    f"again: {text[-1000:]}"
                )
            time.sleep(0.02)

    @property
    def is_running(self) -> bool:
        """Whether the postmaster lives."""
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """
        Stop the server.

        :param how: SIGINT is its fast way, SIGQUIT its immediate one.
        """
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_SECONDS)

    def _is_ready(self) -> bool:
        """Return whether the postmaster wrote, as for ``pg_ctl``, that it takes connections."""
        lines: list[str] = []
        with suppress(OSError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def _prefix_of_user(folders: set[Path]) -> list[str]:
    """
    Return what starts a program as an ordinary user, and ends it with this process; give that user the directories.

    :raises TrialDatabaseError: root has no such user, or that user cannot reach a directory.
    """
    setpriv = shutil.which("setpriv")
    if os.getuid():
        return [setpriv, "--pdeathsig", "INT"] if setpriv else []
    import pwd

    try:
        user = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        user = None
    if setpriv is None or user is None:
        raise TrialDatabaseError("PostgreSQL does not run as root: run agtp as an ordinary user")
    named = [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    for folder in folders:
        os.chown(folder, user.pw_uid, user.pw_gid)
        if subprocess.run([*named, "test", "-w", str(folder)], cwd="/", env=_ENVIRON).returncode:
            raise TrialDatabaseError(
                f"PostgreSQL does not run as root, and the user {UNPRIVILEGED}, as which it would run, cannot "
                f"reach {folder}: choose a directory that every user can enter, such as /srv/demo, or run agtp as an "
                "ordinary user"
            )
    return [*named, "--pdeathsig", "INT"]
