"""The commands ``agtp key rotate`` and ``agtp key history``: replace a host's signing key, and list former ones."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import require_config
from agtphost.cli.options import Connection, connection_options
from agtphost.cli.output import print_json, print_note, print_summary, print_table
from agtphost.cli.target import signing_keys
from agtphost.client.local_host import LocalHost
from agtphost.config import Config
from agtphost.identity.key_history import DIRECTORY, read_history, waiting_key
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.stores import StoreError
from agtphost.stores.lease import STANDBY, ProcessSighting
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain


@click.command("rotate")
@click.option(
    "--wait",
    type=click.IntRange(0, 600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the running host uses the new key.",
)
@connection_options
def rotate_command(wait: int, where: Connection, as_json: bool) -> None:
    """
    Give the host a new signing key.

    A running host adopts it within seconds and without a restart, a stopped host at its next start. A record signed by
    both keys links them. The old public key is kept in state/keys, and both are published. Old records stay verifiable.

    Hosts that stand by on the same store need the new key before they can take over; they are named.

    \b
    Examples:
      agtp key rotate
      agtp key rotate --config host.toml --wait 0
    """
    config = require_config(where, "a rotation")
    if not config.audit.signing:
        raise WrongInput("the host does not sign records", "Set [audit] signing = true first.")
    path = config.audit.key
    with local_file(path, KeyFormatError, remedy="Start the host once."):
        old = SigningKey.load(path).public
    waiting = waiting_key(path)
    new = SigningKey.generate()
    with local_file(waiting, doing="written"):
        try:
            new.save(waiting)
        except FileExistsError:
            why = f"{waiting} exists: an earlier rotation still waits for the host"
            raise WrongInput(why, "Start the host, or remove that file.") from None
    adopted = _wait_for_adoption(waiting, wait)
    fields = {"old_kid": old.kid, "new_kid": new.kid, "public_key": new.public.text, "adopted": adopted}
    standbys = _find_standbys(config)
    if as_json:
        print_json({**fields, "standbys": [{"name": each.name, "place": each.place} for each in standbys]})
        return
    print_summary(fields)
    if not adopted:
        print_note("no running host has adopted the key yet; the host adopts it at its next start")
    for each in standbys:
        print_note(
            f"{each.name}, on standby at {each.place}, cannot take over until it has the new key: copy {path}, "
            f"{path.with_suffix('.pub').name} and {config.host.state_dir / DIRECTORY} to it, and then send SIGHUP to it"
        )


def _find_standbys(config: Config) -> list[ProcessSighting]:
    """Return the hosts that stand by on the same store; none where it cannot be asked."""
    try:
        return [each for each in locate_store(config.store).processes() if each.is_alive and each.state == STANDBY]
    except StoreError as error:
        print_note(f"hosts that stand by need the new key to take over; which ones there are is unknown: {error}")
        return []


def _wait_for_adoption(waiting: Path, seconds: int) -> bool:
    """Return whether the host has moved the file into place before the time is over."""
    end = time.monotonic() + seconds
    while waiting.exists():
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True


@click.command("history")
@connection_options
def history_command(where: Connection, as_json: bool) -> None:
    """
    List the host's signing keys, the present one first.

    \b
    Example:
      agtp key history
    """
    config = require_config(where, "the history of keys")
    keys = list(signing_keys(LocalHost.of(config)).values())
    if not keys:
        raise WrongInput("the host has no signing key yet", "Start the host once.")
    until = _retirement_times(config.host.state_dir / DIRECTORY, keys[0])
    rows = [{"kid": key.kid, "key": key.text, "not_after": until.get(key)} for key in keys]
    if as_json:
        print_json(rows)
    else:
        print_table(("KID", "KEY", "USED UNTIL"), (tuple(row.values()) for row in rows))


def _retirement_times(directory: Path, current: VerifyingKey) -> dict[VerifyingKey, str]:
    try:
        return {link.old: link.rotated_at for link in read_history(directory, current)}
    except (KeyFormatError, OSError) as error:
        raise WrongInput(f"the history of keys cannot be read: {explain(error)}") from error
