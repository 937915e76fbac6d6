"""The command ``agtp status``: the state of a running host, or the state that a stopped host's files show."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import open_client, refusal, require_success, result_of
from agtphost.cli.failures import CommandError, ExitStatus, HostRefused, NoConnection
from agtphost.cli.offline_status import offline_fields
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_fields, print_json, print_line, print_note, print_table, visible_line
from agtphost.cli.standby_status import STANDBY, rows_of_standby, standby_fields
from agtphost.cli.store_risks import store_risks
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.quantities import lasting, plural, size

if TYPE_CHECKING:
    from agtphost.cli.target import Target

READY, DEGRADED, ANSWERS, NOT_RUNNING = "ready", "degraded", "answers", "not running"

STATUS = {
    READY: ExitStatus.SUCCESS,
    ANSWERS: ExitStatus.SUCCESS,
    STANDBY: ExitStatus.SUCCESS,
    DEGRADED: ExitStatus.REFUSED,
    NOT_RUNNING: ExitStatus.CONNECTION,
}

SOON = 30 * 86_400.0
"""Seconds before the end of a certificate or a revocation list from which a warning is shown."""

QUIET_STATES = frozenset({"up", "idle"})
"""States of upstreams that need no attention."""


@click.command()
@click.option("--watch", is_flag=True, help="Repeat until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval between the queries of --watch.",
)
@host_options
def command(watch: bool, every: float, where: Connection, as_json: bool) -> None:
    """
    Show whether a host is ready, and if not, why.

    Asks the running host, which records its answer. Without --cert and --as the registrar of the configured host asks.
    Health is shown to operators ([[operator]]) and agents with the scope inspect:all; for other callers the
    command only shows whether the host answers. For a stopped host it shows the state in its files.

    For a standby the command shows which host serves.

    The exit status is 0 if the host is ready or a standby, 1 if it runs but is not ready, and 3 if it does not run.
    With --json, --watch prints one JSON object a line.

    \b
    Examples:
      agtp status
      agtp status --watch
      agtp status --json | jq .ready
      agtp status --cert ops.pem --uri agtp://agents.example.com
    """
    target = resolve(where, identity=REGISTRAR)
    if not watch:
        seen = query_host(target, where)
        _show(seen, as_json)
        raise click.exceptions.Exit(int(STATUS[seen["state"]]))
    state = READY
    try:
        while True:
            seen = query_host(target, where)
            # Keep the state before it is shown, because a user may interrupt immediately after reading it.
            state = str(seen["state"])
            _show_again(seen, as_json)
            time.sleep(every)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(int(STATUS[state])) from None


def _show_again(seen: Mapping[str, Any], as_json: bool) -> None:
    """Show one of several queries."""
    if as_json:
        print_line(seen)
    else:
        if sys.stdout.isatty():
            click.clear()
        _show(seen, as_json)
        click.echo("")
    sys.stdout.flush()


def query_host(target: Target, where: Connection) -> dict[str, Any]:
    """
    Query the host, and return fields; ``state`` is a key of :data:`STATUS`.

    :raises CommandError: the host refuses a caller that the user named.
    """
    if standby := standby_fields(where):
        return {**standby, "warnings": list(store_risks(where))}
    try:
        with open_client(target) as client:
            asked = client.call(target.uri, "INSPECT", "/", {"target": "vitals"})
            if asked.ok:
                running = running_fields(target.uri, result_of(asked))
                return {**running, "warnings": [*running["warnings"], *store_risks(where)]}
            if where.identity is not None or where.cert is not None or asked.status >= 500:
                return _degraded_fields(target.uri, refusal(asked))
            require_success(client.call(target.uri, "DISCOVER", "/methods", anonymous=True))
            note = "its state is shown only to operators: give one with --cert or --as"
            return {"state": ANSWERS, "ready": None, "uri": target.uri, "note": note}
    except NoConnection as error:
        files = offline_fields(where)
        return {"state": NOT_RUNNING, "ready": False, "uri": target.uri, "why": error.message, **files}
    except HostRefused as error:
        return _degraded_fields(target.uri, error)


def _degraded_fields(uri: str, error: CommandError) -> dict[str, Any]:
    """Return the fields of a host that can serve no request; re-raise a refusal that concerns only this caller."""
    answer = error.answer if isinstance(error.answer, dict) else {}
    if int(answer.get("status") or 0) < 500:
        raise error
    why = {"what": "host", "why": error.message}
    return {"state": DEGRADED, "ready": False, "uri": uri, "obstacles": [why]}


def running_fields(uri: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a running host reports about itself."""
    obstacles = status.get("obstacles") or []
    state = DEGRADED if obstacles else READY
    return {"state": state, "ready": not obstacles, "uri": uri, **status, "warnings": list(_warnings(status))}


def _warnings(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about conditions that will become problems."""
    for name, what in (("certificate_ends", "the host's certificate"), ("revocation_ends", "a revocation list")):
        left = status.get(name)
        if isinstance(left, (int, float)) and left < SOON:
            yield f"{what} ended {lasting(-left)} ago" if left < 0 else f"{what} ends in {lasting(left)}"
    for each in status.get("expiring") or ():
        # The lines above report the first two earlier and shorter; a grant ends because an operator chose so.
        if isinstance(each, str) and not each.startswith(
            ("the host certificate ", "the revocation list ", "the grant ")
        ):
            yield each
    yield from (each for each in status.get("untaken") or () if isinstance(each, str))
    free, floor = status.get("free_octets"), status.get("free_space_floor")
    if isinstance(free, (int, float)) and isinstance(floor, (int, float)) and floor <= free < 2 * floor:
        yield f"{size(free)} are free; below {size(floor)} requests are answered 503"


def _show(seen: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(seen)
        return
    rows = _rows_of_running if "records" in seen and seen["state"] != NOT_RUNNING else _rows_of_stopped
    print_fields((rows_of_standby if seen["state"] == STANDBY else rows)(seen))
    down = [each for each in seen.get("upstreams") or () if each.get("state") not in QUIET_STATES]
    if down:
        click.echo("")
        print_table(("UPSTREAM", "STATE", "NEXT ATTEMPT", "WHY"), (_upstream(each) for each in down))
    for warning in seen.get("warnings") or ():
        print_note(visible_line(f"note: {warning}"))


def _rows_of_running(seen: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "state", seen["state"]
    for each in seen.get("obstacles") or ():
        yield "  because", f"{each.get('what')}: {each.get('why')}"
    yield "host", f"{seen.get('server_id')}, agtphost {seen.get('version')}, at {seen['uri']}"
    yield "up for", lasting(seen.get("uptime") or 0)
    ledger = "low on disk" if seen.get("low") else "healthy" if seen.get("healthy") else "failing"
    yield "ledger", f"{ledger}, {plural(seen['records'], 'record')}"
    yield "checkpoint", _checkpoint(seen.get("checkpoint_age"))
    for name, age in (seen.get("witness_ages") or {}).items():
        yield f"witness {name}", "has seen all" if not age else f"is {lasting(age)} behind"
    if seen.get("free_octets") is not None:
        yield "free disk", size(seen["free_octets"])
    calls, connections, waiting = (seen.get(name) or 0 for name in ("recent_calls", "connections", "waiting"))
    yield "last minute", f"{plural(calls, 'call')}, {seen.get('recent_refusals')} of them refused"
    yield "now", f"{plural(connections, 'connection')}, {plural(waiting, 'call that waits', 'calls that wait')}"
    if quic := seen.get("quic"):
        of_connections = f"{quic.get('connections')} of the connections, {quic.get('streams')} requests on them"
        yield "by QUIC", of_connections if quic.get("port") is None else f"{of_connections}, at UDP port {quic['port']}"
    yield "agents", _render_counts(seen.get("agents") or {})
    states: dict[str, int] = {}
    for each in seen.get("upstreams") or ():
        states[str(each.get("state"))] = states.get(str(each.get("state")), 0) + 1
    yield "upstreams", _render_counts(states)
    open_items = (seen.get("open_items") or {}).items()
    yield "to decide", ", ".join(plural(count, name) for name, count in open_items) or "none"


def _rows_of_stopped(seen: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "state", seen["state"]
    yield "host", seen["uri"]
    yield "why", seen.get("why")
    for each in seen.get("obstacles") or ():
        yield "because", f"{each.get('why')}"
    yield "note", seen.get("note")
    plain: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("held by", "held_by", str),
        ("store", "store", str),
        ("serves", "serving", str),
        ("copied to", "moved_to", str),
        ("records", "records", str),
        ("newest record", "newest_record", str),
        ("checkpoint", "checkpoint", lambda covered: f"covers {plural(covered, 'record')}"),
        ("free disk", "free_octets", size),
    )
    for title, name, shown in plain:
        if seen.get(name) is not None:
            yield title, shown(seen[name])


def _checkpoint(age: object) -> str:
    if not isinstance(age, (int, float)):
        return "none yet"
    return "covers all records" if not age else f"is {lasting(age)} behind"


def _render_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _upstream(each: Mapping[str, Any]) -> tuple[object, ...]:
    wait = each.get("next_attempt_in")
    next_attempt = f"in {wait:.0f} s" if isinstance(wait, (int, float)) else "-"
    return f"{each.get('protocol')}.{each.get('name')}", each.get("state"), next_attempt, each.get("reason") or ""
