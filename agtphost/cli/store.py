"""The ``agtp store`` group: make the store of a host in a database, copy it there and back, and show who holds it."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import require_config
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json, print_note, print_summary, visible_line
from agtphost.cli.store_copy import copy_store
from agtphost.cli.store_move import finish_interrupted, reopen_store
from agtphost.config import Config
from agtphost.errors import ConfigurationError
from agtphost.stores import Search, StoreError
from agtphost.stores.location import StoreLocation
from agtphost.stores.moves import describe_move
from agtphost.stores.settings import locate_store, locate_url
from agtphost.vocabulary.foreign_errors import explain

_CONFIG = click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")


@click.group(cls=VerbGroup)
def command() -> None:
    """Create, copy, upgrade and show the store of a host in a database."""


@command.command()
@_CONFIG
@click.option("--if-missing", is_flag=True, help="Succeed without a change if this host's store is there already.")
@json_option
def init(config: Path | None, if_missing: bool, as_json: bool) -> None:
    """
    Create an empty store in the database that [store] url names.

    A host never makes one there: an empty store in place of a lost one would hide the loss. A store that is there
    already is refused, and so is a database whose settings can lose acknowledged records. The role needs the right to
    create tables; the host needs only those to read and change them.

    \b
    Examples:
      agtp store init
      agtp store init --config /etc/agtphost/host.toml --if-missing
    """
    loaded = require_config(Connection(config=config), "a store")
    store = locate_store(loaded.store)
    made = not (if_missing and _is_there(store, loaded.host.server_id))
    try:
        if made:
            store.create(loaded.host.server_id)
    except StoreError as error:
        # Another command may have made it since.
        if not (if_missing and _is_there(store, loaded.host.server_id)):
            raise WrongInput(str(error)) from None
        made = False
    if as_json:
        print_json({"store": store.name, "server_id": loaded.host.server_id, "made": made})
    elif not made:
        click.echo(f"{store.name}: has the store of {loaded.host.server_id} already; nothing was changed")
    else:
        click.echo(f"{store.name}: an empty store for {loaded.host.server_id}; start the host")


@command.command()
@click.argument("store", metavar="[STORE]", required=False)
@_CONFIG
@json_option
def upgrade(store: str | None, config: Path | None, as_json: bool) -> None:
    """
    Bring the tables in a database to this program's version.

    STORE is a URL as in [store] url, which is the default.

    A host never changes the tables of a database at its start. Install the new version on every machine, run this
    command on one of them, then restart the hosts, those that stand by first. Where possible, an earlier version can
    still use the changed tables; otherwise the command is refused while a host uses the store.

    A store in a SQLite file needs no command: the host upgrades it at its start. No host starts with one that
    `agtp store copy` marked, so this command upgrades that; it can then be read again.

    \b
    Examples:
      agtp store upgrade
      agtp store upgrade --config /etc/agtphost/host.toml --json
    """
    loaded = require_config(Connection(config=config), "a store")
    try:
        location = locate_store(loaded.store) if store is None else locate_url(store, _password_of(loaded))
        versions = location.upgrade()
        is_moved = location.find_move() is not None
    except StoreError as error:
        raise WrongInput(str(error)) from None
    before, now = versions or (None, None)
    if as_json:
        print_json({"store": location.name, "before": before, "schema": now})
    elif versions is None:
        click.echo(f"{location.name}: the host brings it up to date when it starts")
    elif before == now:
        click.echo(f"{location.name}: has schema version {now} already; nothing was changed")
    else:
        then = "it was copied, so no host serves it" if is_moved else "restart the hosts, those that stand by first"
        click.echo(f"{location.name}: schema version {before} is now {now}; {then}")


@command.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_CONFIG
@click.option("--keep-serving", is_flag=True, help="Leave FROM to its hosts; for a copy that is only looked at.")
@json_option
def copy_command(source: str, target: str, config: Path | None, keep_serving: bool, as_json: bool) -> None:
    """
    Copy the store of a stopped host into another database.

    FROM and TO are URLs as in [store] url: sqlite:FILE or postgresql://USER@HOST/DATABASE. For a password use
    [store] password, or the database's own means (PGPASSFILE). TO must not have a store.

    Every row is copied as it is. The tree over the records is made anew and compared with the newest checkpoint; if
    anything differs, or the command is interrupted, TO has no store. Then write TO into [store] url and start the host.

    A host on FROM and one on TO would go on from the same record. So FROM is marked, no host serves it any more, and it
    can still be read and verified. After an interruption, run the same command again; to go back to FROM instead,
    remove TO and run `agtp store reopen --force`. With --keep-serving, FROM is not marked: let no host serve TO then.

    \b
    Examples:
      agtp store copy sqlite:state/agtphost.sqlite3 postgresql://agtp@db.example.com/agtp
      agtp store copy postgresql://agtp@db.example.com/agtp sqlite:/srv/agtp/agtphost.sqlite3 --json
    """
    loaded = require_config(Connection(config=config), "a store")
    password = _password_of(loaded)
    copied: dict[str, int] = {}
    try:
        old, new = locate_url(source, password), locate_url(target, password)
        with old.lock_stopped(loaded.host.state_dir):
            is_there = not keep_serving and finish_interrupted(old, new)
            if not is_there:
                copied = copy_store(old, new, loaded.host.server_id, loaded.host.state_dir, keep_serving=keep_serving)
    except StoreError as error:
        raise WrongInput(str(error)) from None
    except ConfigurationError as error:
        raise configuration_error(error) from None
    if as_json:
        print_json({"from": old.name, "to": new.name, "copied": copied, "was_there": is_there})
    elif is_there:
        click.echo(f'{new.name}: has the copy already. Write url = "{target}" in [store] and start the host')
    else:
        click.echo(
            f"{new.name}: {copied['record']:,} records and {copied['held']:,} state items; the tree is that of the "
            f'newest checkpoint. Write url = "{target}" in [store] and start the host'
        )


@command.command()
@click.argument("store", metavar="[STORE]", required=False)
@_CONFIG
@click.option("--force", is_flag=True, help="Do not look whether the copy is there.")
@json_option
def reopen(store: str | None, config: Path | None, force: bool, as_json: bool) -> None:
    """
    Let hosts serve a store again that `agtp store copy` marked.

    STORE is a URL as in [store] url, which is the default. The command refuses where the copy was complete, or cannot
    be looked at: if a host served it, or a copy of it, records are missing here, and both stores would go on from one.

    \b
    Examples:
      agtp store reopen
      agtp store reopen sqlite:state/agtphost.sqlite3 --json
    """
    loaded = require_config(Connection(config=config), "a store")
    password = _password_of(loaded)
    try:
        location = locate_store(loaded.store) if store is None else locate_url(store, password)
        with location.lock_stopped(loaded.host.state_dir):
            move = reopen_store(location, password, force=force)
    except StoreError as error:
        raise WrongInput(str(error)) from None
    if as_json:
        print_json({"store": location.name, **describe_move(move)})
    else:
        click.echo(f"{location.name}: hosts can serve it again; start one")


@command.command()
@_CONFIG
@json_option
def status(config: Path | None, as_json: bool) -> None:
    """
    Show where a host's store is, what it contains, and which host uses it.

    \b
    Examples:
      agtp store status
      agtp store status --json | jq .holder
    """
    loaded = require_config(Connection(config=config), "a store")
    store = locate_store(loaded.store)
    if loaded.store.plugin is not None:
        raise WrongInput(
            f"{store.name} is a plugin, whose state agtp cannot show", "Ask the author of the plugin how to inspect it."
        )
    try:
        found, risks = _describe(store), list(store.find_risks())
    except (StoreError, sqlite3.Error) as error:
        raise WrongInput(explain(error)) from error
    if as_json:
        print_json({**found, "warnings": risks})
        return
    print_summary(found)
    for risk in risks:
        print_note(visible_line(f"note: {risk}"))


def _password_of(loaded: Config) -> str | None:
    return None if loaded.store.password is None else loaded.store.password.reveal()


def _is_there(store: StoreLocation, server_id: str) -> bool:
    """Return whether there is the store of a host; what fails here, fails again when the store is made."""
    with suppress(StoreError):
        return store.describe().get("server_id") == server_id
    return False


def _describe(store: StoreLocation) -> dict[str, Any]:
    """Return the fields of a store."""
    reader = store.open_reader()
    try:
        checkpoint, newest = reader.checkpoint(), reader.latest(None, 1, Search()).records
        return {
            "store": store.name,
            **store.describe(),
            "records": newest[0][0] if newest else 0,
            "checkpoint": 0 if checkpoint is None else checkpoint.size,
        }
    finally:
        reader.close()
