"""``agtp store upgrade``: tables of an earlier version, with a later program whose schema file the test makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agtphost.cli.root import agtp
from agtphost.stores import StoreError
from agtphost.stores.postgres import schema_files
from agtphost.stores.settings import locate_url
from agtphost.testing.stores import row
from tests import postgres

pytestmark = postgres.needed

ADDS = "ALTER TABLE held ADD COLUMN note text;\n"
COMPATIBLE = f"-- readable_from: 1\n{ADDS}"
"""A step after which programs of version 1 go on."""


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
    """A13: the later program refuses the store by name, upgrades it under the host of version 1, and uses it then."""
    store = opened(url)
    append(store, 1)
    with later_program(tmp_path, COMPATIBLE):
        with pytest.raises(
            StoreError, match=r"schema version 1; this program needs version 2. Run `agtp store upgrade`"
        ):
            opened(url)
        assert locate_url(url).upgrade() == (1, 2)
        append(store, 2)
        store.close()
        later = opened(url)
        append(later, 3)
        later.close()
        assert locate_url(url).upgrade() == (2, 2)
    earlier = opened(url)
    assert earlier.last_number() == 3
    earlier.close()
    with pytest.raises(StoreError, match="this program has version 1"):
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
        assert locate_url(url).upgrade() == (1, 2)
    with pytest.raises(StoreError, match="programs of version 2 and later can use; this program has version 1"):
        opened(url)


def test_a_step_that_fails_changes_nothing(url: str, tmp_path: Path) -> None:
    """Several versions apply together or not at all."""
    wrong = "-- readable_from: 1\nALTER TABLE nothing ADD COLUMN note text;\n"
    with later_program(tmp_path, COMPATIBLE, wrong), pytest.raises(StoreError, match="SQLSTATE 42P01"):
        locate_url(url).upgrade()
    store = opened(url)
    append(store, 1)
    store.close()
    assert locate_url(url).describe()["schema"] == 1


def test_the_command(url: str, tmp_path: Path) -> None:
    """It says from which version to which, and for a file that the host does it."""
    config = tmp_path / "host.toml"
    base = '[host]\nserver_id = "agtp.test"\nprofile = "development"\n'
    config.write_text(f'{base}[store]\nurl = "{url}"\n')

    def said(*words: str) -> str:
        done = CliRunner().invoke(agtp, ["store", "upgrade", "--config", str(config), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "has schema version 1 already; nothing was changed" in said()
    with later_program(tmp_path, COMPATIBLE):
        assert "schema version 1 is now 2; restart the hosts, those that stand by first" in said()
        assert '"before": 2,\n  "schema": 2' in said("--json")
    config.write_text(base)
    assert "the host brings it up to date when it starts" in said()
