"""The command ``agtp reload``: make a running host apply its changed configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import open_client, refusal, result_of
from agtphost.cli.failures import ExitStatus
from agtphost.cli.host_config import hold_warnings
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.target import Target, resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.config.reloadable_keys import SECONDS
from agtphost.contract.reserved import CONFIGURATION
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client


@click.command()
@click.option("--check", is_flag=True, help="Show what would be applied, and change nothing.")
@host_options
def command(check: bool, where: Connection, as_json: bool) -> None:
    """
    Make a running host apply its changed configuration, all or nothing.

    The host reads host.toml, endpoints, recipes, documents, agents, upstream servers and TLS files again, and answers
    once they are in force. Connections, running calls, sessions and unchanged servers continue. Changes that need a
    restart are listed, and do not prevent the others. If anything is invalid, nothing changes, and each problem is
    listed with file and line.

    Only for administrators ([[operator]]); if none is listed, for the registrar of an agent.
    Without --cert and --as, the registrar asks. SIGHUP does the same.

    \b
    Exit status 0 if everything was applied or nothing had changed, 1 if the host refused.

    \b
    Examples:
      agtp reload
      agtp reload --check
      agtp reload --json | jq .taken
    """
    with hold_warnings() as warnings:
        target = resolve(where, identity=REGISTRAR)
        with open_client(target) as client:
            reply = request_reload(client, target, check=check)
            answer = reply.document if isinstance(reply.document, dict) else {}
            refused = answer.get("reason") == str(Reason.CONFIGURATION_REFUSED)
            if not reply.ok and not refused:
                raise refusal(reply)
            outcome = answer if refused else result_of(reply)
        if refused:
            warnings.clear()  # The refusal names the faults, as the host has found them.
    if as_json:
        print_json(outcome)
    elif refused:
        _print_refusal(outcome)
    else:
        show_outcome(outcome, check)
    raise click.exceptions.Exit(int(ExitStatus.REFUSED if refused else ExitStatus.SUCCESS))


def request_reload(client: Client, target: Target, *, check: bool = False) -> Reply:
    """Return a host's answer to the request to apply its changed configuration."""
    method, path = CONFIGURATION[0]
    return client.call(target.uri, method, path, {"check": True} if check else {}, timeout=SECONDS)


def _print_refusal(outcome: Mapping[str, Any]) -> None:
    print_note("refused: nothing has changed")
    for problem in outcome.get("problems", ()):
        place = f"{problem['file']}:{problem['line']}: " if problem.get("line") else f"{problem['file']}: "
        print_note(f"{place if problem.get('file') else ''}{problem['message']}")
        if problem.get("hint"):
            print_note(f"    {problem['hint']}")


def show_outcome(outcome: Mapping[str, Any], check: bool = False) -> None:
    """Print what a reload has taken, and what waits for a restart."""
    taken, waiting = outcome.get("taken", ()), outcome.get("waiting", ())
    for each in taken:
        click.echo(visible(f"{'would be taken' if check else 'taken'}: {each}"))
    if not taken:
        click.echo("nothing to take")
    for each in waiting:
        click.echo(visible(f"needs a restart: {each}"))
    for each in outcome.get("warnings", ()):
        print_note(f"warning: {each}")
    if outcome.get("unchanged"):
        click.echo(visible(f"unchanged: {', '.join(outcome['unchanged'])}"))
    if outcome.get("audit_id"):
        click.echo(visible(f"configuration {outcome['generation']} of this process, recorded as {outcome['audit_id']}"))
