"""The commands ``agtp agent limit``, ``grant``, ``ungrant`` and ``grants``: the most that agents may call."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from agtphost.cli.agent.restatement import take_scopes
from agtphost.cli.agent.rights_requests import PATH, read_rights, result_with_record
from agtphost.cli.agent.unasked_scopes import on_terminal
from agtphost.cli.exchange import ask, entries_of, result_of
from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import find_config, load_usable_config
from agtphost.cli.identities import agent_id_of, labels, name_at_host
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, print_table, visible
from agtphost.cli.target import Target, resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import scopes, times
from agtphost.vocabulary.grants import upstream_of
from agtphost.vocabulary.identifiers import is_agent_name
from agtphost.vocabulary.quantities import plural

if TYPE_CHECKING:
    pass

COMPLETION_SECONDS = 2.0
"""Seconds after which a shell completion gives up."""

_LASTING = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


# Completions


def _connection_of(context: click.Context) -> Connection:
    names = Connection.__dataclass_fields__
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    return Connection(**{**given, "timeout": COMPLETION_SECONDS})


def _complete_agents(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the labels of the agents stored with the host."""
    try:
        found = labels(_connection_of(context))
    except (click.ClickException, OSError):
        return []
    words = sorted(label if is_agent_name(label) else agent_id for agent_id, label in found.items())
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _complete_things(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the host's tools; complete nothing if the host does not answer in time."""
    # DISCOVER lists what the caller may call, and operators call no tools.
    try:
        target = resolve(_connection_of(context), identity=REGISTRAR)
        tools = entries_of(ask(target, "INSPECT", "/", {"target": "tools"}).result["tools"], "tools")
    except (click.ClickException, OSError):
        return []
    names = sorted(f"{tool.get('upstream', '')}.{tool.get('name', '')}" for tool in tools)
    servers = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in names if "." in name)
    return [CompletionItem(name) for name in (*names, *servers) if name.startswith(incomplete) and name.isprintable()]


agent_argument = click.argument("agent", metavar="AGENT", shell_complete=_complete_agents)
things_argument = click.argument("things", metavar="THING...", nargs=-1, required=True, shell_complete=_complete_things)


# Things

_IsKind = Callable[[str], bool]

KINDS: dict[str, tuple[_IsKind, str]] = {
    "tool": (lambda thing: upstream_of(thing) is not None, "files.read_file"),
    "endpoint": (lambda thing: " /" in thing, "'QUERY /books/{id}'"),
    "scope": (scopes.is_token, "booking:rooms"),
}
"""Words that may stand before a THING, each with a test of whether a THING is of that kind, and a sample."""


def read_things(words: Sequence[str]) -> tuple[str, ...]:
    """
    Return the things that a command line names, without the words that say what kind of thing follows.

    After ``endpoint``, method and path may be two words.

    :raises WrongInput: a word has no thing of its kind after it.
    """
    things: list[str] = []
    kind, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        if word in KINDS:
            kind = word
            if not rest or rest[0] in KINDS:
                raise WrongInput(f"no thing follows {kind!r}", f"Write, for instance: {kind} {KINDS[kind][1]}")
            continue
        if kind == "endpoint" and rest and rest[0].startswith("/") and " " not in word:
            word = f"{word} {rest.pop(0)}"
        if kind and not KINDS[kind][0](word):
            raise WrongInput(f"{word!r} is not of the kind {kind!r}", f"Write, for instance: {kind} {KINDS[kind][1]}")
        things.append(word)
    return tuple(things)


# Times


def end_of(until: str | None, lasting: str | None) -> str | None:
    """
    Return the end of a grant as an RFC 3339 timestamp, or None if it does not end.

    :param until: a date, in UTC, or a time with its zone.
    :param lasting: a duration from now on: a number and one of s, m, h, d, w.
    :raises WrongInput: both are given, or one is malformed.
    """
    if until is not None and lasting is not None:
        raise WrongInput("--until and --for exclude each other", "Give one of them.")
    if lasting is not None:
        found = _LASTING.fullmatch(lasting)
        if found is None or not int(found[1]):
            raise WrongInput(f"--for {lasting!r} is not a duration", "Give one such as 90m, 12h, 7d or 4w.")
        return times.stamp(time.time() + int(found[1]) * _UNITS[found[2]])
    if until is None:
        return None
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise WrongInput(f"--until {until!r} is not a time", "Give 2027-01-31 or 2027-01-31T12:00:00Z.") from None
    if moment.tzinfo is None and len(until) > len("2027-01-31"):
        example = f"{moment:%Y-%m-%dT%H:%M:%S}"
        raise WrongInput(f"--until {until!r} has no time zone", f"Write {example}Z for UTC, or {example}+01:00.")
    return times.stamp((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


# Commands


_until_option = click.option(
    "--until", metavar="TIME", help="When the grant ends: 2027-01-31, or 2027-01-31T12:00:00Z."
)
_for_option = click.option("--for", "lasting", metavar="TIME", help="How long the grant lasts: 90m, 12h, 7d, 4w.")


@click.command("limit")
@agent_argument
@things_argument
@_until_option
@_for_option
@click.option("--yes", is_flag=True, help="Do not ask, even if these are the agent's first limits.")
@host_options
def limit_command(
    agent: str,
    things: tuple[str, ...],
    until: str | None,
    lasting: str | None,
    yes: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Limit an agent to THING, and to what it was limited to before.

    An agent without limits may call everything that its document and certificate allow. From its first limit on it may
    call only what its grants name, within what document and certificate allow; this is asked about first. A grant takes
    effect at the agent's next request, on every connection, and is a signed record. Needs the certificate of an
    administrator. `agtp agent grant` does the same and never asks.

    \b
    THING is one of
      files.read_file       a tool of an MCP server, an action of an A2A agent or an ACP server
      files.*               all of its tools
      'QUERY /books/{id}'   an endpoint, by its path as DISCOVER /methods shows it
      'QUERY /books/*'      all endpoints whose paths begin with /books/; '* /books/*' for every method
      SUMMARIZE             what the host itself answers with that method
      '*'                   everything
    The word tool or endpoint may stand before it.

    \b
    Examples:
      agtp agent limit demo files.read_file
      agtp agent limit demo files.read_file 'QUERY /books/*' --for 7d --yes
      agtp agent limit demo SUMMARIZE --until 2027-01-31 --as operator --yes --json
    """
    end, things = end_of(until, lasting), limits_of(agent, things)
    target, agent = resolve(where, identity=REGISTRAR), name_at_host(where, agent)
    if not yes:
        confirm_first_limit(target, agent, things)
    _grant(target, agent, things, end, as_json=as_json)


@click.command("grant")
@agent_argument
@things_argument
@_until_option
@_for_option
@host_options
def grant_command(
    agent: str, things: tuple[str, ...], until: str | None, lasting: str | None, where: Connection, as_json: bool
) -> None:
    """
    Limit an agent to THING without asking for confirmation.

    The same as `agtp agent limit --yes`, whose help lists the forms of THING. To give an agent a right and leave
    it all others, use `agtp agent allow`.

    \b
    Examples:
      agtp agent grant demo files.read_file
      agtp agent grant demo files.read_file 'QUERY /books/*' --for 7d
      agtp agent grant demo SUMMARIZE --until 2027-01-31 --as operator --json
    """
    things = limits_of(agent, things)
    target, agent = resolve(where, identity=REGISTRAR), name_at_host(where, agent)
    _grant(target, agent, things, end_of(until, lasting), as_json=as_json)


def limits_of(agent: str, words: Sequence[str]) -> tuple[str, ...]:
    """
    Return the things that an agent is to be limited to.

    :raises WrongInput: one is a scope, or see :func:`read_things`.
    """
    things = read_things(words)
    for thing in things:
        if scopes.is_token(thing):
            raise WrongInput(
                f"a limit names tools and endpoints, and {thing} is a scope",
                f"Take a scope with `agtp agent ungrant {agent} {thing}`; `agtp agent allow {agent} {thing}` gives it.",
            )
    return things


def confirm_first_limit(target: Target, agent: str, things: Sequence[str]) -> None:
    """
    Ask before an agent gets its first limits.

    :raises WrongInput: the person declines, or the command runs without a terminal.
    """
    shown = read_rights(target, agent)
    if shown.get("narrowed"):
        return
    name, count = shown.get("label") or shown.get("agent_id"), shown.get("may_call_count")
    unlisted = [str(each) for each in shown.get("unlisted_servers") or ()]
    further = f" and what {', '.join(unlisted)} has" if unlisted else ""
    said = (
        f"until now {name} may call {plural(count or 0, 'thing')}{further}; after this only these: {', '.join(things)}"
    )
    if not on_terminal():
        raise WrongInput(
            f"these would be the first limits of {name}: {said}",
            f"Add --yes to limit it. `agtp agent allow {name} ...` gives a right and takes none.",
        )
    print_note(said)
    if not click.confirm("Limit it?", err=True):
        raise WrongInput("nothing was changed", f"`agtp agent allow {name} ...` gives a right and takes none.")


def _grant(target: Target, agent: str, things: Sequence[str], end: str | None, *, as_json: bool) -> None:
    given: dict[str, Any] = {"subject": agent, "resource": list(things), "scope": "call"}
    if end is not None:
        given["until"] = end
    reply = ask(target, "AUTHORIZE", PATH, given)
    result = result_with_record(reply)
    if as_json:
        print_json(result)
        return
    name = result.get("label") or result.get("agent_id")
    if result.get("first"):
        click.echo(visible(f"{name} had no grants before; from its next request on it may call only these:"))
    else:
        click.echo(visible(f"{name} may call only these from its next request on:"))
    print_grants(entries_of(result.get("grants"), "grants"))
    for remark in result.get("remarks") or ():
        print_note(f"note: {remark}")
    click.echo(visible(f"record: {reply.audit_id}"))


@click.command("ungrant")
@agent_argument
@click.argument("things", metavar="[THING...]", nargs=-1, shell_complete=_complete_things)
@click.option("--all", "everything", is_flag=True, help="Take back all grants and lift their limits.")
@host_options
def ungrant_command(agent: str, things: tuple[str, ...], everything: bool, where: Connection, as_json: bool) -> None:
    """
    Take back grants or scopes of an agent.

    An agent whose last grant was taken back may call nothing. With --all it may again call everything that its
    document and certificate allow. THING is written as `agtp agent grants` shows it, and the word tool, endpoint or
    scope may stand before it. If THING is a scope, the agent's Identity Document is issued again without it, which
    needs the registrar's key on this machine.

    \b
    Examples:
      agtp agent ungrant demo files.read_file
      agtp agent ungrant demo booking:rooms
      agtp agent ungrant demo --all
    """
    if everything == bool(things):
        raise WrongInput(
            "no grant is named" if not things else "--all excludes THING",
            "Name grants that `agtp agent grants AGENT` shows, or give --all to lift every limit that grants set.",
        )
    things = read_things(things)
    tokens = [thing for thing in things if scopes.is_token(thing)]
    target, agent = resolve(where, identity=REGISTRAR), name_at_host(where, agent)
    if tokens:
        if len(tokens) < len(things):
            raise WrongInput("scopes and grants are taken back one after the other", "Name either scopes or grants.")
        taken = take_scopes(target, where, agent, tokens)
        if as_json:
            print_json(taken)
            return
        name = taken.get("label") or taken.get("agent_id")
        click.echo(visible(f"{name} does not have these scopes from its next request on: {', '.join(tokens)}"))
        click.echo(visible(f"record: {taken['audit_id']}"))
        return
    given: dict[str, Any] = {"subject": agent, **({"all": True} if everything else {"resource": list(things)})}
    reply = ask(target, "REVOKE", PATH, given)
    result = result_with_record(reply)
    if as_json:
        print_json(result)
        return
    name = result.get("label") or result.get("agent_id")
    left = entries_of(result.get("grants"), "grants")
    if not result.get("narrowed"):
        said = "has no limits by grants any more: it may call all that its document and certificate allow"
        click.echo(visible(f"{name} {said}"))
    elif left:
        click.echo(visible(f"{name} may call only these from its next request on:"))
        print_grants(left)
    else:
        click.echo(visible(f"{name} may call nothing from its next request on: it has no grant left"))
        again = "all that its document and certificate allow"
        click.echo(visible(f"  agtp agent ungrant {name} --all lets it call {again}, as before its first grant"))
    click.echo(visible(f"record: {reply.audit_id}"))


@click.command("grants")
@click.argument("agent", metavar="[AGENT]", required=False, shell_complete=_complete_agents)
@host_options
def grants_command(agent: str | None, where: Connection, as_json: bool) -> None:
    """
    Show what agents may call on this host.

    Reads the host's own store and host.toml if they are on this machine, or else asks the host. An agent that is not
    listed has no grants: it may call everything that its document and certificate allow.

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
        from agtphost.cli.agent.stored_grants import stored_grants

        wanted = None if agent is None else agent_id_of(where, agent)
        found = [
            entry
            for entry in stored_grants(load_usable_config(path, ("store",), ("host", "state_dir"), ("grant",)))
            if wanted in (None, entry["agent_id"])
        ]
        if wanted is not None and not found:
            found = [{"agent_id": wanted, "label": agent, "narrowed": False, "grants": []}]
    if as_json:
        print_json(found)
        return
    for entry in found:
        name = entry.get("label") or entry.get("agent_id")
        if not entry.get("narrowed"):
            click.echo(visible(f"{name}: no grants; it may call all that its document and certificate allow"))
        elif not entry.get("grants"):
            click.echo(visible(f"{name}: its last grant was taken back; it may call nothing"))
    listed = [entry for entry in found if entry.get("grants")]
    if listed:
        rows = (
            (entry.get("label") or entry.get("agent_id"), *_row(grant)) for entry in listed for grant in entry["grants"]
        )
        print_table(("AGENT", *COLUMNS), rows, whole=("THING",))
    elif not found:
        print_note("no agent has grants on this host")


COLUMNS = ("THING", "UNTIL", "STATE", "BY", "SINCE")


def print_grants(grants: Iterable[Mapping[str, Any]]) -> None:
    """Print a table of grants."""
    print_table(COLUMNS, map(_row, grants), whole=("THING",))


def _row(grant: Mapping[str, Any]) -> tuple[object, ...]:
    by = str(grant.get("operator") or grant.get("by") or "-")
    short = f"{by[:12]}..." if len(by) > 20 else by
    return grant.get("allow"), grant.get("until") or "-", grant.get("state"), short, grant.get("at") or "-"


def commands() -> Iterator[click.Command]:
    """Yield the commands for the group."""
    yield from (limit_command, grant_command, ungrant_command, grants_command)
