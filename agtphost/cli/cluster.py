"""The ``agtp cluster`` group: the hosts that share a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import require_config
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json, print_note, print_table, visible
from agtphost.stores import StoreError
from agtphost.stores.lease import SERVING, STANDBY, UNTAKEN, ProcessSighting
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.quantities import lasting

SIGNING_KEY = "signing key"
"""The kind of file in which a host that takes over may not differ."""


@click.group(cls=VerbGroup)
def command() -> None:
    """Show the hosts that share a store in a database."""


@command.command()
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def status(config: Path | None, as_json: bool) -> None:
    """
    Show which hosts run on the store, and which serves.

    Each host reports itself every two seconds, with its version and a digest of each kind of its files: host.toml
    without [cluster] name and [host] state_dir, endpoints, handlers, recipes, catalogs, documents, the signing key, and
    the files for TLS. A host that differs from the one that serves would serve something else after a takeover. One
    that was killed, is frozen or cut off is silent. Hosts of agtphost 0.2.0 do not report.

    \b
    Examples:
      agtp cluster status
      agtp cluster status --json | jq '.hosts[] | select(.differs != [])'
    """
    loaded = require_config(Connection(config=config), "a store")
    store = locate_store(loaded.store)
    try:
        # In this order: a host that takes the lease in between is not yet one that serves in its report.
        found, described = store.processes(), store.describe()
    except StoreError as error:
        raise WrongInput(str(error)) from None
    if "term" not in described:
        raise WrongInput(
            f"{store.name} is used by one host alone", "`agtp status` shows it; several hosts need PostgreSQL."
        )
    rows = list(_to_rows(found, described["serving"]))
    if as_json:
        print_json({"store": store.name, "serving": described["serving"], "term": described["term"], "hosts": rows})
        return
    click.echo(f"serving  {visible(described['serving'] or 'no host')}, with term {described['term']}")
    click.echo("")
    print_table(("HOST", "STATE", "VERSION", "SINCE", "DIFFERS IN", "PLACE"), map(_to_cells, rows))
    if "moved_to" in described:
        print_note(f"{store.name} was copied to {described['moved_to']}, so no host serves it; see `agtp store status`")
    for row in rows:
        if row["state"] == SERVING and (
            untaken := [kind for kind, found in row["settings"].items() if found == UNTAKEN]
        ):
            print_note(
                f"{row['name']} serves what it read before it took over, because it could not start with the changed "
                f"{', '.join(untaken)}: `agtp status` on its machine says why"
            )
        if row["state"] == STANDBY and SIGNING_KEY in row["differs"]:
            print_note(
                f"{row['name']} cannot take over, because its signing key is not that of the host that serves: copy "
                "the key, its .pub and the directory keys of the state to it, and then send SIGHUP to it"
            )


def _to_rows(found: Sequence[ProcessSighting], holder: str | None) -> Iterator[dict[str, Any]]:
    """
    Yield the members of each process, compared with the one that serves.

    :param holder: the host that has the lease; one that was killed reported last that it serves.
    """
    serving = [each for each in found if each.state == SERVING and each.is_alive and each.name == holder]
    leader = serving[0] if serving else None
    for each in found:
        is_heard = each in serving if each.state == SERVING else each.is_alive
        yield {
            "name": each.name,
            "place": each.place,
            "state": each.state if is_heard else "silent",
            "version": each.version,
            "schema": each.schema,
            "since": each.started,
            "seconds_since_report": round(each.age, 1),
            "settings": dict(each.settings),
            "differs": [] if leader is None else _differences(each, leader),
        }


def _differences(process: ProcessSighting, leader: ProcessSighting) -> list[str]:
    version = ["version"] if process.version != leader.version else []
    return version + process.differences(leader)


def _to_cells(row: dict[str, Any]) -> tuple[object, ...]:
    silent = f"silent for {lasting(row['seconds_since_report'])}"
    return (
        row["name"],
        silent if row["state"] == "silent" else row["state"],
        row["version"],
        row["since"],
        ", ".join(row["differs"]) or "-",
        row["place"],
    )
