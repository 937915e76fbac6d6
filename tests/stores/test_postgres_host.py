"""A real host whose store is a PostgreSQL database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agtphost import extras
from agtphost.stores import StoreError
from agtphost.stores.postgres import schema_files
from agtphost.stores.postgres.location import find_library_fault
from tests import postgres
from tests.stores.test_postgres import place_of
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


# Two commands at once


def test_of_two_that_make_the_store_the_later_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both wait for each other, and the second says what it found, as ``--if-missing`` of two pods needs it."""
    server = postgres.server()
    place = place_of(server.url(server.schema(tmp_path)))
    made, waits = threading.Event(), threading.Event()
    add_store = schema_files.add_store
    errors = []

    def add_and_wait(*given: Any) -> None:
        add_store(*given)
        made.set()
        assert waits.wait(20)

    def create() -> None:
        try:
            place.create("agtp.test")
        except StoreError as error:
            errors.append(str(error))

    first, second = threading.Thread(target=create), threading.Thread(target=create)
    monkeypatch.setattr(schema_files, "add_store", add_and_wait)
    first.start()
    assert made.wait(20)
    monkeypatch.setattr(schema_files, "add_store", add_store)
    second.start()
    while not server.run("SELECT 1 FROM pg_locks WHERE NOT granted"):
        assert second.is_alive()
    waits.set()
    first.join()
    second.join()
    assert len(errors) == 1 and "has a store already, of the host 'agtp.test'" in errors[0]


def test_commands_that_make_a_store_if_it_is_missing_all_succeed(tmp_path: Path) -> None:
    """One of them makes it."""
    server = postgres.server()
    config = sample(tmp_path, append=f'\n[store]\nurl = "{server.url(server.schema(tmp_path))}"\n')
    words = [Path(sys.executable).with_name("agtp"), "store", "init", "--if-missing", "--json"]
    running = [subprocess.Popen(words, cwd=config.parent, stdout=subprocess.PIPE) for _ in range(3)]
    said = [json.loads(each.communicate(timeout=60)[0]) for each in running]
    assert sorted(each["made"] for each in said) == [False, False, True]
