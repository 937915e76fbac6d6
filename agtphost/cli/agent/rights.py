"""The command ``agtp agent rights``: what an agent may do on a host, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from agtphost.cli.agent.grants import agent_argument, print_grants
from agtphost.cli.agent.rights_requests import read_rights
from agtphost.cli.exchange import entries_of
from agtphost.cli.identities import name_at_host
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, to_text, visible_line
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.quantities import plural

SHOWN = 20
"""Callable things that are printed; ``--json`` has all that the host lists."""


@click.command("rights")
@agent_argument
@host_options
def rights_command(agent: str, where: Connection, as_json: bool) -> None:
    """
    Show what an agent may do on this host, and why.

    Shows its state, how it must authenticate, each scope with its source, its grants with who gave them and when, the
    limits of its calls, and what it may call now. Needs the certificate of an operator, or the agent's own.

    \b
    Examples:
      agtp agent rights demo
      agtp agent rights demo --json
    """
    shown = read_rights(resolve(where, identity=REGISTRAR), name_at_host(where, agent))
    if as_json:
        print_json(shown)
        return
    for line in _render(shown):
        click.echo(visible_line(line))
    grants = entries_of(shown.get("grants"), "grants")
    if grants:
        print_grants(grants)


def _render(shown: Mapping[str, Any]) -> Iterator[str]:
    state, budget = _object(shown.get("state")), _object(shown.get("budget"))
    yield f"{shown.get('label') or shown.get('agent_id')}  {shown.get('agent_id')}"
    reason = f": {state['reason']}" if state.get("reason") else ""
    since = f" since {state['since']}" if state.get("since") else ""
    yield f"  state      {state.get('status')}{since}{reason}"
    ends = f", which ends {shown['certificate_ends']}" if shown.get("certificate_ends") else ""
    yield f"  known by   {shown.get('assurance')}{ends}; trust tier {shown.get('trust_tier')}"
    scopes = [each for each in shown.get("scopes") or () if isinstance(each, Mapping)]
    for each in scopes:
        yield f"  scope      {each.get('scope')}: {_source(each)}"
    if not scopes:
        yield "  scope      none"
    yield f"  budget     {budget.get('requests_per_minute')} requests a minute"
    for each in budget.get("scope_dimensions") or ():
        if isinstance(each, Mapping):
            yield f"  budget     {each.get('name')}: {each.get('method')} {each.get('path') or ''}".rstrip()
    names = shown.get("may_call")
    names = names if isinstance(names, Sequence) and not isinstance(names, str) else ()
    count = int(shown.get("may_call_count") or 0)
    rest = f" and {count - SHOWN} more" if count > SHOWN else ""
    unlisted = [str(each) for each in shown.get("unlisted_servers") or ()]
    if unlisted:
        rest += f"; further what {', '.join(unlisted)} has, which is not listed yet"
    limited = "by its grants" if shown.get("narrowed") else "as its scopes allow; it has no grants"
    listed = f": {to_text(list(names[:SHOWN]))}{rest}" if names else ""
    yield f"  may call   {plural(count, 'thing')}, {limited}{listed}"


def _source(scope: Mapping[str, Any]) -> str:
    """Return where a scope comes from, and who gave it if an operator did."""
    beyond = ", beyond its Genesis" if scope.get("beyond_genesis") else ""
    if scope.get("from") != "statement":
        return f"its document{beyond}"
    who = scope.get("operator") or scope.get("by")
    said = f"statement {scope.get('number')} of its issuer, by {who} at {scope.get('at')}"
    return f"{said}, record {scope.get('audit_id')}{beyond}"


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
