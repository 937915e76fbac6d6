"""``agtp store upgrade``: tables of an earlier version, with a later program whose schema file the test makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agtphost.cli.root import agtp
from agtphost.stores import StoreError
from agtphost.stores.lease import STANDBY, HostProcess, holder_here
from agtphost.stores.postgres import schema_files
from agtphost.stores.settings import locate_url
from agtphost.testing.stores import row
from tests import postgres

pytestmark = postgres.needed

ADDS = "ALTER TABLE held ADD COLUMN note text;\n"
NOW = schema_files.latest()
NEXT = NOW + 1
COMPATIBLE = f"-- readable_from: {NOW}\n{ADDS}"
"""A step after which this program goes on."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store of this program's version."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    locate_url(made).create("agtp.test")
    return made


@contextmanager
def later_program(folder: Path, *scripts: str) -> Iterator[None]:
    """Make this process a later program, whose schema has a further version for each script."""
    folder.mkdir(exist_ok=True)
    real = schema_files.steps
    made = real()
    for number, script in enumerate(scripts, len(made) + 1):
        step = folder / f"{number:04}.sql"
        step.write_text(script)
        made.append(step)
    schema_files.steps = lambda: made
    try:
        yield
    finally:
        schema_files.steps = real


def opened(url: str) -> Any:
    return locate_url(url).open_store(create=False, holder="test", server_id="agtp.test")


def append(store: Any, number: int) -> None:
    """Commit a record."""
    store.begin()
    chain = store.chain_number("")
    store.append([row(chain, number, number, number - 1)])
    store.commit()


def test_a_running_host_goes_on_with_tables_that_only_grew(url: str, tmp_path: Path) -> None:
    """A13: the later program refuses the store by name, upgrades it under this version's host, and uses it then."""
    store = opened(url)
    append(store, 1)
    with later_program(tmp_path, COMPATIBLE):
        with pytest.raises(
            StoreError, match=rf"schema version {NOW}; this program needs version {NEXT}. Run `agtp store upgrade`"
        ):
            opened(url)
        assert locate_url(url).upgrade() == (NOW, NEXT)
        append(store, 2)
        store.close()
        later = opened(url)
        append(later, 3)
        later.close()
        assert locate_url(url).upgrade() == (NEXT, NEXT)
    earlier = opened(url)
    assert earlier.last_number() == 3
    earlier.close()
    with pytest.raises(StoreError, match=f"this program has version {NOW}"):
        locate_url(url).upgrade()


def test_what_a_running_host_could_not_use_waits_for_its_end(url: str, tmp_path: Path) -> None:
    """A version that programs of the earlier one cannot use is refused while one has the store; then they are."""
    store = opened(url)
    append(store, 1)
    with later_program(tmp_path, ADDS):
        with pytest.raises(StoreError, match=r":test\) does now; stop that host first"):
            locate_url(url).upgrade()
        append(store, 2)
        store.close()
        assert locate_url(url).upgrade() == (NOW, NEXT)
    refused = f"programs of version {NEXT} and later can use; this program has version {NOW}"
    with pytest.raises(StoreError, match=refused):
        opened(url)


def test_a_host_that_stands_by_is_waited_for(url: str, tmp_path: Path) -> None:
    """One that could not use the upgraded store is named, until it stops."""
    place = locate_url(url)
    lease = place.lease(holder_here("west", tmp_path, 10.0), "agtp.test")
    assert lease is not None
    process = HostProcess(
        id="1", name="west", place="m:/d", version="0.3.0", state=STANDBY, settings={"endpoints": "0"}
    )
    lease.report(process)
    lease.report(replace(process, settings={"endpoints": "1"}))
    (seen,) = place.processes()
    assert (seen.name, seen.state, seen.settings, seen.is_alive) == ("west", STANDBY, {"endpoints": "1"}, True)
    with later_program(tmp_path, ADDS):
        with pytest.raises(StoreError, match=rf"these hosts run: west \(standby, version {NOW}\). Stop them first"):
            place.upgrade()
        lease.give_up()
        assert place.processes() == []
        assert place.upgrade() == (NOW, NEXT)


def test_a_store_of_the_first_version_is_upgraded(url: str) -> None:
    """Version 1 has no table of processes: none is shown, and the command adds it."""
    older = (
        "DROP TABLE record_index, record_block, record_hash, facet, published, process",
        "UPDATE store SET schema = 1, readable_from = 1",
    )
    postgres.server().run(*older, url=url)
    assert locate_url(url).processes() == ()
    with pytest.raises(StoreError, match=f"schema version 1; this program needs version {NOW}"):
        opened(url)
    assert locate_url(url).upgrade() == (1, NOW)
    assert locate_url(url).processes() == []
    opened(url).close()


def test_a_row_of_a_process_that_was_edited_harms_nothing(url: str) -> None:
    """What is no digest by name counts as none."""
    row = "('1', 'x', 'm:/d', 'v', -1, 'flying', '[1]', now(), now() - interval '1 year')"
    postgres.server().run(f"INSERT INTO process VALUES {row}", url=url)
    (seen,) = locate_url(url).processes()
    assert (seen.settings, seen.is_alive) == ({}, False)
    opened(url).close()


def test_a_step_that_fails_changes_nothing(url: str, tmp_path: Path) -> None:
    """Several versions apply together or not at all."""
    wrong = f"-- readable_from: {NOW}\nALTER TABLE nothing ADD COLUMN note text;\n"
    with later_program(tmp_path, COMPATIBLE, wrong), pytest.raises(StoreError, match="SQLSTATE 42P01"):
        locate_url(url).upgrade()
    store = opened(url)
    append(store, 1)
    store.close()
    assert locate_url(url).describe()["schema"] == NOW


def test_the_command(url: str, tmp_path: Path) -> None:
    """It says from which version to which, and for a file that the host does it."""
    config = tmp_path / "host.toml"
    base = '[host]\nserver_id = "agtp.test"\nprofile = "development"\n'
    config.write_text(f'{base}[store]\nurl = "{url}"\n')

    def said(*words: str) -> str:
        done = CliRunner().invoke(agtp, ["store", "upgrade", "--config", str(config), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert f"has schema version {NOW} already; nothing was changed" in said()
    with later_program(tmp_path, COMPATIBLE):
        assert f"schema version {NOW} is now {NEXT}; restart the hosts, those that stand by first" in said()
        assert f'"before": {NEXT},\n  "schema": {NEXT}' in said("--json")
    config.write_text(base)
    assert "the host brings it up to date when it starts" in said()
