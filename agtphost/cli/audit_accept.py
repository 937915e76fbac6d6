"""``agtp audit accept-store``: go on with a store that its witness file contradicts, knowingly."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.merkle import ProofError, Tree
from agtphost.audit.witness import WitnessFile
from agtphost.cli.audit_store import open_records
from agtphost.cli.configured import find_config, load_config
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.options import Connection, connection_options, json_option
from agtphost.cli.output import print_json
from agtphost.cli.reach import signing_keys
from agtphost.config import Config
from agtphost.identity import files
from agtphost.stores import RecordReader, StoreError
from agtphost.stores.state_lock import StateLock


@click.command("accept-store")
@click.option("--yes", is_flag=True, help="Do it; without it, only what would be accepted is shown.")
@connection_options
@json_option
def accept_command(yes: bool, where: Connection, as_json: bool) -> None:
    """
    Accept a store that its witness file contradicts.

    After a restore from a backup the host refuses to start: the witness file
    has seen more than the store holds, or is gone. What it has seen is kept beside it, as
    evidence of what is missing, and the newest checkpoint of the store takes
    its place. The host must not be running. A remote witness is not asked, and
    goes on refusing what contradicts it.

    \b
    Examples:
      agtp audit accept-store
      agtp audit accept-store --yes
    """
    path = find_config(where)
    if path is None:
        raise WrongInput("there is no configured host here", "Name its host.toml with --config.")
    config = load_config(path)
    lock = StateLock(config.host.state_dir, config.store.path)
    try:
        lock.acquire()
    except StoreError as error:
        raise WrongInput(str(error), "Stop the host first.") from None
    try:
        _accept(config, yes, as_json)
    finally:
        lock.release()


def _accept(config: Config, yes: bool, as_json: bool) -> None:
    place = config.audit.witness
    keys = signing_keys(config)
    try:
        seen = WitnessFile(place, keys.values()).last()
        known = "is not there" if seen is None else f"has seen {seen.size} records"
    except StoreError as error:
        known = str(error)
    with open_records(config.store.path) as reader:
        newest = _newest(reader, config)
    if newest is None:
        raise WrongInput("the store has no checkpoint: there is nothing to accept", "Start the host.")
    found = f"{place} {known}" if known.startswith(("is", "has")) else known
    if not yes:
        raise WrongInput(
            f"nothing was changed: {found}, and the store has a checkpoint of {newest.size} records",
            "Look for the newer store first; then say --yes.",
        )
    kept = _aside(place) if place.exists() else None
    if kept is not None:
        place.rename(kept)
    files.replace(place, newest.note.encode(), files.PUBLIC)
    if as_json:
        print_json({"witness": str(place), "found": found, "size": newest.size, "kept": str(kept) if kept else None})
        return
    click.echo(found)
    if kept is not None:
        click.echo(f"kept as evidence: {kept}")
    click.echo(f"accepted: the host goes on from {newest.size} records")


def _newest(reader: RecordReader, config: Config) -> Checkpoint | None:
    """The newest checkpoint of the store; it has to be the host's own, and true of the store's tree."""
    row = reader.checkpoint()
    if row is None:
        return None
    keys = signing_keys(config).values()
    try:
        found = checkpoint.verify(row.note, keys) if config.audit.signing else checkpoint.read(row.note)
        sound = Tree(reader.tile, found.size).root() == found.root
    except (CheckpointError, ProofError) as error:
        raise Unverified(f"the store's newest checkpoint cannot be believed: {error}") from None
    if not sound:
        raise Unverified("the store's newest checkpoint is not that of its tree")
    return found


def _aside(place: Path) -> Path:
    """A name beside it that nothing has yet."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return next(
        path
        for number in range(1000)
        if not (path := place.with_name(f"{place.name}.{stamp}{f'-{number}' if number else ''}")).exists()
    )
