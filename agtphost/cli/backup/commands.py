"""The command ``agtp backup``: save a running host to one verified file."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost import __version__
from agtphost.audit import acceptance
from agtphost.cli.backup import contents
from agtphost.cli.backup.archive import PART, BackupWriter
from agtphost.cli.backup.store_check import VerifiedStore, check
from agtphost.cli.exchange import open_client, require_success
from agtphost.cli.failures import NoConnection, WrongInput, local_file
from agtphost.cli.host_config import require_config
from agtphost.cli.options import EXISTING, Connection, host_options
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.target import resolve, signing_keys
from agtphost.client.local_host import LocalHost
from agtphost.client.local_identities import REGISTRAR
from agtphost.identity import files
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores import StoreError
from agtphost.stores.settings import locate_store
from agtphost.vocabulary import times
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.quantities import size

if TYPE_CHECKING:
    from agtphost.config import Config


@click.command()
@click.argument("file", type=EXISTING, metavar="FILE|DIR")
@click.option("--with-keys", is_flag=True, help="Include private keys: a reader of the file can then act as this host.")
@host_options
def command(file: Path, with_keys: bool, where: Connection, as_json: bool) -> None:
    """
    Back up a host, also while it runs: its store, state, configuration and handler code.

    SQLite's online backup copies the store as of one moment, while the host keeps running. Then every record of the
    copy is verified, and its tree is compared with its newest checkpoint. Only after that the file gets its name, so an
    interrupted backup leaves no file. A running host records who began a backup and its result. In a DIR the file is
    named after the host and the time. Without --with-keys private keys are left out: save them elsewhere. Upstream
    servers and their data are not included, nor are files outside the host's directory.

    \b
    Examples:
      agtp backup /mnt/backups
      agtp backup host.tar --with-keys
      agtp backup /mnt/backups --as operator --json
    """
    config = require_config(where, "a backup")
    store = locate_store(config.store)
    if store.file is None:
        raise WrongInput(f"{store.name} is not a file: {store.backup_hint}", "Also copy the state directory.")
    target = _target(file, config)
    host = _BackupLog(where, config)
    began = host.note(moment="begins")
    with _temporary_directory(target) as folder:
        made, checked = _write(config, folder, with_keys=with_keys, as_json=as_json)
        digest = _digest(made)
        with local_file(target, doing="written"):
            if target.exists():
                raise FileExistsError
            files.rename(made, target)
    told = {
        "file": str(target),
        "sha256": digest,
        "octets": target.stat().st_size,
        "records": checked.report.records,
        "checkpoint": 0 if checked.newest is None else checked.newest.size,
        "keys": with_keys,
        "verified": True,
    }
    made_id = host.note(moment="made", sha256=digest, records=checked.report.records)
    if as_json:
        print_json({**told, "on_record": [each for each in (began, made_id) if each]})
        return
    click.echo(f"verified: {told['records']} records, and the checkpoint of {told['checkpoint']}")
    kept = "with private keys: protect the file like them" if with_keys else "without private keys"
    click.echo(f"{visible(str(target))}: {size(target.stat().st_size)}, {kept}")
    click.echo(f"SHA-256 {digest}")
    click.echo(f"on record: {made_id}") if made_id else print_note(host.why)


class _BackupLog:
    """The running host, which records the steps of a backup."""

    def __init__(self, where: Connection, config: Config) -> None:
        self._where = where
        self._config = config
        self.why = ""
        """Why no step was recorded; empty as long as the host answers."""

    def note(self, **told: Any) -> str | None:
        """
        Record a step at the host; return the Audit-ID, or None if no host answers.

        :raises agtphost.cli.failures.CommandError: the host refuses the backup.
        """
        if self.why:
            return None
        try:
            target = resolve(self._where, identity=REGISTRAR)
            with open_client(target) as client:
                asked = {"target": "backup", **told}
                return require_success(client.call(target.uri, "INSPECT", "/", asked)).audit_id
        except NoConnection as error:
            self.why = f"not on record: no host answers ({error.message})"
            return None


def _target(file: Path, config: Config) -> Path:
    if file.is_dir():
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        file = file / f"agtphost-{config.host.server_id}-{stamp}.tar"
    if file.exists():
        raise WrongInput(f"{file} exists", "Choose another name, or move the file away.")
    if not file.parent.is_dir():
        raise WrongInput(f"the directory {file.parent} is missing", "Create it first.")
    return file.absolute()


@contextmanager
def _temporary_directory(target: Path) -> Iterator[Path]:
    """
    Provide a temporary directory on the disk of ``target`` that only its owner can read.

    A crash leaves this directory, but no backup.
    """
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with local_file(folder, doing="made"):
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(config: Config, folder: Path, *, with_keys: bool, as_json: bool) -> tuple[Path, VerifiedStore]:
    """Write the backup under a temporary name, and verify its store."""
    copy, made = folder / "store", folder / "backup"
    keys = signing_keys(LocalHost.of(config))
    if config.audit.signing and not keys:
        raise WrongInput(
            "the host's public signing key is missing",
            "The first start of a host makes it; if this host ran before, restore the .pub file of [audit] key.",
        )
    try:
        store = locate_store(config.store)
        needed = 2 * store.size()
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise WrongInput(f"{folder.parent} has {size(free)} free, but the backup needs {size(needed)} for a while")
        schema = store.copy(copy, _Progress(as_json).report)
    except (StoreError, OSError) as error:
        raise WrongInput(explain(error)) from error
    checked = check(copy, keys, signing=config.audit.signing, what="the copy")
    with local_file(doing="read"):
        key = SigningKey.load(config.audit.key) if config.audit.signing else None
        written = BackupWriter(made)
        try:
            # Copy the keys after the store, so that every key that signed in it is among them.
            left = _add_files(config, written, with_keys=with_keys)
            written.add(contents.places(config)["store"], copy)
            written.finish(
                _build_manifest(config, checked, schema=schema, left=left), None if key is None else fastest_signer(key)
            )
        finally:
            written.close()
    return made, checked


def _add_files(config: Config, written: BackupWriter, *, with_keys: bool) -> list[str]:
    """Add all files but the store; return the names of private keys that were left out."""
    left = []
    for name, path in contents.files(config):
        try:
            octets = path.read_bytes()
        except FileNotFoundError:
            continue  # The file was just replaced; its successor is in the list or was added later.
        if contents.is_secret(octets) and not with_keys:
            left.append(name)
        else:
            written.add_octets(name, octets, path.stat().st_mode & 0o777)
    return left


def _build_manifest(config: Config, checked: VerifiedStore, *, schema: int, left: list[str]) -> Mapping[str, Any]:
    """Return the members of the list other than the files."""
    folder, state, witness, public = map(
        contents.normalize,
        (config.file.parent, config.host.state_dir, config.audit.witness, config.audit.key.with_suffix(".pub")),
    )
    places = contents.places(config)
    inside = public.is_relative_to(state)
    return {
        "server_id": config.host.server_id,
        "made_at": times.stamp(),
        "by": acceptance.operator(),
        "agtphost": __version__,
        "schema": schema,
        "signing": config.audit.signing,
        "records": checked.report.records,
        "checkpoint": checked.note,
        "configuration": config.file.name,
        "state": places["state"],
        "store": places["store"],
        "public_key": f"{places['state']}/{public.relative_to(state)}" if inside else "",
        "witness": {
            "file": str(witness),
            "place": f"{places['state']}/{witness.relative_to(state)}" if witness.is_relative_to(state) else "",
            "hosts": list(config.audit.witnesses),
        },
        "moved": [] if state.is_relative_to(folder) else [str(state)],
        "keys_left_out": left,
        "directories": contents.directories(config),
    }


class _Progress:
    """Progress output of a long copy, for people."""

    def __init__(self, as_json: bool) -> None:
        self._shown = sys.stderr.isatty() and not as_json
        self._last = 0.0

    def report(self, done: int, pages: int) -> None:
        """Report that ``done`` of ``pages`` pages are copied."""
        if self._shown and (time.monotonic() - self._last > 0.5 or done == pages):
            self._last = time.monotonic()
            click.echo(f"\rcopied {100 * done // max(pages, 1)} %", nl=done == pages, err=True)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while part := stream.read(PART):
            digest.update(part)
    return digest.hexdigest()
