"""
A PostgreSQL server for tests: Debian's, started as an ordinary user, one for each worker, with ``fsync`` on.

Each store has a schema of its own in one database: making a database takes longer than making a store.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost import extras
from agtphost.cli.trial_database import USER, TrialDatabase, find_programs

MISSING = "no PostgreSQL server here: apt-get install postgresql, and pip install 'agtphost[postgres]'"

needed = pytest.mark.skipif(find_programs() is None or not extras.is_installed("psycopg"), reason=MISSING)
"""Marks what needs a server."""


TEMPLATE = "POSTGRESQL_TEMPLATE"
"""The variable that names a directory of a whole run, for the data that its servers begin with."""


class Server(TrialDatabase):
    """
    A running server.

    :param folder: its directory, of which the name is short: it has the UNIX socket.
    """

    def __init__(self, folder: Path) -> None:
        found = find_programs()
        assert found is not None
        super().__init__(folder, found)
        self._create()
        self.start()

    def _create(self) -> None:
        """Make the data, or copy those of the run's first server: ``initdb`` takes six times as long."""
        template = os.environ.get(TEMPLATE)
        if template is None:
            self.create("-N")
            return
        with open(f"{template}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not Path(template).exists():
                self.create("-N")
                _copy(self.data, f"{template}.new")
                os.rename(f"{template}.new", template)
        if not self.data.exists():
            _copy(template, self.data)

    def url(self, schema: str = "public", *, host: Path | None = None, user: str = USER, more: str = "") -> str:
        """
        Return the URL of a store.

        :param host: the directory of another socket, such as that of a proxy.
        :param more: further settings, each with ``-c`` in front.
        """
        return self.address(f"-csearch_path={schema} {more}".strip(), host=host, user=user)

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


def _copy(data: str | Path, target: str | Path) -> None:
    """Copy data with their owner and permissions."""
    subprocess.run(["cp", "-a", str(data), str(target)], check=True)


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
