"""A real host whose store is a PostgreSQL database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agtphost import extras
from agtphost.stores.postgres.location import find_library_fault
from tests import postgres
from tests.system.hosting import Host, agtp, running, sample, until

pytestmark = postgres.needed


def test_a_host_serves_restarts_and_is_verified(tmp_path: Path) -> None:
    """Without a store, before its first start and later, a host refuses to start; with one it serves and verifies."""
    server = postgres.server()
    config = sample(tmp_path, append=f'\n[store]\nurl = "{server.url(server.schema(tmp_path))}"\n')
    folder = config.parent
    checked = agtp("check", cwd=folder)
    assert checked.returncode == 2 and "agtp store init" in checked.stdout + checked.stderr
    refused = Host(config)
    assert refused.process.wait(60) == 1
    until(lambda: "agtp store init" in refused.output)
    made = agtp("store", "init", cwd=folder)
    assert made.returncode == 0, made.stderr
    again = agtp("store", "init", cwd=folder)
    assert again.returncode == 2 and "has a store already, of the host 'localhost'" in again.stderr
    kept = agtp("store", "init", "--if-missing", "--json", cwd=folder)
    assert kept.returncode == 0 and json.loads(kept.stdout)["made"] is False
    assert agtp("check", cwd=folder).returncode == 0
    with running(config) as host:
        first = host.agtp_json("call", "-", "DISCOVER", "/methods")
        status = host.agtp_json("status")
        assert status["state"] == "ready" and status["free_octets"] is None
        held = host.agtp_json("store", "status")
        assert held["holder"].endswith(f":{folder / 'state'}") and held["server_id"] == "localhost"
        host.kill()
    with running(config) as host:
        second = host.agtp_json("call", "-", "DISCOVER", "/methods")
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        found = host.agtp_json("audit", "get", first["audit_id"][:12])
        assert found["verified"] is True
        assert host.stop() == 0
    assert first["audit_id"] != second["audit_id"]
    verified = agtp("audit", "verify", cwd=folder)
    assert verified.returncode == 0 and "verified" in verified.stdout
    stopped = json.loads(agtp("status", "--json", cwd=folder).stdout)
    assert stopped["records"] >= 2 and stopped["state"] == "not running"
    assert json.loads(agtp("store", "status", "--json", cwd=folder).stdout)["holder"] is None
    backup = agtp("backup", str(tmp_path), cwd=folder)
    assert backup.returncode == 2 and "use the database's own tools, such as pg_dump" in backup.stderr
    server.run("UPDATE record SET path = '/elsewhere' WHERE number = 1", url=server.url(server.schema(tmp_path)))
    changed = agtp("audit", "verify", cwd=folder)
    assert changed.returncode == 4 and "record, row 1: path is" in changed.stdout + changed.stderr
    assert not list((folder / "state").glob("*.sqlite3*"))
    # A host that ran before: its database is empty now, as after a disk was replaced.
    schema = server.schema(tmp_path)
    server.run(f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")
    refused = Host(config)
    assert refused.process.wait(60) == 1
    until(lambda: "or restore the database from its backup instead" in refused.output)
    assert server.run(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'") == [(0,)], "nothing was made"


# The driver


@pytest.mark.skipif(extras.is_installed("psycopg_c"), reason="psycopg finds the library that it is asked for")
@pytest.mark.parametrize("words", [("init",), ("copy", "{}", "sqlite:copy.sqlite3")])
def test_a_driver_without_its_library_is_reported(tmp_path: Path, words: tuple[str, ...]) -> None:
    """``pip install psycopg`` alone brings no libpq: the command says what brings one."""
    server = postgres.server()
    url = server.url(server.schema(tmp_path))
    config = sample(tmp_path, append=f'\n[store]\nurl = "{url}"\n')
    done = subprocess.run(
        [Path(sys.executable).with_name("agtp"), "store", *(word.format(url) for word in words)],
        cwd=config.parent,
        env={**os.environ, "PSYCOPG_IMPL": "c"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "psycopg finds no libpq here: pip install 'agtphost[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_early_library_is_refused() -> None:
    """Libpq has a pipeline mode since version 14; without it no group could be written."""
    assert "psycopg found libpq 13, and needs version 14 or later" in find_library_fault(130016)
    assert find_library_fault(140000) == ""
