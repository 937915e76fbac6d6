"""
A PostgreSQL server for tests: Debian's, started as an ordinary user, one for each worker, with ``fsync`` on.

Each store has a schema of its own in one database: making a database takes longer than making a store.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agtphost import extras

USER = "agtp"
"""The role that owns the server, and all stores."""

MISSING = "no PostgreSQL server here: apt-get install postgresql, and pip install 'agtphost[postgres]'"

PORT = 5433
"""Of the UNIX socket alone; nothing listens on TCP."""


def programs() -> Path | None:
    """Return the directory of ``initdb`` and ``postgres``; None where they are not installed."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    if shutil.which("psql") is None:
        return None
    # Debian has only the client's programs on the path.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


needed = pytest.mark.skipif(programs() is None or not extras.is_installed("psycopg"), reason=MISSING)
"""Marks what needs a server."""


class Server:
    """
    A running server.

    :param folder: its directory, of which the name is short: it has the UNIX socket.
    """

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self.folder = folder
        self.data = folder / "data"
        self._as = self._ordinary_user()
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    def _ordinary_user(self) -> list[str]:
        """Return what starts a program as a user that is not root: the server refuses to run as root."""
        if os.getuid():
            return ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        user = pwd.getpwnam("nobody")
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        return [
            *("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "INT"),
        ]

    def _run(self, program: str, *words: str) -> None:
        command = [*self._as, str(self._programs / program), *words]
        subprocess.run(command, check=True, capture_output=True, cwd="/", env={"PATH": "/usr/bin:/bin", "LANG": "C"})

    def start(self, **more: str) -> None:
        """Start the server with further settings, and wait until it answers."""
        settings = {
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "",
            "port": str(PORT),
            "fsync": "on",
            "shared_buffers": "16MB",
            "max_connections": "40",
            "max_wal_size": "64MB",
            "logging_collector": "off",
            **more,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as, str(self._programs / "postgres"), "-D", str(self.data), *words],
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C"},
            )
        end = time.monotonic() + 60
        while True:
            try:
                self.run("SELECT 1")
                return
            except Exception:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT is its fast way, SIGQUIT its immediate one."""
        self._process.send_signal(how)
        self._process.wait(60)

    @property
    def pid(self) -> int:
        """The postmaster's."""
        return self._process.pid

    def url(self, schema: str = "public", *, host: Path | None = None, user: str = USER, more: str = "") -> str:
        """
        Return the URL of a store.

        :param host: the directory of another socket, such as that of a proxy.
        :param more: further settings, each with ``-c`` in front.
        """
        options = quote(f"-csearch_path={schema} {more}".strip())
        return f"postgresql://{user}@/postgres?host={host or self.folder}&port={PORT}&options={options}"

    def run(self, *statements: str, url: str = "") -> list[Any]:
        """Run statements, each in its own transaction; return the rows of the last."""
        import psycopg

        rows: list[Any] = []
        with closing(psycopg.connect(url or self.url(), autocommit=True)) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[arg-type]
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def schema(self, folder: Path) -> str:
        """Return the schema that belongs to a directory; it is made, and is empty at first."""
        name = f"s{sha256(str(folder).encode()).hexdigest()[:12]}"
        self.run(f"CREATE SCHEMA IF NOT EXISTS {name}")
        return name


_started: list[Server] = []


def server() -> Server:
    """Return the server of this process; it is started by the first who asks."""
    if not _started:
        _started.append(Server(Path(tempfile.mkdtemp(prefix="agtp-pg-"))))
    return _started[0]


def stop() -> None:
    """Stop the server, if there is one."""
    while _started:
        running = _started.pop()
        with suppress(OSError, subprocess.TimeoutExpired):
            running.stop(signal.SIGQUIT)
        shutil.rmtree(running.folder, ignore_errors=True)
