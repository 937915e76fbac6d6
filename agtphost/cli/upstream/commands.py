"""The ``agtp upstream`` group: the MCP servers, A2A agents and ACP agents behind a host (design decision 16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from agtphost.cli.approval_prompt import Consent, consent_options, digest_to_approve
from agtphost.cli.exchange import ask, entries_of, object_of, result_of
from agtphost.cli.failures import HostRefused
from agtphost.cli.groups import VerbGroup
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, print_summary, print_table, visible, visible_line
from agtphost.cli.target import resolve
from agtphost.cli.upstream.edit import add_command, remove_command
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import media_types

APPROVE = {"a2a": ("a2a.card.approve", media_types.A2A), "acp": ("acp.agents.approve", media_types.ACP_RUN)}
"""The action that approves, and its payload type, by protocol."""


class _UpstreamGroup(VerbGroup):
    """A group whose older name lists: ``agtp upstreams``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        alone = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if ctx.info_name == "upstreams" and alone:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_UpstreamGroup)
def command() -> None:
    """List, show, add and remove a host's upstreams, and approve their changed definitions."""


@command.command("list")
@click.option("--stderr", "stderr", is_flag=True, help="Show the last lines that each server wrote to stderr.")
@host_options
def list_command(stderr: bool, where: Connection, as_json: bool) -> None:
    """
    List upstreams and their states.

    For MCP, A2A and ACP: state, failures, restarts, next attempt, latency, and pending approvals.

    Only for operators ([[operator]]), and agents with the scope inspect:all. Without --cert and
    --as, the registrar asks. The older names `agtp upstreams` and `agtp upstreams ls` do the same.

    \b
    Examples:
      agtp upstream list
      agtp upstream list --as operator --stderr
      agtp upstream list --json
    """
    result = result_of(ask(resolve(where, identity=REGISTRAR), "INSPECT", "/", {"target": "upstreams"}))
    listed = entries_of(result.get("upstreams"), "upstreams")
    if as_json:
        print_json(listed)
        return
    if not listed:
        print_note("the host has no upstreams")
        return
    head = ("UPSTREAM", "PROTOCOL", "STATE", "RESTARTS", "NEXT ATTEMPT", "LATENCY", "CALLS", "FAILED", "REASON")
    print_table(head, (_row(entry) for entry in listed))
    for entry in listed:
        for line in _waiting(entry):
            print_note(visible_line(line))
    if stderr:
        for entry in listed:
            for line in entry.get("link", {}).get("stderr", ()):
                click.echo(visible_line(f"{entry.get('name', '')}: {line}"))


@command.command()
@click.argument("name", metavar="NAME")
@host_options
def show(name: str, where: Connection, as_json: bool) -> None:
    """
    Show an upstream, with the last lines that it wrote to stderr.

    NAME is that of `agtp upstream list`, or PROTOCOL.NAME if several upstreams have it. Only for operators and agents
    with the scope inspect:all, as the list is.

    \b
    Examples:
      agtp upstream show files
      agtp upstream show mcp.files --json
    """
    result = result_of(ask(resolve(where, identity=REGISTRAR), "INSPECT", "/", {"target": "upstreams"}))
    listed = entries_of(result.get("upstreams"), "upstreams")
    found = [entry for entry in listed if name in (entry.get("name"), _full_name(entry))]
    if len(found) != 1:
        known = ", ".join(map(_full_name, found or listed))
        what = f"{len(found)} upstreams have the name" if found else "the host has no upstream named"
        remedy = f"Choose one of: {known}." if listed else "`agtp upstream add` adds one."
        raise HostRefused(f"{what} {name[:64]!r}", remedy)
    entry = found[0]
    if as_json:
        print_json(entry)
        return
    link = entry.get("link") or {}
    hidden = ("link", "capabilities", *(key for key, value in entry.items() if value in (None, "", [], {})))
    print_summary({key: value for key, value in entry.items() if key not in hidden})
    for line in _waiting(entry):
        print_note(visible_line(line))
    for line in link.get("stderr", ()):
        click.echo(visible_line(f"stderr: {line}"))


def _full_name(entry: Mapping[str, Any]) -> str:
    return f"{str(entry.get('protocol', '')).lower()}.{entry.get('name', '')}"


def _waiting(entry: Mapping[str, Any]) -> Iterable[str]:
    """Yield lines on disabled items with the command that approves each, and on rules without effect."""
    for tool in entry.get("unmatched_rules") or ():
        server = entry.get("name", "")
        yield f"rule without effect: the configuration has rules for {tool}, which {server} does not have"
    invalid = entry.get("invalid_tools")
    for tool, said in invalid.items() if isinstance(invalid, dict) else ():
        why = "; ".join(map(str, said))
        yield f"disabled, because its schema is not a JSON Schema: tool {tool} of {entry.get('name', '')}: {why}"
    waiting = entry.get("waiting_for_approval")
    name = _full_name(entry)
    for what, digest in waiting.items() if isinstance(waiting, dict) else ():
        agent = "" if what == "card" else f" {what}"
        yield f"disabled, because it changed (SHA-256 {digest}): {name}{agent} (agtp upstream approve {name}{agent})"


@command.command()
@click.argument("name", metavar="PROTOCOL.NAME")
@click.argument("agent", required=False)
@consent_options
@host_options
def approve(name: str, agent: str | None, consent: Consent, where: Connection, as_json: bool) -> None:
    """
    Approve a card or manifest that changed.

    This approves the present card of an A2A agent, or the present manifest of an AGENT of an ACP server. It is disabled
    as long as it differs from the first approved one. The difference is shown on standard error, and exactly the shown
    one is approved. Without a terminal, give --yes, or --sha256 of the one that you reviewed.

    Only for administrators ([[operator]]), and agents with the scope a2a:upstreams:approve or
    acp:upstreams:approve. For tools of MCP servers, use agtp tools approve.

    \b
    Examples:
      agtp upstream approve a2a.helper --as operator
      agtp upstream approve acp.bee echo --as operator --yes
      agtp upstream approve a2a.helper --sha256 DIGEST --as operator --json
    """
    protocol, _, upstream = name.partition(".")
    if protocol not in APPROVE or not upstream or (agent is None) == (protocol == "acp"):
        raise click.UsageError("give a2a.NAME, or acp.NAME and AGENT; agtp upstream list shows which wait")
    action, payload_type = APPROVE[protocol]
    target = resolve(where)
    payload = {"name": agent} if agent is not None else {}
    payload["sha256"] = digest_to_approve(target, name, agent or "", consent)
    execute = {"action": action, "payload_type": payload_type, "payload": payload}
    approved = object_of(result_of(ask(target, "EXECUTE", f"/{protocol}/{upstream}", execute)), "approved")
    if as_json:
        print_json(approved)
        return
    click.echo(visible(f"approved: {name}{f' {agent}' if agent else ''}, SHA-256 {approved.get('sha256')}"))


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    version = entry.get("version")
    protocol = str(entry.get("protocol", ""))
    return (
        str(entry.get("name", "")),
        f"{protocol} {version}" if version else protocol,
        str(entry.get("state", "")),
        str(entry.get("restarts", "")),
        _seconds(entry.get("next_attempt_in"), "in {:.0f} s"),
        _milliseconds(entry.get("latency")),
        str((entry.get("calls") or {}).get("ok", "")),
        str((entry.get("calls") or {}).get("errors", "")),
        str(entry.get("reason") or ""),
    )


def _seconds(value: Any, form: str) -> str:
    return form.format(value) if isinstance(value, (int, float)) else "-"


def _milliseconds(value: Any) -> str:
    return f"{value * 1000:.1f} ms" if isinstance(value, (int, float)) and value else "-"


command.add_command(add_command)
command.add_command(remove_command)
