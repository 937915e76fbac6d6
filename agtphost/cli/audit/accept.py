"""The command ``agtp audit accept-store``: accept a store that its witness file contradicts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.audit import acceptance, checkpoint, state_check
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.merkle import ProofError, Tree
from agtphost.audit.witness import WitnessFile
from agtphost.cli.audit.store import load_plugin_store, open_records
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.host_config import find_config, load_config
from agtphost.cli.options import Connection, connection_options
from agtphost.cli.output import print_json
from agtphost.cli.target import signing_keys
from agtphost.client.local_host import LocalHost
from agtphost.config import Config
from agtphost.identity import files
from agtphost.identity.keys import KeyFormatError, SigningKey
from agtphost.stores import StoreError
from agtphost.stores.lease import REPORT_SECONDS, SILENT_SECONDS, USUAL_LEASE, ProcessSighting, holder_here
from agtphost.stores.location import StoreLocation
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.times import steady

if TYPE_CHECKING:
    from agtphost.iagtp import IRecordReader

REPORTED_AGAIN = 1.5 * REPORT_SECONDS
"""Seconds within which each process of a shared store has reported again."""

SHOWN = 20
"""Rows that are printed for people; ``--json`` has all."""


@click.command("accept-store")
@click.option("--yes", is_flag=True, help="Accept the store; without --yes, only show what would be accepted.")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the record.")
@connection_options
def accept_command(yes: bool, reason: str, where: Connection, as_json: bool) -> None:
    """
    Accept a store that contradicts its witness file or records.

    After a restore from a backup the host refuses to start, because the witness file covers more records than the store
    holds, or is missing. This command keeps the witness file under another name as evidence of the missing records, and
    writes the store's newest checkpoint in its place. A signed event in the host's own chain records who accepted what,
    and when. No host of the store may be running, nor stand by. A remote witness is not asked, and keeps refusing what
    contradicts it.

    A host also refuses rows of agents' states, approvals, grants and other items that no record signed. Without --yes
    they are listed; with --yes they count from now on, and a second event, state-accepted, names them.

    \b
    Examples:
      agtp audit accept-store
      agtp audit accept-store --yes --reason 'disk lost, restored from Monday'
      agtp audit walk host -n 1
    """
    path = find_config(where)
    if path is None:
        raise WrongInput("no host is configured here", "Name its host.toml with --config.")
    config = load_config(path)
    store = locate_store(config.store)
    lock = store.lock(config.host.state_dir)
    try:
        lock.acquire()
    except StoreError as error:
        raise WrongInput(str(error), "Stop the host first.") from None
    try:
        if yes:
            _require_no_host(store, config.host.state_dir)
        _accept(config, yes, reason, as_json)
    finally:
        lock.release()


def _require_no_host(store: StoreLocation, state_dir: Path) -> None:
    """
    Refuse while hosts run on a store that several share.

    A standby that saw the newer store does not take over, but one that started since does, with a witness file of its
    own. A database that was restored has none of their reports, so this waits until each has written its next one.
    """
    own = holder_here("", state_dir, USUAL_LEASE).place
    running: list[ProcessSighting] = []
    try:
        is_shared, end = "term" in store.describe(), steady() + REPORTED_AGAIN
        while is_shared and not running:
            running = [each for each in store.processes() if each.is_alive and each.place != own]
            if steady() >= end:
                break
            time.sleep(REPORTED_AGAIN / 10)
    except StoreError as error:
        raise WrongInput(str(error)) from None
    if running:
        hosts = ", ".join(f"{each.name} ({each.state}, at {each.place})" for each in running)
        raise WrongInput(
            f"nothing was changed: hosts run on {store.name}: {hosts}",
            f"Stop them first; one that was killed counts for {SILENT_SECONDS:.0f} s more.",
        )


def _accept(config: Config, yes: bool, reason: str, as_json: bool) -> None:
    place = config.audit.witness
    keys = signing_keys(LocalHost.of(config))
    seen = None
    try:
        seen = WitnessFile(place, keys.values()).last()
        known = "is not there" if seen is None else f"has seen {seen.size} records"
        found = f"{place} {known}"
    except StoreError as error:
        found = known = str(error)
    with open_records(config) as reader:
        newest = _newest(reader, config)
        wrong = [f"{table}, {row}: {why}" for table, row, why in state_check.findings(reader)]
    has = "has no checkpoint" if newest is None else f"has a checkpoint of {newest.size} records"
    if not yes:
        listed = "".join(f"\n  {each}" for each in wrong[:SHOWN])
        rows = f"; {len(wrong)} rows differ from what was signed:{listed}" if wrong else ""
        hint = "Find out who changed these rows" if wrong else "Look for a newer store"
        raise WrongInput(f"nothing was changed: {found}, and the store {has}{rows}", f"{hint} first; then add --yes.")
    kept = _free_name(place) if place.exists() else None
    event = {
        "actor": acceptance.operator(),
        "accepted": _checkpoint_to_json(newest),
        "witness": {
            "file": str(place),
            "found": known,
            "seen": None if seen is None else _checkpoint_to_json(seen),
            "kept": None if kept is None else str(kept),
        },
        **({"reason": reason} if reason else {}),
    }
    size, audit_id = _record_acceptance(config, event, place, kept, () if seen is None else (seen.note,))
    if as_json:
        print_json(
            {
                "witness": str(place),
                "found": found,
                "size": size,
                "kept": str(kept) if kept else None,
                "audit_id": audit_id,
                "rows": wrong,
            }
        )
        return
    click.echo(found)
    if kept is not None:
        click.echo(f"kept as evidence: {kept}")
    for each in wrong[:SHOWN]:
        click.echo(f"accepted as it is: {each}")
    click.echo(f"accepted: the host continues from {size} records; the last one records the acceptance: {audit_id}")


def _checkpoint_to_json(seen: Checkpoint | None) -> dict[str, object]:
    """Return a checkpoint in the form of the record; without one, a size of 0."""
    return {"size": 0} if seen is None else {"size": seen.size, "root": seen.root.hex()}


def _record_acceptance(
    config: Config, event: Mapping[str, object], place: Path, kept: Path | None, notes: Sequence[str]
) -> tuple[int, str]:
    """
    Record the event, then replace the witness file.

    If the command is interrupted in between, the host still refuses to start, and the command can be repeated.
    """
    from agtphost.host.evidence import open_configured

    try:
        key = SigningKey.load(config.audit.key) if config.audit.signing else None
        store = open_configured(config, load_plugin_store(config), create=False)
        try:
            sealed, issued = acceptance.record(
                store,
                key,
                event,
                server_id=config.host.server_id,
                envelope=config.audit.envelope,
                notes=lambda: notes,
            )
        finally:
            store.close()
    except (StoreError, KeyFormatError) as error:
        raise WrongInput(f"the acceptance cannot be recorded, and nothing was changed: {error}") from None
    except OSError as error:
        raise WrongInput(f"{error.filename} cannot be read: {explain(error)}; nothing was changed") from error
    if kept is not None:
        place.rename(kept)
    files.replace(place, issued.note.encode(), files.PUBLIC)
    return issued.size, sealed.audit_id


def _newest(reader: IRecordReader, config: Config) -> Checkpoint | None:
    """Return the store's newest checkpoint; the host must have signed it, and it must match the store's tree."""
    row = reader.checkpoint()
    if row is None:
        return None
    keys = signing_keys(LocalHost.of(config)).values()
    try:
        found = checkpoint.verify(row.note, keys) if config.audit.signing else checkpoint.read(row.note)
        sound = Tree(reader.tile, found.size).root() == found.root
    except (CheckpointError, ProofError) as error:
        raise Unverified(f"the store's newest checkpoint does not verify: {error}") from None
    if not sound:
        raise Unverified("the store's newest checkpoint does not match the store's tree")
    return found


def _free_name(place: Path) -> Path:
    """Return a free file name next to ``place``, with the present time in it."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return next(
        path
        for number in range(1000)
        if not (path := place.with_name(f"{place.name}.{stamp}{f'-{number}' if number else ''}")).exists()
    )
