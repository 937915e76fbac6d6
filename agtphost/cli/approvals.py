"""The ``agtp approvals`` group: calls that wait for a person, and the person's decisions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from agtphost.cli.exchange import entries_of, open_client, refusal, require_success, result_of
from agtphost.cli.failures import CommandError, HostRefused, NoConnection
from agtphost.cli.groups import VerbGroup
from agtphost.cli.identities import agent_id_of, labels
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_document, print_fields, print_json, print_note, print_table, visible, visible_line
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.display_names import operator_name

if TYPE_CHECKING:
    from agtphost.cli.target import Target
    from agtphost.client.sync import Client

PATH = "/approvals"
STATES = ("pending", "approved", "rejected", "expired", "used")
MOST_PAGES = 1_000
"""Most pages of one list that are read, so that a host which always has another page cannot keep the command busy."""

HINTS = {
    "own-approval": "--as NAME, or --cert FILE, decides as another agent.",
    "target-unknown": "agtp approvals ls --state all lists the approvals; [approvals] by names who may decide.",
}
"""Advice for refused decisions, in addition to the host's own."""

TO_DECIDE = "[approvals] by names who may decide: operators are approvers and administrators of [[operator]]."

COMPLETION_SECONDS = 2.0
"""Seconds after which a shell completion gives up."""

RETRY_DELAY = 5.0
"""Seconds between attempts to reach a host that went away while it was watched."""


@click.group(cls=VerbGroup)
def command() -> None:
    """Decide about calls that wait for a person."""


def _pending_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete pending approvals; complete nothing if the host does not answer in time."""
    names = Connection.__dataclass_fields__
    given = {name: value for name, value in context.params.items() if name in names and value is not None}
    where = Connection(**{**given, "timeout": COMPLETION_SECONDS})
    try:
        waiting = _list_approvals(resolve(where, identity=REGISTRAR), {"state": "pending"}).entries
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
    """Whether the caller may decide; a caller that may not sees only its own calls."""


def _list_approvals(target: Target, asked: Mapping[str, Any]) -> _Listing:
    entries: list[dict[str, Any]] = []
    decides = True
    with open_client(target) as client:
        for result in _pages(client, target, asked):
            entries += entries_of(result.get("approvals"), "approvals")
            decides = result.get("decides") is not False
    return _Listing(entries, decides)


def _pages(client: Client, target: Target, asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the pages of a list, one after the other."""
    more: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        reply = require_success(client.call(target.uri, "QUERY", PATH, {**asked, **more}))
        yield result_of(reply)
        token = reply.headers.get("continuation-token")
        if token is None:
            return
        more = {"continuation_token": token}


def _call_of(entry: Mapping[str, Any]) -> str:
    """Return the call in one line: its tool if it has one, or else its method and path."""
    return visible_line(entry.get("tool") or f"{entry.get('method', '')} {entry.get('path', '')}")


def _agent_of(entry: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return who calls: the name in the host's files, the label that the host reports, or the Agent-ID."""
    caller = str(entry.get("caller", ""))
    return visible_line(names.get(caller) or entry.get("label") or caller)


@command.command()
@click.option(
    "--state",
    type=click.Choice([*STATES, "all"]),
    default="pending",
    show_default=True,
    help="State of the calls to list.",
)
@click.option("--agent", metavar="AGENT", help="Only calls of this agent: its name here, or its Agent-ID.")
@click.option("--ids", is_flag=True, help="Print only the ids, for other commands.")
@host_options
def ls(state: str, agent: str | None, ids: bool, where: Connection, as_json: bool) -> None:
    """
    List the calls that wait for a person.

    Lists those that the caller may decide about, oldest first; --state lists those in another state.

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
    listed, decides = _list_approvals(resolve(where, identity=REGISTRAR), asked)
    if as_json:
        print_json(listed)
        return
    if ids:
        for entry in listed:
            click.echo(visible_line(entry.get("approval_id")))
        return
    if not listed:
        whose = "" if decides else " of this caller's own"
        print_note(f"no call{whose} {'needed an approval' if state == 'all' else f'is {state}'}")
        if not decides:
            print_note(f"  This caller may not decide about the calls of others. {TO_DECIDE}")
        return
    names = labels(where)
    print_table(
        ("APPROVAL", "STATE", "AGENT", "CALL", "EXPIRES"),
        (
            (
                visible_line(entry.get("approval_id")),
                visible_line(entry.get("state")),
                _agent_of(entry, names),
                _call_of(entry),
                visible_line(_end_of(entry)),
            )
            for entry in listed
        ),
        whole=("APPROVAL",),
    )


def _end_of(entry: Mapping[str, Any]) -> str:
    """Return until when the approval can be decided or used; "-" if it is over."""
    ends = {"pending": entry.get("expires_at"), "approved": entry.get("use_by")}
    return str(ends.get(str(entry.get("state"))) or "-")


@command.command()
@approval_argument
@click.option("--ascii", "only_ascii", is_flag=True, help="Write out every character of the input beyond ASCII.")
@host_options
def show(approval_id: str, only_ascii: bool, where: Connection, as_json: bool) -> None:
    """
    Show one call: who asks for it, and its exact input.

    The input is that of the call, as JSON. Characters that control a terminal or reverse text are escaped; --ascii also
    escapes characters that look like others. Approving permits exactly this call, once.

    \b
    Examples:
      agtp approvals show ID
      agtp approvals show ID --json
    """
    entry = _find_one(resolve(where, identity=REGISTRAR), approval_id)
    if as_json:
        print_json(entry)
        return
    print_fields((name, visible_line(value)) for name, value in _facts(entry, labels(where)) if value)
    for title, name in (("input", "input"), ("besides", "beside"), ("headers", "fields")):
        if name in entry:
            click.echo(title)
            click.echo(json.dumps(entry[name], indent=2)) if only_ascii else print_document(entry[name])
    if not only_ascii and not json.dumps(entry, ensure_ascii=False).isascii():
        print_note("the input has characters beyond ASCII, and some look alike: --ascii escapes them")
    if hidden := _join_values(entry.get("hidden")):
        print_note(f"hidden by [approvals] show: {hidden}")


def _facts(entry: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    caller = str(entry.get("caller", ""))
    label = names.get(caller) or entry.get("label")
    assurance = str(entry.get("assurance", ""))
    yield "approval", entry.get("approval_id")
    yield "state", _state_of(entry)
    yield "agent", f"{label} ({caller})" if label else caller
    yield "known by", assurance
    yield "for", entry.get("acting_principal")
    yield "delegated", _join_values(entry.get("delegation"))
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
    yield "decided by", _decider(entry, names)
    yield "decided at", entry.get("decided_at")
    yield "reason", entry.get("reason")
    yield "use by", entry.get("use_by")
    yield "used at", entry.get("used_at")
    for name in ("proposed", "decided", "executed"):
        yield f"{name} in", entry.get(f"{name}_audit_id")


def _decider(entry: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return who decided, by name where one is known; empty for a call that waits."""
    by = str(entry.get("decided_by") or "")
    name = operator_name(entry) or names.get(by)
    return f"{name} ({by})" if name else by


def _state_of(entry: Mapping[str, Any]) -> str:
    state = str(entry.get("state", ""))
    return f"{state}; the host stopped in the middle of the call" if entry.get("cut_off") is True else state


def _join_values(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else ""


def _find_one(target: Target, approval_id: str) -> Mapping[str, Any]:
    found = [
        entry
        for entry in _list_approvals(target, {"id": approval_id}).entries
        if entry.get("approval_id") == approval_id
    ]
    if not found:
        raise HostRefused(
            f"the approval {approval_id} does not exist, or this caller may not decide about it",
            "List them with agtp approvals ls --state all; --as NAME asks as another agent.",
        )
    return found[0]


def _decide(approval_id: str, status: str, reason: str | None, where: Connection, as_json: bool) -> None:
    given = {"target_id": approval_id, "status": status, **({} if reason is None else {"reason": reason})}
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
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


reason_option = click.option("--reason", metavar="TEXT", help="Reason, for the signed record and the caller.")


@command.command()
@approval_argument
@reason_option
@host_options
def approve(approval_id: str, reason: str | None, where: Connection, as_json: bool) -> None:
    """
    Approve one call.

    Exactly the call that `agtp approvals show ID` shows may then be made once. Another argument, another agent or a
    changed tool needs another approval. The decision is a signed record. An agent cannot approve its own call.

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

    A caller that repeats the call gets this refusal with the reason. The decision is a signed record.

    \b
    Examples:
      agtp approvals reject ID --reason "not on a Friday"
      agtp approvals reject ID --as operator --json
    """
    _decide(approval_id, "rejected", reason, where, as_json)


@command.command()
@approval_argument
@click.option("--accept", "--approve", "decision", flag_value="accepted", help="Approve the call, as `approve` does.")
@click.option("--reject", "decision", flag_value="rejected", help="Reject the call; the same as `reject`.")
@reason_option
@host_options
def decide(approval_id: str, decision: str | None, reason: str | None, where: Connection, as_json: bool) -> None:
    """
    Approve or reject one call.

    Does the same as `agtp approvals approve` or `agtp approvals reject`, with the options of `agtp contracts decide`.

    \b
    Examples:
      agtp approvals decide ID --accept --reason "ticket 4711"
      agtp approvals decide ID --reject --json
    """
    if decision is None:
        raise click.UsageError("give one of --accept and --reject")
    _decide(approval_id, decision, reason, where, as_json)


@command.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval between queries.",
)
@host_options
def watch(every: float, where: Connection, as_json: bool) -> None:
    """
    Print calls when they begin to wait for a person.

    Prints the calls that wait already, then each new one, until Ctrl-C. With --json, each line is one JSON object.
    While the host cannot be reached, the command keeps trying.

    \b
    Examples:
      agtp approvals watch
      agtp approvals watch --as operator --json
    """
    target = resolve(where, identity=REGISTRAR)
    names = labels(where)
    try:
        for entry in _follow_pending(target, every):
            if as_json:
                click.echo(json.dumps(entry))
            else:
                known = visible_line(entry.get("approval_id"))
                click.echo(f"{known}  {_agent_of(entry, names)}  {_call_of(entry)}  {_brief(entry)}")
    except KeyboardInterrupt:
        # Ctrl-C is the regular end.
        return


LONGEST_BRIEF = 100


def _brief(entry: Mapping[str, Any]) -> str:
    """Return the beginning of the input, in one line."""
    from agtphost.client.terminal import render_json

    text = render_json(entry.get("input"), indent=None)
    return text if len(text) <= LONGEST_BRIEF else f"{text[: LONGEST_BRIEF - 3]}..."


def _follow_pending(target: Target, every: float) -> Iterator[Mapping[str, Any]]:
    """Yield every pending approval once; never end."""
    seen: set[object] = set()
    asked = away = False
    while True:
        try:
            waiting = _list_approvals(target, {"state": "pending"}).entries
        except NoConnection as error:
            if not asked:
                raise
            if not away:
                _tell_away(error)
            away = True
            time.sleep(max(every, RETRY_DELAY))
            continue
        if away:
            print_note("the host is back")
        asked, away = True, False
        yield from (entry for entry in waiting if entry.get("approval_id") not in seen)
        # An approval that no longer waits can be forgotten, because its identifier is not reused.
        seen = {entry.get("approval_id") for entry in waiting}
        time.sleep(every)


def _tell_away(error: CommandError) -> None:
    print_note(f"{error.format_message()} Trying again every {RETRY_DELAY:g} s.")
