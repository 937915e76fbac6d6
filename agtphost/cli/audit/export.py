"""The command ``agtp audit export``: write records to a file that anyone can verify."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.audit import checkpoint
from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.export import Prover, write_export
from agtphost.audit.merkle import Tree
from agtphost.cli.audit.entries import HOST
from agtphost.cli.audit.filter_options import filter_options, read_search
from agtphost.cli.audit.store import open_records
from agtphost.cli.failures import Unverified, local_file
from agtphost.cli.host_config import KEY_FILES, require_config
from agtphost.cli.identities import agent_id_of
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json, print_note
from agtphost.cli.progress import show_progress
from agtphost.cli.target import signing_keys
from agtphost.client.local_host import LocalHost
from agtphost.stores import Search, Selection
from agtphost.stores.record_index import read_members
from agtphost.vocabulary.regular_files import PacedWriter

if TYPE_CHECKING:
    from agtphost.iagtp import IRecordReader

PATIENCE = 5.0
"""Seconds to wait for a checkpoint that covers the newest records, if the host runs."""


@click.command("export")
@click.option("-o", "--output", type=EXISTING, metavar="FILE", help="File to write; default: standard output.")
@click.option("--agent", metavar="AGENT|host", help="Only this chain; default: all.")
@filter_options(without=("agent", "chain"))
@click.option("--proofs", is_flag=True, help="Add a proof that each record is in the host's log.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml.")
@json_option
def export_command(
    output: Path | None,
    agent: str | None,
    given: Mapping[str, str],
    proofs: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Write records as JSON lines, with the keys that verify them.

    Reads the configured host's store; the host may be running. A selection by anything but --agent cannot be checked
    for completeness. With --proofs the file has the newest signed checkpoint and the path from each record to its root,
    so that a selection proves membership, too.

    \b
    Examples:
      agtp audit export -o records.jsonl
      agtp audit export --agent librarian --since 2026-11-01T00:00:00Z > november.jsonl
      agtp audit export --caller demo --since 1h --proofs -o incident.jsonl
      agtp audit export --tool files.read_file --from 2026-11-27T10:00Z --until 2026-11-27T11:00Z -o reads.jsonl
    """
    where = Connection(config=config)
    settings = require_config(where, "an export", ("store",), ("host", "server_id"), *KEY_FILES)
    search = read_search(given, where)
    selection = Selection(
        chain=None if agent is None else HOST_CHAIN if agent == HOST else agent_id_of(where, agent),
        caller=search.caller,
        since=search.since,
        until=search.until,
    )
    plain = given.keys() <= {"caller", "from", "until"}
    keys = signing_keys(LocalHost.of(settings))
    with open_records(settings) as reader:
        records = reader.records(selection)
        lines = write_export(
            show_progress(records if plain else filter(_matcher(search), records), "records exported"),
            server_id=settings.host.server_id,
            keys=tuple(keys.items()),
            links=[link.statement for link in keys.links.values()],
            whole=plain and selection.whole_chains,
            prover=_prover(reader) if proofs else None,
        )
        if output is None:
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
        else:
            _write(output, lines)
            if as_json:
                print_json({"file": str(output)})
            else:
                print_note(f"wrote {output}")
        if selection.chain and selection.caller is None and _has_calls(reader, selection):
            note = f"note: --agent selects the chain of {agent}: what it answered, and its events"
            print_note(f"{note}. Its own calls are in other chains; with them: --filter agent:{agent}")


def _has_calls(reader: IRecordReader, selection: Selection) -> bool:
    """Return whether the agent of the selected chain made calls, which are in the chains of those who answered."""
    calls = reader.records(Selection(caller=selection.chain, since=selection.since, until=selection.until))
    return next(iter(calls), None) is not None


def _matcher(search: Search) -> Callable[[StoredRecord], bool]:
    def matches(record: StoredRecord) -> bool:
        members = read_members(record.format, record.signed)
        return members is not None and search.matches(members)

    return matches


def _prover(reader: IRecordReader) -> Prover:
    """
    Return a prover for the newest checkpoint; wait a while for one that covers all present records.

    :raises Unverified: the store has no checkpoint.
    """
    heads = [head.audit_id for head in map(reader.head, reader.chains()) if head is not None]
    wanted = max((reader.number_of(audit_id) or 0 for audit_id in heads), default=0)
    end = time.monotonic() + PATIENCE
    while True:
        row = reader.checkpoint()
        if (row is not None and row.size >= wanted) or time.monotonic() > end:
            break
        time.sleep(0.2)
    if row is None:
        raise Unverified("the store has no checkpoint yet", "Start the host, and ask again in a minute.")
    note = checkpoint.read(row.note).note
    return Prover(note=note, tree=Tree(reader.tile, row.size), number_of=reader.number_of, newest=max(wanted, row.size))


def _write(output: Path, lines: Iterable[bytes]) -> None:
    """
    Write a new file that only its owner can read, because records show who called what.

    A failed attempt leaves no file.
    """
    with local_file(output, doing="written"):
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with PacedWriter(descriptor) as stream:
            stream.writelines(lines)
            stream.flush_to_disk()
    except BaseException:
        with contextlib.suppress(OSError):
            output.unlink()
        raise
