"""``agtp can``: what the host would decide about a call, without making it (design decision 14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agtphost.cli.arguments import pairs
from agtphost.cli.exchange import ask, result_of
from agtphost.cli.failures import ExitStatus
from agtphost.cli.identities import agent_id_of
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, shown
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.media_types import MCP_TOOLS

ACTION = "mcp.tools.call"

ANYONE = "anyone"
"""In place of an agent: a caller without a name."""


@click.command()
@click.argument("agent", metavar="AGENT|anyone")
@click.argument("method", metavar="METHOD")
@click.argument("path", metavar="[PATH]", default="/")
@click.argument("fields", nargs=-1, metavar="[key=value | key:=json]...")
@click.option("--tool", metavar="NAME", help="With EXECUTE: the tool; fields are its arguments.")
@click.option("--scope", metavar="TOKENS", help="What Authority-Scope would claim; default: no such header.")
@click.option(
    "--assurance",
    type=click.Choice(("certificate", "gateway", "header")),
    default="certificate",
    show_default=True,
    help="How the agent would be known.",
)
@host_options
def command(
    agent: str,
    method: str,
    path: str,
    fields: tuple[str, ...],
    tool: str | None,
    scope: str | None,
    assurance: str,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Ask whether an agent may make a call.

    The host runs its own gates over the question and calls nothing. With
    input, the input schema is part of it. Exit status 0 for yes, 1 for no; yes
    also where a person has to approve the call, which is said.
    Asked with the certificate of the agent's Genesis issuer: the configured
    host's registrar, unless --cert or --as names another.

    \b
    Examples:
      agtp can demo RESERVE /rooms/1/bookings
      agtp can demo EXECUTE / --tool files.list_files --scope mcp:tools:execute
      agtp can anyone DISCOVER /methods
    """
    asked: dict[str, Any] = {"target": "decision", "method": method, "path": path}
    if agent != ANYONE:
        asked.update(agent_id=agent_id_of(where, agent), assurance=assurance)
    if scope is not None:
        asked["authority_scope"] = scope
    if tool is not None:
        payload = {"tool": tool, **({"arguments": pairs(fields)} if fields else {})}
        asked.update(input={"action": ACTION, "payload_type": MCP_TOOLS, "payload": payload}, partial=not fields)
    elif fields:
        asked["input"] = pairs(fields)
    target = resolve(where, identity=REGISTRAR)
    decision = result_of(ask(target, "INSPECT", "/", asked))
    allowed = decision.get("allowed") is True
    if as_json:
        print_json(decision)
    else:
        click.echo("\n".join(told(agent, decision)))
    if not allowed:
        raise click.exceptions.Exit(ExitStatus.REFUSED)


def called(method: str, path: str, name: object) -> str:
    """A call in words: EXECUTE by what it executes."""
    return f"{method} {name}" if name and method == "EXECUTE" else f"{method} {path}"


def told(agent: str, decision: Mapping[str, Any]) -> list[str]:
    """The decision as lines for people."""
    call = called(str(decision.get("method")), str(decision.get("path")), decision.get("name"))
    if decision.get("allowed") is True:
        lines = [f"yes: {agent} may {call}"]
        if decision.get("needs_approval"):
            lines = [f"yes: {agent} may {call}, once a person has approved it"]
    else:
        refusal = decision.get("refusal") or {}
        lines = [
            f"no: {agent} may not {call}",
            f"  status   {refusal.get('status')} {refusal.get('reason')}",
            f"  because  {refusal.get('explanation')}",
            f"  gate     {refusal.get('gate')}",
        ]
        details = refusal.get("details")
        lacking = details.get("missing_scopes") or details.get("scopes") if isinstance(details, dict) else None
        if lacking:
            lines.append(f"  lacks    {shown(lacking)}")
        if refusal.get("remedy"):
            lines.append(f"  remedy   {refusal['remedy']}")
    lines.append(f"  passed   {', '.join(decision.get('passed') or ()) or '-'}")
    lines.append(f"  known by {decision.get('assurance')}")
    if decision.get("scopes"):
        lines.append(f"  scopes   {', '.join(decision['scopes'])}")
    if decision.get("required_scopes"):
        lines.append(f"  needs    {', '.join(decision['required_scopes'])}")
    return lines
