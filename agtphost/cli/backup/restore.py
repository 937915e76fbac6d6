"""The command ``agtp restore``: restore a host from its backup; the directory gets its name after verification."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agtphost.audit.witness import WitnessFile
from agtphost.cli.backup.archive import ArchiveError, BackupReader, open_backup
from agtphost.cli.backup.store_check import VerifiedStore, check
from agtphost.cli.failures import Unverified, WrongInput, local_file
from agtphost.cli.local_files import given_keys
from agtphost.cli.options import EXISTING, json_option, signing_keys_option
from agtphost.cli.output import print_json, visible
from agtphost.identity import files, key_history
from agtphost.identity.key_ring import KeyRing, known_keys
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.stores import StoreError, upgrade
from agtphost.vocabulary.foreign_errors import explain


@click.command()
@click.argument("file", type=EXISTING, metavar="FILE")
@click.option("--to", "target", type=EXISTING, required=True, metavar="DIR", help="A new or empty directory.")
@signing_keys_option
@json_option
def command(file: Path, target: Path, signing_keys_at: tuple[Path, ...], as_json: bool) -> None:
    """
    Restore a host from a backup, into a directory that is new or empty.

    Everything is verified before the directory gets its name: every file against the signed list, every record of the
    store with its hash, signature and links, and the tree against its checkpoint. A changed, truncated or foreign file
    is refused and leaves nothing behind. With --signing-key only that key and its recorded successors are trusted.

    Records made after the backup are not in it. If a witness has seen them, this command or the host's start says so,
    and the host does not start before you accept the loss: agtp audit accept-store.

    \b
    Examples:
      agtp restore agtphost-localhost-20270115T080000Z.tar --to /srv/agtphost
      agtp restore host.tar --to restored --signing-key signing.pub --json
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongInput(f"{target} is not empty", "Name a directory that is new or empty; nothing is overwritten.")
    target = target.absolute()
    if not target.parent.is_dir():
        raise WrongInput(f"the directory {target.parent} is missing", "Create it first.")
    given = given_keys(signing_keys_at)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with local_file(file), open_backup(file) as backup:
            _require_supported_schema(backup, file)
            with local_file(doing="written"):
                folder.mkdir(mode=0o700)
                backup.extract(folder)
            checked = _verify_store(backup, folder, given, file)
            told = backup.manifest
            with local_file(doing="written"):
                _witness(told, folder, checked)
                files.rename(folder, target)
    except ArchiveError as error:
        raise Unverified(f"{file} cannot be restored: {error}", "No file was restored. Use another backup.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print_result(told, checked, target, pinned=bool(given), as_json=as_json)


def _require_supported_schema(backup: BackupReader, file: Path) -> None:
    """
    Check that this program can read the store of a backup.

    :raises WrongInput: the store has a later schema version, or one of a development version.
    """
    schema = backup.manifest.get("schema")
    if isinstance(schema, int) and schema < upgrade.first():
        raise WrongInput(
            f"{file} has a store of schema version {schema}, made by agtphost {backup.manifest.get('agtphost')}, a "
            f"development version; this program reads stores from version {upgrade.first()} on",
            "Restore it with the program that made it, and keep its records with `agtp audit export`.",
        )
    if isinstance(schema, int) and schema > upgrade.latest():
        raise WrongInput(
            f"{file} has a store of schema version {schema}, made by agtphost {backup.manifest.get('agtphost')}; this "
            f"program knows versions up to {upgrade.latest()}",
            "Restore it with that version or a later one.",
        )


def _verify_store(backup: BackupReader, folder: Path, given: KeyRing, file: Path) -> VerifiedStore:
    signing = backup.manifest.get("signing") is not False
    keys: Mapping[str, VerifyingKey] = given or _own_keys(backup.manifest, folder)
    if signing and not keys:
        raise ArchiveError("it has no public key of its host: give one with --signing-key")
    store = folder / str(backup.manifest.get("store"))
    if backup.manifest.get("schema") != upgrade.latest():
        # The host's first start upgrades an older store; here, a temporary copy is upgraded and verified.
        copied = folder / ".upgraded"
        shutil.copyfile(store, copied)
        _upgrade(copied, file)
        checked = check(copied, keys, signing=signing, what=str(file))
        copied.unlink()
    else:
        checked = check(store, keys, signing=signing, what=str(file))
    # Use the keys that the store itself shows to be successors of the trusted ones.
    backup.verify(checked.report.keys, unsigned=not signing)
    if checked.report.records != backup.manifest.get("records"):
        kept, listed = checked.report.records, backup.manifest.get("records")
        raise ArchiveError(f"its store has {kept} records, and its list names {listed}")
    return checked


def _upgrade(store: Path, file: Path) -> None:
    from agtphost.stores import open_store

    try:
        open_store(f"sqlite:{store}", create=False).close()
    except StoreError as error:
        raise WrongInput(f"{file} has a store that cannot be upgraded: {error}") from None


def _own_keys(manifest: Mapping[str, Any], folder: Path) -> Mapping[str, VerifyingKey]:
    place = str(manifest.get("public_key") or "")
    if not place or not (folder / place).is_file():
        return {}
    try:
        key = VerifyingKey.load(folder / place)
        history = key_history.read_history(folder / str(manifest.get("state")) / key_history.DIRECTORY, key)
    except (KeyFormatError, OSError) as error:
        raise ArchiveError(f"its public keys cannot be read: {explain(error)}") from error
    return known_keys(key, history)


def _witness(manifest: Mapping[str, Any], folder: Path, checked: VerifiedStore) -> None:
    """
    Write the witness file from the newest checkpoint, if it was lost with the state.

    A witness file elsewhere is left unchanged, because it may have seen more records than the backup has.
    """
    place = str((manifest.get("witness") or {}).get("place") or "")
    if place and checked.note:
        files.write_once(folder / place, checked.note.encode(), files.PUBLIC)


def _print_result(
    manifest: Mapping[str, Any], checked: VerifiedStore, target: Path, *, pinned: bool, as_json: bool
) -> None:
    notes = list(_notes(manifest, checked, target, pinned=pinned))
    keys = KeyRing.copy_of(checked.report.keys).in_use
    if as_json:
        print_json(
            {
                "directory": str(target),
                "server_id": manifest.get("server_id"),
                "made_at": manifest.get("made_at"),
                "by": manifest.get("by"),
                "records": checked.report.records,
                "checkpoint": 0 if checked.newest is None else checked.newest.size,
                "signing_key": keys[-1].fingerprint if keys else "",
                "verified": True,
                "notes": notes,
            }
        )
        return
    click.echo(f"verified: {checked.report.records} records of {visible(str(manifest.get('server_id')))}, ", nl=False)
    click.echo(f"backed up at {visible(str(manifest.get('made_at')))}")
    if keys:
        click.echo(f"signing key {keys[-1].fingerprint}{'' if pinned else ', which came with the backup'}")
    for note in notes:
        click.echo(visible(f"note: {note}"))
    click.echo(f"restored: {visible(str(target))}")


def _notes(manifest: Mapping[str, Any], checked: VerifiedStore, target: Path, *, pinned: bool) -> Iterator[str]:
    """Yield notes on what the operator has to do or to know."""
    witness = manifest.get("witness") or {}
    size = 0 if checked.newest is None else checked.newest.size
    if not witness.get("place"):
        place = Path(str(witness.get("file")))
        yield from _witness_notes(place, checked, size)
    if witness.get("hosts"):
        asked = ", ".join(map(str, witness["hosts"]))
        yield (
            f"the host asks its witnesses when it starts ({asked}): if they have seen more records than this backup "
            "has, it does not start; see `agtp audit accept-store --help`"
        )
    left = manifest.get("keys_left_out") or []
    if left:
        yield f"private keys are not in the backup; restore them before the host starts: {', '.join(map(str, left))}"
    for moved in manifest.get("moved") or []:
        here = target / str(manifest.get("state"))
        yield f"{manifest.get('configuration')} says that the state is in {moved}; it is in {here}"


def _witness_notes(place: Path, checked: VerifiedStore, size: int) -> Iterator[str]:
    """Yield notes on a witness file that was not lost with the state."""
    try:
        seen = WitnessFile(place, checked.report.keys.values()).last()
    except StoreError as error:
        yield str(error)
        return
    if seen is None:
        yield f"the witness file {place} is missing: run `agtp audit accept-store` before you start the host"
    elif seen.size > size:
        yield (
            f"{place} has seen {seen.size} records: {seen.size - checked.report.records} are newer than this backup. "
            "Look for a newer store first; to continue without it, run `agtp audit accept-store --yes`"
        )
