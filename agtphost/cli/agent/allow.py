"""The command ``agtp agent allow``: give an agent rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agent.grants import agent_argument, end_of, read_things, things_argument
from agtphost.cli.agent.restatement import (
    Restated,
    find_files,
    lacking_commitments,
    local_config,
    recertify,
    restate,
)
from agtphost.cli.agent.rights_requests import PATH, read_rights, result_with_record, scopes_of
from agtphost.cli.agent.unasked_scopes import confirm_unasked
from agtphost.cli.exchange import ask
from agtphost.cli.host_config import find_config
from agtphost.cli.identities import find_agent_config, name_at_host
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, to_text, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import scopes

if TYPE_CHECKING:
    from agtphost.config import Config

SHOWN = 5
"""Names of a list that a sentence has."""


@click.command("allow")
@agent_argument
@things_argument
@click.option("--until", metavar="TIME", help="When the grant of a limited agent ends: 2027-01-31.")
@click.option("--for", "lasting", metavar="TIME", help="How long that grant lasts: 90m, 12h, 7d, 4w.")
@click.option("--yes", is_flag=True, help="Do not ask about a scope that nothing here asks for.")
@host_options
def allow_command(
    agent: str,
    things: tuple[str, ...],
    until: str | None,
    lasting: str | None,
    yes: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Give an agent a right: to call THING, or a scope.

    What the agent may call already stays. A limited agent gets a grant of THING. If the agent lacks a scope that THING
    asks for, its Identity Document and its certificate are issued again with that scope, for the same Agent-ID and the
    same key, and the issuer's statement is put on record; this needs the registrar's key on this machine. It takes
    effect at the agent's next request. Needs the certificate of an administrator.

    \b
    THING is one of
      files.read_file       a tool, or another form that `agtp agent limit` takes
      'QUERY /books/{id}'   an endpoint, by its path as DISCOVER /methods shows it
      mcp:tools:execute     a scope
    The word tool, endpoint or scope may stand before it.

    \b
    Examples:
      agtp agent allow demo files.read_file
      agtp agent allow demo 'QUERY /books/{id}' --for 7d
      agtp agent allow demo booking:rooms --json
    """
    end, things = end_of(until, lasting), read_things(things)
    target = resolve(where, identity=REGISTRAR)
    shown = read_rights(target, name_at_host(where, agent), things)
    confirm_unasked(shown.get("unasked"), yes=yes, question="Give it all the same?")
    tokens = [thing for thing in things if scopes.is_token(thing)]
    named = [thing for thing in things if not scopes.is_token(thing)]
    held = scopes_of(shown)
    added = scopes.missing(held, [*tokens, *_texts(shown.get("missing_scopes"))])
    # A right within the scopes that the agent has needs no file: a fault of host.toml does not keep it from getting it.
    config = local_config(where) if added else _find_config(where)
    restated = restate(config, shown, (*held, *added)) if added else None
    given: dict[str, Any] = {"subject": shown["agent_id"], "scope": "allow", "resource": named}
    if end is not None:
        given["until"] = end
    if restated is not None:
        given.update(restated.parameters())
    result: dict[str, Any] = {"changed": False, "label": shown.get("label"), "agent_id": shown["agent_id"]}
    if named or restated is not None:
        result = result_with_record(ask(target, "AUTHORIZE", PATH, given))
    if restated is not None:
        restated.write()
    found = find_files(config, str(shown["agent_id"]))
    further = lacking_commitments(found, (*tokens, *added, *_texts(shown.get("needed_scopes"))))
    if further and found is not None and config is not None:
        recertify(config, found, further)
        result = {**result, "certificate": str(found.certificate)}
    if as_json:
        print_json(result)
        return
    _report(result, things, restated)


def _find_config(where: Connection) -> Config | None:
    """Return the configuration of the host on this machine; None, with a note, if a fault hides the agents' files."""
    path = find_config(where)
    config = None if path is None else find_agent_config(path)
    if path is not None and config is None:
        print_note("note: the agent's certificate is not compared with the right: the fault hides where its files are")
    return config


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else []


def _report(result: Mapping[str, Any], things: Iterable[str], restated: Restated | None) -> None:
    name, listed = result.get("label") or result.get("agent_id"), ", ".join(things)
    if not result.get("changed") and "certificate" not in result:
        click.echo(visible(f"{name} has this right already; nothing changed: {listed}"))
        return
    click.echo(visible(f"{name} has these rights from its next request on: {listed}"))
    added = _texts(result.get("scopes_added"))
    if added and restated is not None:
        click.echo(visible(f"  new scopes: {', '.join(added)}; document: {restated.files.document}"))
    if "certificate" in result:
        click.echo(visible(f"  certificate: {result['certificate']}, for the same key"))
    named = set(things)
    further = [each for each in _texts(result.get("newly_callable")) if each not in named]
    if further:
        rest = f" and {len(further) - SHOWN} more" if len(further) > SHOWN else ""
        click.echo(visible(f"  this lets it call further: {to_text(further[:SHOWN])}{rest}"))
    for remark in _texts(result.get("remarks")):
        print_note(f"note: {remark}")
    if result.get("audit_id"):
        click.echo(visible(f"record: {result['audit_id']}"))
