"""``agtp approvals``: calls that wait for a person, and what that person decides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from agtphost.cli.exchange import connected, entries_of, refusal, require_success, result_of
from agtphost.cli.failures import CommandError, HostRefused, NoConnection
from agtphost.cli.identities import agent_id_of, labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_document, print_fields, print_json, print_table, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client

PATH = "/approvals"
STATES = ("pending", "approved", "rejected", "expired", "used")
MOST_PAGES = 1_000
"""Of one list; a host that always has one more is not followed for ever."""

HINTS = {
    "own-approval": "--as NAME, or --cert FILE, decides as somebody else.",
    "already-decided": "agtp approvals show ID tells what was decided, and by whom.",
    "target-unknown": "agtp approvals ls --state all lists what may be decided; who may is in [approvals] by.",
}
"""What to do about refused decisions, besides what the host says."""

TO_DECIDE = "[approvals] by says who decides: agtp cert show FILE prints the fingerprint for [audit] operators."

COMPLETION_SECONDS = 2.0
"""A shell waits no longer for what it could complete."""

ABSENCE = 5.0
"""Seconds after which a host that went away while it was watched is asked again."""


@click.group()
def command() -> None:
    """Decide about calls that wait for a person."""


def _pending_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The approvals that wait; none where the host cannot be asked at once."""
    names = Connection.__dataclass_fields__
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    where = Connection(**{**given, "timeout": COMPLETION_SECONDS})
    try:
        waiting = _listed(resolve(where, identity=REGISTRAR), {"state": "pending"}).entries
    except (click.ClickException, OSError):
        return []
    return [
        CompletionItem(approval_id, help=_call_of(entry))
        for entry in waiting
        if (approval_id := str(entry.get("approval_id", ""))).startswith(incomplete) and approval_id.isprintable()
    ]


approval_argument = click.argument("approval_id", metavar="ID", shell_complete=_pending_ids)


class _Listing(NamedTuple):
    entries: list[dict[str, Any]]
    decides: bool
    """Whether the asker may decide; who may not sees its own calls alone."""


def _listed(target: Target, asked: Mapping[str, Any]) -> _Listing:
    entries: list[dict[str, Any]] = []
    decides = True
    with connected(target) as client:
        for result in _pages(client, target, asked):
            entries += entries_of(result.get("approvals"), "approvals")
            decides = result.get("decides") is not False
    return _Listing(entries, decides)


def _pages(client: Client, target: Target, asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of a list, one after the other."""
    more: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        reply = require_success(client.call(target.uri, "QUERY", PATH, {**asked, **more}))
        yield result_of(reply)
        token = reply.headers.get("continuation-token")
        if token is None:
            return
        more = {"continuation_token": token}


def _line(text: object) -> str:
    """A text of others in one line of its own: not even a line end of it is obeyed."""
    from agtphost.client.terminal import escape

    return escape(str(text))


def _call_of(entry: Mapping[str, Any]) -> str:
    """The call in a line: its tool where it has one, else its method and path."""
    return _line(entry.get("tool") or f"{entry.get('method', '')} {entry.get('path', '')}")


def _agent_of(entry: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Who calls: by the name that lies with the host, by the host's own, or by Agent-ID."""
    caller = str(entry.get("caller", ""))
    return _line(names.get(caller) or entry.get("label") or caller)


@command.command()
@click.option("--state", type=click.Choice([*STATES, "all"]), default="pending", show_default=True)
@click.option("--agent", metavar="AGENT", help="Of this agent alone: its name here, or its Agent-ID.")
@click.option("--ids", is_flag=True, help="Print the ids alone, for other commands.")
@host_options
def ls(state: str, agent: str | None, ids: bool, where: Connection, as_json: bool) -> None:
    """
    List the calls that wait for a person.

    Those that the asker may decide about, oldest first; with --state, those of another state.

    \b
    Examples:
      agtp approvals ls
      agtp approvals ls --state all --agent demo
      agtp approvals show $(agtp approvals ls --ids | head -n 1)
      agtp approvals ls --as operator --json
    """
    asked: dict[str, Any] = {"state": state}
    if agent is not None:
        asked["agent"] = agent_id_of(where, agent)
    listed, decides = _listed(resolve(where, identity=REGISTRAR), asked)
    if as_json:
        print_json(listed)
        return
    if ids:
        for entry in listed:
            click.echo(_line(entry.get("approval_id")))
        return
    if not listed:
        whose = "" if decides else " of this caller's own"
        click.echo(f"no call{whose} {'needed an approval' if state == 'all' else f'is {state}'}", err=True)
        if not decides:
            click.echo(f"  Those of others are not its to decide. {TO_DECIDE}", err=True)
        return
    names = labels(where)
    print_table(
        ("APPROVAL", "STATE", "AGENT", "CALL", "EXPIRES"),
        (
            (
                _line(entry.get("approval_id")),
                _line(entry.get("state")),
                _agent_of(entry, names),
                _call_of(entry),
                _line(_end_of(entry)),
            )
            for entry in listed
        ),
        whole=("APPROVAL",),
    )


def _end_of(entry: Mapping[str, Any]) -> str:
    """Until when something can be done about it; nothing where it is over."""
    ends = {"pending": entry.get("expires_at"), "approved": entry.get("use_by")}
    return str(ends.get(str(entry.get("state"))) or "-")


@command.command()
@approval_argument
@click.option("--ascii", "only_ascii", is_flag=True, help="Write out every character of the input beyond ASCII.")
@host_options
def show(approval_id: str, only_ascii: bool, where: Connection, as_json: bool) -> None:
    """
    Show one call: who asks for what exactly.

    The input is the call's own, as JSON. What a terminal would obey, and what
    turns text round, is written out; --ascii writes out look-alikes as well.
    Approving lets this call pass once, and no other.

    \b
    Examples:
      agtp approvals show ID
      agtp approvals show ID --json
    """
    entry = _one(resolve(where, identity=REGISTRAR), approval_id)
    if as_json:
        print_json(entry)
        return
    print_fields((name, _line(value)) for name, value in _facts(entry, labels(where)) if value)
    for title, name in (("input", "input"), ("besides", "beside"), ("headers", "fields")):
        if name in entry:
            click.echo(title)
            click.echo(json.dumps(entry[name], indent=2)) if only_ascii else print_document(entry[name])
    if not only_ascii and not json.dumps(entry, ensure_ascii=False).isascii():
        click.echo("it has characters beyond ASCII, of which some look alike: --ascii writes them out", err=True)
    if hidden := _joined(entry.get("hidden")):
        click.echo(visible(f"not shown, as [approvals] show says: {hidden}"), err=True)


def _facts(entry: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    caller = str(entry.get("caller", ""))
    label = names.get(caller) or entry.get("label")
    assurance = str(entry.get("assurance", ""))
    yield "approval", entry.get("approval_id")
    yield "state", _state_of(entry)
    yield "agent", f"{label} ({caller})" if label else caller
    yield "known by", assurance
    yield "for", entry.get("acting_principal")
    yield "delegated", _joined(entry.get("delegation"))
    yield "answered by", entry.get("responder")
    yield "method", entry.get("method")
    yield "path", entry.get("path")
    yield "tool", entry.get("tool")
    yield "described", entry.get("description")
    yield "impact", entry.get("impact")
    yield "definition", entry.get("definition_digest")
    yield "digest", entry.get("digest")
    yield "in doubt", entry.get("in_doubt")
    yield "requested", entry.get("requested_at")
    yield "expires", entry.get("expires_at")
    yield "decided by", entry.get("decided_by")
    yield "decided at", entry.get("decided_at")
    yield "reason", entry.get("reason")
    yield "use by", entry.get("use_by")
    yield "used at", entry.get("used_at")
    for name in ("proposed", "decided", "executed"):
        yield f"{name} in", entry.get(f"{name}_audit_id")


def _state_of(entry: Mapping[str, Any]) -> str:
    state = str(entry.get("state", ""))
    return f"{state}; the host stopped in the middle of the call" if entry.get("cut_off") is True else state


def _joined(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else ""


def _one(target: Target, approval_id: str) -> Mapping[str, Any]:
    found = [entry for entry in _listed(target, {"id": approval_id}).entries if entry.get("approval_id") == approval_id]
    if not found:
        raise HostRefused(
            "there is no such approval, or it is not this caller's to decide",
            "agtp approvals ls --state all shows them; --as NAME asks as somebody else.",
        )
    return found[0]


def _decide(approval_id: str, status: str, reason: str | None, where: Connection, as_json: bool) -> None:
    given = {"target_id": approval_id, "status": status, **({} if reason is None else {"reason": reason})}
    target = resolve(where, identity=REGISTRAR)
    with connected(target) as client:
        reply = client.call(target.uri, "CONFIRM", "/", given)
    if not reply.ok:
        refused = refusal(reply)
        refused.remedy = "\n  ".join(line for line in (refused.remedy, HINTS.get(reply.reason)) if line)
        raise refused
    receipt = result_of(reply)
    if as_json:
        print_json(receipt)
        return
    use_by = receipt.get("use_by")
    until = f" until {use_by}" if use_by else ""
    then = f"the call may be made once{until}" if status == "accepted" else "the call is not made"
    word = "approved" if status == "accepted" else "rejected"
    click.echo(visible(f"{word}: {approval_id}; {then}"))


reason_option = click.option("--reason", metavar="TEXT", help="Goes into the signed record, and to the caller.")


@command.command()
@approval_argument
@reason_option
@host_options
def approve(approval_id: str, reason: str | None, where: Connection, as_json: bool) -> None:
    """
    Approve one call.

    The very call that `agtp approvals show ID` shows may be made once: with
    any other argument, by another agent, or after its tool has changed it
    needs another approval. The decision is a signed record. Nobody decides
    about a call of its own.

    \b
    Examples:
      agtp approvals approve ID --reason "ticket 4711"
      agtp approvals approve ID --as operator --json
    """
    _decide(approval_id, "accepted", reason, where, as_json)


@command.command()
@approval_argument
@reason_option
@host_options
def reject(approval_id: str, reason: str | None, where: Connection, as_json: bool) -> None:
    """
    Reject one call.

    Whoever repeats it is told so, with the reason. The decision is a signed record.

    \b
    Examples:
      agtp approvals reject ID --reason "not on a Friday"
      agtp approvals reject ID --as operator --json
    """
    _decide(approval_id, "rejected", reason, where, as_json)


@command.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the host is asked.",
)
@host_options
def watch(every: float, where: Connection, as_json: bool) -> None:
    """
    Print calls as they begin to wait for a person.

    First those that wait already, then each new one, until Ctrl-C. With
    --json, one JSON object a line. While the host is away it is asked again
    and again.

    \b
    Examples:
      agtp approvals watch
      agtp approvals watch --as operator --json
    """
    target = resolve(where, identity=REGISTRAR)
    names = labels(where)
    try:
        for entry in _arriving(target, every):
            if as_json:
                click.echo(json.dumps(entry))
            else:
                click.echo(
                    f"{_line(entry.get('approval_id'))}  {_agent_of(entry, names)}  {_call_of(entry)}  {_brief(entry)}"
                )
    except KeyboardInterrupt:
        # That is how it ends.
        return


LONGEST_BRIEF = 100


def _brief(entry: Mapping[str, Any]) -> str:
    """The beginning of the input, in a line."""
    from agtphost.client.terminal import render_json

    text = render_json(entry.get("input"), indent=None)
    return text if len(text) <= LONGEST_BRIEF else f"{text[: LONGEST_BRIEF - 3]}..."


def _arriving(target: Target, every: float) -> Iterator[Mapping[str, Any]]:
    """Every approval that waits, once; never ends."""
    seen: set[object] = set()
    asked = away = False
    while True:
        try:
            waiting = _listed(target, {"state": "pending"}).entries
        except NoConnection as error:
            if not asked:
                raise
            if not away:
                _tell_away(error)
            away = True
            time.sleep(max(every, ABSENCE))
            continue
        if away:
            click.echo("the host is back", err=True)
        asked, away = True, False
        yield from (entry for entry in waiting if entry.get("approval_id") not in seen)
        # What waits no more is forgotten: its identifier does not come again.
        seen = {entry.get("approval_id") for entry in waiting}
        time.sleep(every)


def _tell_away(error: CommandError) -> None:
    click.echo(visible(f"{error.format_message()} It is asked again every {ABSENCE:g} s."), err=True)
