"""``agtp agent grant``, ``ungrant`` and ``grants``: what a host lets its agents call."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from agtphost.cli.configured import find_config, load_config
from agtphost.cli.exchange import ask, entries_of, result_of
from agtphost.cli.failures import WrongInput
from agtphost.cli.identities import agent_id_of, labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_table, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import times

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

PATH = "/grants"
COMPLETION_SECONDS = 2.0
"""A shell waits no longer for what it could complete."""

_LASTING = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


# What is completed


def _where(context: click.Context) -> Connection:
    names = Connection.__dataclass_fields__
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    return Connection(**{**given, "timeout": COMPLETION_SECONDS})


def _agents(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The labels of the agents that lie with the host."""
    try:
        found = labels(_where(context))
    except (click.ClickException, OSError):
        return []
    return [CompletionItem(label) for label in sorted(found.values()) if label.startswith(incomplete)]


def _things(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tools of the host; none where it cannot be asked at once."""
    try:
        tools = entries_of(ask(resolve(_where(context), identity=REGISTRAR), "DISCOVER", "/tools").result, "tools")
    except (click.ClickException, OSError):
        return []
    names = sorted(str(tool.get("name", "")) for tool in tools)
    servers = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in names if "." in name)
    return [CompletionItem(name) for name in (*names, *servers) if name.startswith(incomplete) and name.isprintable()]


agent_argument = click.argument("agent", metavar="AGENT", shell_complete=_agents)
things_argument = click.argument("things", metavar="THING...", nargs=-1, required=True, shell_complete=_things)


# Times


def end_of(until: str | None, lasting: str | None) -> str | None:
    """
    When a grant ends, RFC 3339; None: it does not.

    :param until: a date or a time.
    :param lasting: from now on: a number and one of s, m, h, d, w.
    """
    if until is not None and lasting is not None:
        raise WrongInput("--until and --for are both there", "Say one of them.")
    if lasting is not None:
        found = _LASTING.fullmatch(lasting)
        if found is None or not int(found[1]):
            raise WrongInput(f"--for {lasting!r} is no length of time", "Say 90m, 12h, 7d or 4w.")
        return times.stamp(time.time() + int(found[1]) * _UNITS[found[2]])
    if until is None:
        return None
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise WrongInput(f"--until {until!r} is no time", "Say 2027-01-31 or 2027-01-31T12:00:00Z.") from None
    return times.stamp((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


# Commands


@click.command("grant")
@agent_argument
@things_argument
@click.option("--until", metavar="TIME", help="When it ends: 2027-01-31, or 2027-01-31T12:00:00Z.")
@click.option("--for", "lasting", metavar="TIME", help="How long it lasts: 90m, 12h, 7d, 4w.")
@host_options
def grant_command(
    agent: str, things: tuple[str, ...], until: str | None, lasting: str | None, where: Connection, as_json: bool
) -> None:
    """
    Let an agent call THING, and nothing that is not granted.

    An agent that was never granted anything calls whatever its document and certificate give it. From its first
    grant on it calls what its grants name, as far as document and certificate give it that. It holds from the
    agent's next request on, on every connection, and is a signed record. Needs the certificate of an operator.

    \b
    THING is one of
      files.read_file       a tool of an MCP server, an action of an A2A agent or an ACP server
      files.*               all of them
      'QUERY /books/{id}'   an endpoint, by its path as DISCOVER /methods shows it
      'QUERY /books/*'      all endpoints whose paths begin so; '* /books/*' for every method
      SUMMARIZE             what the host itself answers by that method
      '*'                   everything

    \b
    Examples:
      agtp agent grant demo files.read_file
      agtp agent grant demo files.read_file 'QUERY /books/*' --for 7d
      agtp agent grant demo SUMMARIZE --until 2027-01-31 --as operator --json
    """
    given: dict[str, Any] = {"subject": agent, "resource": list(things), "scope": "call"}
    end = end_of(until, lasting)
    if end is not None:
        given["until"] = end
    reply = ask(resolve(where, identity=REGISTRAR), "AUTHORIZE", PATH, given)
    result = _said(reply)
    if as_json:
        print_json(result)
        return
    name = result.get("label") or result.get("agent_id")
    if result.get("first"):
        click.echo(visible(f"{name} was not narrowed before; from its next request on it calls these, and no other:"))
    else:
        click.echo(visible(f"{name} calls these from its next request on, and no other:"))
    print_grants(entries_of(result.get("grants"), "grants"))
    for remark in result.get("remarks") or ():
        click.echo(visible(f"note: {remark}"), err=True)
    click.echo(visible(f"record: {reply.audit_id}"))


@click.command("ungrant")
@agent_argument
@click.argument("things", metavar="[THING...]", nargs=-1, shell_complete=_things)
@click.option("--all", "everything", is_flag=True, help="All of them, and narrow the agent no longer.")
@host_options
def ungrant_command(agent: str, things: tuple[str, ...], everything: bool, where: Connection, as_json: bool) -> None:
    """
    Take grants of an agent back.

    The agent stays narrowed: without its last grant it calls nothing. With --all it calls again whatever its
    document and certificate give it. THING is what `agtp agent grants` shows.

    \b
    Examples:
      agtp agent ungrant demo files.read_file
      agtp agent ungrant demo --all
    """
    if everything == bool(things):
        raise WrongInput(
            "it is not said what to take back" if not things else "--all excludes THING",
            "Name what `agtp agent grants AGENT` shows, or say --all: then nobody narrows the agent any more.",
        )
    given: dict[str, Any] = {"subject": agent, **({"all": True} if everything else {"resource": list(things)})}
    reply = ask(resolve(where, identity=REGISTRAR), "REVOKE", PATH, given)
    result = _said(reply)
    if as_json:
        print_json(result)
        return
    name = result.get("label") or result.get("agent_id")
    left = entries_of(result.get("grants"), "grants")
    if not result.get("narrowed"):
        said = "is narrowed no longer: from its next request on it calls whatever its document and certificate give it"
        click.echo(visible(f"{name} {said}"))
    elif left:
        click.echo(visible(f"{name} calls these from its next request on, and no other:"))
        print_grants(left)
    else:
        click.echo(visible(f"{name} calls nothing from its next request on: it has no grant left"))
        again = "whatever its document and certificate give it"
        click.echo(visible(f"  agtp agent ungrant {name} --all lets it call {again}, as before its first grant"))
    click.echo(visible(f"record: {reply.audit_id}"))


@click.command("grants")
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=_agents)
@host_options
def grants_command(agent: str | None, where: Connection, as_json: bool) -> None:
    """
    Show what agents may call here at most.

    Reads the host's own store and host.toml where they are on this machine, else asks the host. An agent that is
    not listed was never granted anything: it calls whatever its document and certificate give it.

    \b
    Examples:
      agtp agent grants
      agtp agent grants demo --json
      agtp agent grants --uri agtp://agents.example.com --cert operator.pem
    """
    path = find_config(where) if where.host_uri == Connection.host_uri else None
    if path is None:
        asked = {} if agent is None else {"agent": agent}
        result = result_of(ask(resolve(where, identity=REGISTRAR), "QUERY", PATH, asked))
        found = entries_of(result.get("agents"), "agents")
    else:
        from agtphost.cli.agent.kept_grants import kept_grants

        wanted = None if agent is None else agent_id_of(where, agent)
        found = [entry for entry in kept_grants(load_config(path)) if wanted in (None, entry["agent_id"])]
        if wanted is not None and not found:
            found = [{"agent_id": wanted, "label": agent, "narrowed": False, "grants": []}]
    if as_json:
        print_json(found)
        return
    for entry in found:
        name = entry.get("label") or entry.get("agent_id")
        if not entry.get("narrowed"):
            click.echo(visible(f"{name}: not narrowed; it calls whatever its document and certificate give it"))
        elif not entry.get("grants"):
            click.echo(visible(f"{name}: narrowed, and without any grant; it calls nothing"))
    listed = [entry for entry in found if entry.get("grants")]
    if listed:
        rows = (
            (entry.get("label") or entry.get("agent_id"), *_row(grant)) for entry in listed for grant in entry["grants"]
        )
        print_table(("AGENT", *COLUMNS), rows, whole=("THING",))
    elif not found:
        click.echo("no agent is narrowed here", err=True)


COLUMNS = ("THING", "UNTIL", "STATE", "BY", "SINCE")


def print_grants(grants: Iterable[Mapping[str, Any]]) -> None:
    """A table of grants."""
    print_table(COLUMNS, map(_row, grants), whole=("THING",))


def _row(grant: Mapping[str, Any]) -> tuple[object, ...]:
    by = str(grant.get("by") or "-")
    short = f"{by[:12]}..." if len(by) > 20 else by
    return grant.get("allow"), grant.get("until") or "-", grant.get("state"), short, grant.get("at") or "-"


def _said(reply: Reply) -> dict[str, Any]:
    return {**result_of(reply), "audit_id": reply.audit_id}


def commands() -> Iterator[click.Command]:
    """All of them, for the group."""
    yield from (grant_command, ungrant_command, grants_command)
