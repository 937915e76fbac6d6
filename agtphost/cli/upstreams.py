"""``agtp upstreams``: what a host's MCP servers and other upstreams are up to, through AGTP (design decision 16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agtphost.cli.exchange import ask, result_of
from agtphost.cli.failures import NoConnection
from agtphost.cli.options import Connection, connection_options, host_option, json_option
from agtphost.cli.output import print_json, print_table, visible
from agtphost.cli.reach import resolve


@click.group()
def command() -> None:
    """Look at a host's upstreams."""


@command.command()
@click.option("--stderr", "stderr", is_flag=True, help="Show the last lines that each server wrote to stderr.")
@host_option
@connection_options
@json_option
def ls(stderr: bool, uri: str, where: Connection, as_json: bool) -> None:
    """
    List upstreams: state, restarts, next attempt, latency.

    For operators: certificates that [audit] operators names, and agents with the scope inspect:all.

    \b
    Examples:
      agtp upstreams ls --as operator
      agtp upstreams ls --as operator --stderr
      agtp upstreams ls --as operator --json
    """
    result = result_of(ask(resolve(where, uri), "INSPECT", "/", {"target": "upstreams"}))
    listed = result.get("upstreams")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise NoConnection("the answer is not a list of upstreams", "Is this an AGTP host of the same version?")
    if as_json:
        print_json(listed)
        return
    if not listed:
        click.echo("the host has no upstreams", err=True)
        return
    head = ("UPSTREAM", "PROTOCOL", "STATE", "RESTARTS", "NEXT ATTEMPT", "LATENCY", "CALLS", "REASON")
    print_table(head, (_row(entry) for entry in listed))
    if stderr:
        for entry in listed:
            for line in entry.get("link", {}).get("stderr", ()):
                click.echo(visible(f"{entry.get('name', '')}: {line}"))


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
        str(entry.get("reason") or ""),
    )


def _seconds(value: Any, form: str) -> str:
    return form.format(value) if isinstance(value, (int, float)) else "-"


def _milliseconds(value: Any) -> str:
    return f"{value * 1000:.1f} ms" if isinstance(value, (int, float)) and value else "-"
