"""The ``agtp audit`` group, and its commands for single records and chains (companion section 5)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice

import click

from agtphost.cli.abbreviations import audit_id_of
from agtphost.cli.audit.accept import accept_command
from agtphost.cli.audit.entries import HOST, entry_of, pages
from agtphost.cli.audit.export import export_command
from agtphost.cli.audit.filter_options import (
    NUMBER_OPTION,
    describe_no_match,
    filter_options,
    read_filter,
    read_search,
)
from agtphost.cli.audit.follow import follow_command
from agtphost.cli.audit.prove import checkpoint_command, prove_command
from agtphost.cli.audit.report import report_command
from agtphost.cli.audit.search import search_command
from agtphost.cli.audit.summary import find_summary, is_summary_id
from agtphost.cli.audit.verify import verify_command
from agtphost.cli.exchange import inspect, open_client, signing_keys
from agtphost.cli.failures import WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.identities import agent_id_of, labels
from agtphost.cli.options import Connection, host_options, wide_option
from agtphost.cli.output import print_json, print_note, print_summary, print_table
from agtphost.cli.target import resolve


@click.group(cls=VerbGroup)
def command() -> None:
    """Fetch, search, walk, verify, prove and export records."""


command.add_command(verify_command)
command.add_command(export_command)
command.add_command(follow_command)
command.add_command(report_command)
command.add_command(search_command)
command.add_command(prove_command)
command.add_command(checkpoint_command)
command.add_command(accept_command)


@command.command()
@click.argument("audit_id", metavar="AUDIT_ID")
@host_options
def get(audit_id: str, where: Connection, as_json: bool) -> None:
    """
    Fetch one record, and verify it.

    AUDIT_ID may also be the Audit-Summary of an answer that has no separate record: then this is the event that counts
    such calls, and only operators may ask for it.

    \b
    Example:
      agtp audit get AUDIT_ID --json
    """
    if is_summary_id(audit_id):
        entry = find_summary(where, audit_id)
        if as_json:
            print_json({"audit_id": entry.audit_id, "payload": entry.payload, "verified": entry.signed})
            return
        print_summary({"audit_id": entry.audit_id, **entry.payload})
        click.echo("record verified" if entry.signed else "the record is not signed, so it proves nothing")
        return
    audit_id = audit_id_of(where, audit_id)
    target = resolve(where)
    with open_client(target) as client:
        result = inspect(client, target, {"target": "audit", "audit_id": audit_id})
        entry = entry_of({**result, "audit_id": audit_id}, signing_keys(target, client))
    if as_json:
        print_json({**result, "audit_id": audit_id, "payload": entry.payload, "verified": entry.signed})
        return
    print_summary({"audit_id": audit_id, **entry.payload})
    click.echo("record verified" if entry.signed else "the record is not signed, so it proves nothing")


@command.command()
@click.argument("chain", metavar="[AGENT|host]", default=HOST)
@NUMBER_OPTION
@click.option("--all", "everything", is_flag=True, help="Show the whole chain.")
@click.option("--ids", is_flag=True, help="Print only the full Audit-IDs, for other commands.")
@filter_options(without=("chain",))
@wide_option
@host_options
def walk(
    chain: str,
    number: int,
    everything: bool,
    ids: bool,
    given: Mapping[str, str],
    where: Connection,
    as_json: bool,
) -> None:
    """
    Show a chain, newest record first.

    The chain is an agent's, or the host's own. The hash and signature of every record shown are verified. With a
    filter, the newest records that match are shown.

    \b
    Examples:
      agtp audit walk
      agtp audit walk librarian -n 100
      agtp audit walk librarian --status 4xx --from -24h
      agtp explain $(agtp audit walk host -n 1 --ids)
    """
    search = read_search(given, where)
    target = resolve(where)
    if ":" in chain:
        raise WrongInput(f"{chain!r} is not a chain", f"Write: agtp audit walk --filter {shlex.quote(chain)}")
    named = chain if chain == HOST else agent_id_of(where, chain)
    with open_client(target) as client:
        keys = signing_keys(target, client)
        walked = pages(client, target.uri, named, keys, None if everything or given else number)
        matching = (entry for entry in walked if search.matches(entry.payload))
        entries = list(matching if everything else islice(matching, number))
    if as_json:
        print_json([entry.fields() for entry in entries])
        return
    if ids:
        for entry in entries:
            click.echo(entry.audit_id)
        return
    names = labels(where)
    print_table(("SEQ", "ISSUED", "STATUS", "WHAT", "CALLER", "AUDIT-ID"), (entry.row(names) for entry in entries))
    if not entries and given:
        print_note(describe_no_match(read_filter(given), where))
    elif not entries and named != HOST:
        # A chain has what an agent answered; what it called is in the chains of others.
        print_note(f"{chain} has no records yet; for its calls: agtp audit search --caller {chain}")
