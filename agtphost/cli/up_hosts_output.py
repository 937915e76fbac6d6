"""What ``agtp up --hosts`` prints: who serves, what to type to change that, and each change."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from agtphost.cli.output import print_line
from agtphost.cli.trial_cluster import RoleChange
from agtphost.cli.trial_database import TrialDatabase
from agtphost.cli.trial_host import HostRole, TrialHost
from agtphost.cli.up_output import PreparedHost, commands_to_try, ready_fields, tell_tries, this_command
from agtphost.host.start_failure import SUPERSEDED


def tell_cluster(
    prepared: PreparedHost, shown: str, hosts: Sequence[TrialHost], database: TrialDatabase, seconds: float
) -> None:
    """
    Print for people who serves, and what to try.

    :param shown: the directory as the user named it.
    :param seconds: from the command until now.
    """
    folder = Path(shown) / database.folder.name
    click.echo(f"database   PostgreSQL {database.version} in {folder}, pid {database.pid}")
    click.echo(f"ready      {prepared.uri}  ({seconds:.1f} s)  Ctrl-C stops all")
    for host in hosts:
        click.echo(f"host {host.name}     {host.role.value}, pid {host.pid}")
    serving = next(host for host in hosts if host.role is HostRole.SERVING)
    others = [host.name for host in hosts if host is not serving]
    next_one = others[0] if len(others) == 1 else "another host"
    lease = prepared.config.cluster.takeover_after
    status = f"{this_command()} store status --config {shlex.quote(shown)}"
    tell_tries(
        prepared,
        [
            *commands_to_try(prepared, shown),
            (status, "show which host serves"),
            (_hand_over(serving), f"hand over: {serving.name} finishes its calls, and {next_one} serves"),
            (_kill(serving), f"kill it: {next_one} serves after {lease:g} seconds and a start"),
        ],
    )


def print_cluster(
    prepared: PreparedHost, shown: str, hosts: Sequence[TrialHost], database: TrialDatabase, seconds: float
) -> None:
    """Print the same for programs, as one line."""
    print_line(
        {
            "event": "ready",
            **ready_fields(prepared, shown),
            "seconds": round(seconds, 3),
            "database": {"directory": str(database.folder), "version": database.version, "pid": database.pid},
            "hosts": [
                {"host": host.name, "pid": host.pid, "role": host.role.value, **_signals(host), "log": str(host.log)}
                for host in hosts
            ],
        }
    )


def tell_change(change: RoleChange) -> None:
    """Print for people the new role of a host, or its end."""
    host = change.host
    text = f"{host.name} {change.role.value}"
    if change.role is HostRole.SERVING:
        after = "" if change.seconds is None else f", {change.seconds:.1f} s later"
        text += f"{after}, pid {host.pid}  (hand over: {_hand_over(host)}  or kill it: {_kill(host)})"
    elif change.role is HostRole.STANDBY:
        text += f", pid {host.pid}"
    elif change.role is HostRole.ENDED:
        text += f"{_explain_end(change.status or 0, host)}; it is started again"
    click.echo(f"{time.strftime('%H:%M:%S')}   {text}")


def print_change(change: RoleChange) -> None:
    """Print the same for programs, as one line."""
    host = change.host
    fields: dict[str, Any] = {"event": change.role.name.lower(), "host": host.name, "pid": host.pid}
    if change.role is HostRole.SERVING:
        fields |= _signals(host)
    if change.seconds is not None:
        fields["seconds"] = round(change.seconds, 3)
    if change.status is not None:
        fields["exit_status"] = change.status
    print_line(fields)


def _explain_end(status: int, host: TrialHost) -> str:
    if status < 0:
        return f" by {signal.Signals(-status).name}"
    if status == SUPERSEDED:
        return f" with status {status}, because another host has taken its store over"
    return f" with status {status}" + (f", see {host.log}" if status else "")


def _signals(host: TrialHost) -> dict[str, str]:
    return {"hand_over": _hand_over(host), "kill": _kill(host)}


def _hand_over(host: TrialHost) -> str:
    return f"kill {host.pid}"


def _kill(host: TrialHost) -> str:
    return f"kill -9 {host.pid}"
