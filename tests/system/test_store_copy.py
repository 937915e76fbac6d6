"""``agtp store copy``: a host's store moves into a database and back, whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.cluster.shared_numbers import ALLOTTED
from agtphost.stores.copying import TABLES, select_all
from agtphost.stores.postgres import connection
from agtphost.stores.settings import locate_url
from tests import postgres
from tests.cluster.test_kept_state import version
from tests.system.hosting import agtp, running, sample

pytestmark = postgres.needed


def url_of(folder: Path) -> str:
    server = postgres.server()
    return server.url(server.schema(folder))


def set_url(config: Path, url: str) -> None:
    text = config.read_text()
    line = f'[store]\nurl = "{url}"'
    found = re.sub(r'\[store\]\nurl = ".*"', line, text)
    config.write_text(found if "[store]" in text else f"{text}\n{line}\n")


def work(config: Path) -> dict[str, Any]:
    """Start the host, let it write records, state items and an answer of a keyed request, and stop it."""
    with running(config) as host:
        for number in range(3):
            nights = {"room": "attic", "arrival": f"2027-0{number + 1}-01", "departure": f"2027-0{number + 1}-02"}
            words = ("--as", "demo", "-", "BOOK", "/room", "--data", json.dumps(nights))
            called = host.agtp_json("call", *words, "--idempotency-key", f"night-{number}")
        me = json.loads((host.state / "agents" / "demo" / "document.json").read_text())["agent_id"]
        note = {"recipient": me, "content": {"text": "line one\0, and \U0010fffe"}}
        told = host.agtp("call", "--as", "demo", "-", "NOTIFY", "--data", json.dumps(note))
        assert told.returncode == 0, told.stderr
        found = host.agtp_json("status")
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert host.stop() == 0
    return {"audit_id": called["audit_id"], "records": found["records"]}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a host that ran on SQLite."""
    config = sample(tmp_path_factory.mktemp("worked"))
    work(config)
    return config.parent


@pytest.fixture
def stopped(worked: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The configuration of such a host in a directory of its own, and its store."""
    config = shutil.copytree(worked, tmp_path / worked.name) / "host.toml"
    (file,) = (config.parent / "state").glob("*.sqlite3")
    return config, file


def rows(file: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        return {table: opened.execute(select_all(table)).fetchall() for table in (*TABLES, "tile")}


def test_there_and_back_every_row_is_the_same(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """The host goes on at its newest record in PostgreSQL, and again in SQLite; each store verifies."""
    config, file = stopped
    before = rows(file)
    url = url_of(tmp_path)
    copied = agtp("store", "copy", f"sqlite:{file}", url, "--json", cwd=config.parent)
    assert copied.returncode == 0, copied.stderr
    counts = json.loads(copied.stdout)["copied"]
    assert counts == {table: len(found) for table, found in before.items() if table != "tile"}
    assert counts["record"] >= 4 and counts["reservation"] == 3 and counts["held"] and counts["state_change"]
    unchanged = tmp_path / "unchanged.sqlite3"
    assert agtp("store", "copy", url, f"sqlite:{unchanged}", "--keep-serving", cwd=config.parent).returncode == 0
    assert rows(unchanged) == before
    set_url(config, url)
    second = work(config)
    assert second["records"] > counts["record"]
    # As a backup that was restored elsewhere: older than the host's store, and sound.
    verified = agtp("audit", "verify", "--store", f"sqlite:{unchanged}", cwd=config.parent)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert f"{counts['record']} records" in verified.stdout
    back = tmp_path / "back.sqlite3"
    copied = agtp("store", "copy", url, f"sqlite:{back}", cwd=config.parent)
    assert copied.returncode == 0 and f"{back}: " in copied.stdout and "start the host" in copied.stdout
    set_url(config, f"sqlite:{back}")
    third = work(config)
    found = rows(back)
    assert found["record"][: counts["record"]] == before["record"]
    assert {second["audit_id"], third["audit_id"]} <= {row[3].hex() for row in found["record"]}


def test_the_old_store_is_refused_once_the_new_one_went_on(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """The witness has seen more than the old store has, which a copy left as it was."""
    config, file = stopped
    url = url_of(tmp_path)
    assert agtp("store", "copy", f"sqlite:{file}", url, "--keep-serving", cwd=config.parent).returncode == 0
    set_url(config, url)
    work(config)
    set_url(config, f"sqlite:{file}")
    refused = agtp("check", cwd=config.parent)
    assert refused.returncode == 2 and "records are missing" in refused.stderr


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE record SET signed = CAST(signed || X'20' AS BLOB) WHERE number = 2",
            "row 2: signed does not have the hash",
        ),
        ("DELETE FROM record WHERE number = 3", "row 3: is not there"),
        ("UPDATE checkpoint SET size = size + 1 WHERE size = (SELECT max(size) FROM checkpoint)", "table checkpoint"),
        ("UPDATE record SET number = number + 1000000 WHERE number = (SELECT max(number) FROM record)", "is not there"),
        ("DELETE FROM record WHERE number = (SELECT max(number) FROM record)", "the records are not those"),
    ],
)
def test_a_damaged_store_is_not_copied(stopped: tuple[Path, Path], tmp_path: Path, statement: str, says: str) -> None:
    """What is wrong is named, and the target has no store."""
    config, file = stopped
    with closing(sqlite3.connect(file, isolation_level=None)) as opened:
        opened.execute(statement)
    for target in (url_of(tmp_path), f"sqlite:{tmp_path / 'new.sqlite3'}"):
        refused = agtp("store", "copy", f"sqlite:{file}", target, cwd=config.parent)
        assert refused.returncode == 4 and says in refused.stderr and "Nothing was copied" in refused.stderr
    assert list(tmp_path.glob("new.sqlite3*")) == []
    set_url(config, url_of(tmp_path))
    made = agtp("store", "init", cwd=config.parent)
    assert made.returncode == 0, made.stderr


def test_what_is_not_copied(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """A running host, a target with a store, a missing source and a URL of no store are refused by name."""
    config, file = stopped
    source, url = f"sqlite:{file}", url_of(tmp_path)

    def refused(*words: str) -> str:
        done = agtp("store", "copy", *words, cwd=config.parent)
        assert done.returncode == 2, done.stdout
        return done.stderr

    assert "exists; name a file that does not" in refused(source, source)
    assert "does not exist" in refused(f"sqlite:{tmp_path / 'none'}", url)
    assert "names no store" in refused(source, "mysql://db/agtp")
    with running(config):
        assert "another host" in refused(source, url)
    assert agtp("store", "copy", source, url, "--keep-serving", cwd=config.parent).returncode == 0
    assert "has a store already, of the host 'localhost'" in refused(source, url)
    place = f"{postgres.server().sockets}".replace("/", "%2F")
    spelt = re.sub(r"//(\w+)@(/[^?]*)\?host=[^&]*", rf"//\1@{place}\2?application_name=x", url)
    assert spelt != url
    for target in (url, spelt):
        assert "FROM and TO are the same store" in refused(url, target)
    empty = url_of(tmp_path / "empty")
    set_url(config, empty)
    assert agtp("store", "init", cwd=config.parent).returncode == 0
    assert "FROM and TO are the same store" in refused(empty, empty)
    set_url(config, url)
    with running(config):
        assert "another host" in refused(url, f"sqlite:{tmp_path / 'new'}")
        other = sample(tmp_path / "other")
        done = agtp("store", "copy", url, f"sqlite:{tmp_path / 'new'}", cwd=other.parent)
        assert done.returncode == 2 and "is in use by" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_copy_that_was_killed_leaves_no_store(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """What it left of a file and its log is no part of the next copy."""
    config, file = stopped
    source, new = f"sqlite:{file}", tmp_path / "new.sqlite3"
    copied = agtp("store", "copy", source, f"sqlite:{new}", "--keep-serving", cwd=config.parent)
    assert copied.returncode == 0, copied.stderr
    expected = rows(new)
    new.rename(tmp_path / "new.sqlite3.copying")
    with closing(sqlite3.connect(tmp_path / "new.sqlite3.copying", isolation_level=None)) as opened:
        opened.execute("PRAGMA journal_mode = WAL").fetchall()
        opened.execute("DELETE FROM record WHERE number > 3")
        log = (tmp_path / "new.sqlite3.copying-wal").read_bytes()
    (tmp_path / "new.sqlite3.copying-wal").write_bytes(log)
    assert log
    copied = agtp("store", "copy", source, f"sqlite:{new}", cwd=config.parent)
    assert copied.returncode == 0, copied.stderr
    assert rows(new) == expected and [each.name for each in tmp_path.glob("new*")] == ["new.sqlite3"]


def test_a_statement_of_a_copy_may_take_as_long_as_a_large_store_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest time of all records is found by reading them; a host's statement that takes so long has stalled."""
    server = postgres.server()
    schema = server.schema(tmp_path)
    server.run(
        f"CREATE FUNCTION {schema}.slow(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1 FROM pg_sleep(1)'",
        f"CREATE AGGREGATE {schema}.max (bigint) (SFUNC = int8larger, STYPE = bigint, FINALFUNC = {schema}.slow)",
    )
    monkeypatch.setattr(connection, "STATEMENT_SECONDS", 0)
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.5)
    place = locate_url(server.url(f"{schema},pg_catalog"))
    with place.write_tables("agtp.test"):
        pass
    assert server.run("SELECT server_id FROM store", url=server.url(schema)) == [("agtp.test",)]


def test_a_copy_goes_on_with_the_numbers_of_what_was_published(stopped: tuple[Path, Path], tmp_path: Path) -> None:
    """
    The same content keeps its number in every store, and another one gets a number that was never used.

    The hosts of the databases have the state directory of another machine: one without a history, one of an earlier
    time.
    """
    config, file = stopped
    history, databases, back = config.parent / "state" / "manifest.json", ["1", "2"], tmp_path / "back.sqlite3"
    earlier = history.read_bytes()
    later = json.loads(earlier)
    later["surface"]["number"] = 40
    history.write_text(json.dumps(later))
    source = f"sqlite:{file}"
    for name in databases:
        copied = agtp("store", "copy", source, url := url_of(tmp_path / name), cwd=config.parent)
        assert copied.returncode == 0, copied.stderr
        set_url(config, url)
        history.unlink()
        with running(config) as host:
            assert version(host) == 40
            assert host.stop() == 0
        history.write_bytes(earlier)
        source = url
    copied = agtp("store", "copy", source, f"sqlite:{back}", cwd=config.parent)
    assert copied.returncode == 0, copied.stderr
    set_url(config, f"sqlite:{back}")
    with running(config) as host:
        assert version(host) == 40
        assert host.stop() == 0
    endpoint = config.parent / "endpoints" / "text.toml"
    endpoint.write_text(re.sub('^path = ".*"', 'path = "/another"', endpoint.read_text(), flags=re.MULTILINE))
    with running(config) as host:
        assert version(host) > 40 + ALLOTTED, "a host of the database may have used the others"
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert host.stop() == 0
