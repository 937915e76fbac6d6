"""A second PostgreSQL server of a test: with TLS, passwords, few connections, and a disk that can be full."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509

from agtphost.cli.trial_database import PORT, TrialDatabase, find_programs
from tests import postgres
from tests.protocols.authorities import DAY, issue, now
from tests.system.hosting import free_port

ACCESS = """
local all all trust
local replication all trust
hostssl all secret 127.0.0.1/32 scram-sha-256
hostnossl all secret 127.0.0.1/32 trust
hostssl all plain 127.0.0.1/32 trust
"""

CONNECTIONS = 14
"""Of the server, three of them for its owner alone."""


class StrictServer(postgres.Server):
    """
    A server with files of write-ahead log of 1 MiB, so that a limit for the files of tables leaves them alone.

    Its role ``plain`` has no right that a store does not need; ``secret`` has a password over TLS.

    :param folder: its directory, of which the name is short.
    """

    def __init__(self, folder: Path) -> None:
        found = find_programs()
        assert found is not None
        TrialDatabase.__init__(self, folder, found)
        self.programs = found
        self.create("-N", "--wal-segsize=1")
        (self.data / "pg_hba.conf").write_text(ACCESS)
        self.root = issue(name="authority", authority=True)
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(self.root.pem())
        self.certify()
        self.port = free_port()
        self.start(
            listen_addresses="127.0.0.1",
            port=str(self.port),
            max_connections=str(CONNECTIONS),
            superuser_reserved_connections="3",
            autovacuum="off",
        )
        self.reload("SET ssl = on")
        self.run("CREATE ROLE plain LOGIN", "CREATE ROLE secret LOGIN PASSWORD 'hunter2'")

    def certify(self, name: str = "localhost", *, expired: bool = False, root: Any = None) -> None:
        """Give the server another certificate, which new connections get after :meth:`reload`."""
        alternative = x509.SubjectAlternativeName([x509.DNSName(name)])
        dates = {"start": now() - 2 * DAY, "end": now() - DAY} if expired else {}
        own = issue(root or self.root, name=name, usage=None, extensions=[(alternative, False)], **dates)
        own.save(self.data, "server")
        (self.data / "server.key").rename(self.data / "server.key.new")
        for new, file in (("server.pem", "server.crt"), ("server.key.new", "server.key")):
            (self.data / new).chmod(0o600)
            os.chown(self.data / new, self.data.stat().st_uid, -1)
            (self.data / new).rename(self.data / file)

    def address(self, options: str = "", **place: Any) -> str:
        """As :meth:`TrialDatabase.address`, with this server's port."""
        return super().address(options, **place).replace(f"port={PORT}", f"port={self.port}")

    def remote(self, *, user: str = "plain", database: str = "postgres", options: str = "") -> str:
        """Return the URL of the way by TCP."""
        return f"postgresql://{user}@localhost:{self.port}/{database}?hostaddr=127.0.0.1&{options}"

    def reload(self, *settings: str) -> None:
        """
        Change settings, and wait until new connections have them.

        :param settings: what follows ``ALTER SYSTEM``.
        """
        writes = self.url(more="-c default_transaction_read_only=off")
        loaded = self.run("SELECT pg_conf_load_time()")
        self.run(*(f"ALTER SYSTEM {each}" for each in settings), "SELECT pg_reload_conf()", url=writes)
        while self.run("SELECT pg_conf_load_time()") == loaded:
            time.sleep(0.01)

    def sessions(self) -> list[int]:
        """Return the process ids of the sessions of stores."""
        found = self.run("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'agtphost/%'")
        return [pid for (pid,) in found]

    @contextmanager
    def full_disk(self, octets: int) -> Iterator[None]:
        """
        Let no file of sessions of stores, and of new sessions, grow beyond a size.

        The server then finds that it could write a part alone, as on a full disk.
        """

        def limit(octets: str) -> None:
            for pid in (self.pid, *self.sessions()):
                done = subprocess.run([*self._prefix, "prlimit", f"--pid={pid}", f"--fsize={octets}:"], cwd="/")
                assert done.returncode == 0 or not Path(f"/proc/{pid}").exists()

        limit(str(octets))
        try:
            yield
        finally:
            limit("unlimited")

    @contextmanager
    def replica(self, **settings: str) -> Iterator[TrialDatabase]:
        """A replica of this server, by default without TCP."""
        with tempfile.TemporaryDirectory(prefix="agtp-pg-") as folder:
            made = TrialDatabase(Path(folder), self.programs)
            command = ["-h", str(self.sockets), "-p", str(self.port), "-U", "agtp", "-D", str(made.data)]
            self.call("pg_basebackup", *command, "-R", "-c", "fast", "--no-sync")
            made.start(max_connections=str(CONNECTIONS), **settings)
            try:
                yield made
            finally:
                made.stop()

    def call(self, program: str, *words: str) -> None:
        """Run a program of the server's as its user."""
        done = subprocess.run(
            [*self._prefix, str(self.programs / program), *words], capture_output=True, text=True, cwd="/"
        )
        assert done.returncode == 0, done.stderr


POOLER = shutil.which("pgbouncer")

POOLER_SETTINGS = """
[databases]
pooled = host={server} port={port} dbname=pooled user=plain
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {own}
auth_type = any
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = options
"""


@contextmanager
def pooler(server: StrictServer) -> Iterator[str]:
    """A pooler in transaction mode in front of a database without a store; yields the database's URL through it."""
    assert POOLER is not None
    server.run("CREATE DATABASE pooled OWNER plain")
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as own:
        file = Path(own) / "pgbouncer.ini"
        file.write_text(POOLER_SETTINGS.format(server=server.sockets, port=server.port, own=own))
        for each in (Path(own), file):
            os.chown(each, server.data.stat().st_uid, -1)
        process = subprocess.Popen([*server._prefix, POOLER, str(file)], stderr=subprocess.PIPE, cwd="/")
        try:
            lines: Sequence[bytes] = iter(lambda: process.stderr.readline(), b"")  # type: ignore
            assert any(b"process up" in line for line in lines)
            yield f"postgresql://plain@/pooled?host={own}&port={server.port}"
        finally:
            process.terminate()
            process.communicate(timeout=60)
