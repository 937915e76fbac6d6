"""``agtp cert list``: every certificate and revocation list of a deployment, with the days that are left."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agtphost.cli.host_config import require_config
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_entries, print_note
from agtphost.identity.expiry import Expiring
from agtphost.vocabulary import times

COLUMNS = {"KIND": "kind", "NAME": "name", "VALID UNTIL": "valid_until", "DAYS LEFT": "days_left", "FILE": "file"}


@click.command("list")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def list_command(config: Path | None, as_json: bool) -> None:
    """
    List the certificates of a deployment, and when they end.

    Lists the host's own certificates, those of its agents and the registrar, the authorities that it trusts, the client
    certificates that it presents, and revocation lists. What ends first comes first. Standard error says what ends
    within 14 days, with the command that renews it.

    \b
    Examples:
      agtp cert list
      agtp cert list --config work --json
    """
    from agtphost.host.expiry_watch import expiring_files

    settings, now = require_config(Connection(config=config), "a list of certificates"), time.time()
    found = sorted(expiring_files(settings), key=lambda each: each.ends)
    print_entries([_fields(each, now) for each in found], COLUMNS, as_json)
    if not as_json:
        for each in found:
            if each.is_soon(now):
                print_note(each.describe(now))


def _fields(each: Expiring, now: float) -> dict[str, object]:
    """Return the fields of a list entry."""
    return {
        "kind": each.kind,
        "name": each.name,
        "valid_until": times.stamp(each.ends),
        "days_left": each.days_left(now),
        "file": each.file,
    }
