"""The ``agtp domain`` group: report that a domain expired, was renewed or changed hands (core v08 section 11.8)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from agtphost.audit.domains import EXPIRED, ORG_DOMAIN, RENEWED
from agtphost.cli.audit.store import open_records
from agtphost.cli.exchange import ask, result_of
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import require_config
from agtphost.cli.options import Connection, connection_options, host_options
from agtphost.cli.output import print_entries, print_json, visible
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary import times

HOURS = 24.0
"""Most hours of grace."""


@click.group(cls=VerbGroup)
def command() -> None:
    """
    Report changes of agents' domains (org_domain).

    Needs the client certificate of an administrator ([[operator]]), or of the registrar that issued every agent of the
    domain: the configured host's, unless --cert names another.
    """


@command.command()
@click.argument("domain", metavar="DOMAIN")
@click.option(
    "--at", "expires_at", metavar="TIME", help="Time of expiry, such as 2027-01-31T00:00:00Z; default: already expired."
)
@click.option(
    "--grace",
    type=click.FloatRange(0, HOURS),
    default=0.0,
    metavar="HOURS",
    help="Hours until the agents are suspended, 0 (the default) to 24.",
)
@click.option("--actor", metavar="TEXT", help="Who reports it, for the signed event.")
@host_options
def expire(
    domain: str,
    expires_at: str | None,
    grace: float,
    actor: str | None,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Suspend the agents of a domain that expired or will expire.

    Their principals are notified first. Without a renewal, the agents are deprecated 90 days after their suspension.
    Report a foreseeable expiry 30 days ahead.

    \b
    Examples:
      agtp domain expire example.com
      agtp domain expire example.com --at 2027-01-31T00:00:00Z --grace 12
    """
    given = {"expires_at": expires_at, "grace": int(grace * 3600), "actor": actor}
    _send_change("DEACTIVATE", domain, given, where, as_json)


@command.command()
@click.argument("domain", metavar="DOMAIN")
@click.option("--actor", metavar="TEXT", help="Who reports it, for the signed event.")
@host_options
def renew(domain: str, actor: str | None, where: Connection, as_json: bool) -> None:
    """
    Reinstate the agents that a domain's expiry stopped.

    Use this after the owner renewed the domain: its agents serve and call again.

    \b
    Example:
      agtp domain renew example.com
    """
    _send_change("REINSTATE", domain, {"actor": actor}, where, as_json)


@command.command()
@click.argument("domain", metavar="DOMAIN")
@click.option("--owner-id", required=True, metavar="ID", help="New owner, as in owner_id of agents.")
@click.option("--actor", metavar="TEXT", help="Who reports it, for the signed event.")
@host_options
def transfer(domain: str, owner_id: str, actor: str | None, where: Connection, as_json: bool) -> None:
    """
    Report that a domain has another owner.

    The new owner does not inherit the agents of the domain: those of every other owner are suspended permanently. New
    agents must be issued for the new owner.

    \b
    Example:
      agtp domain transfer example.com --owner-id newcorp.example
    """
    _send_change("REINSTATE", domain, {"owner_id": owner_id, "actor": actor}, where, as_json)


@command.command()
@connection_options
def ls(where: Connection, as_json: bool) -> None:
    """
    List the domain changes that were reported to the configured host.

    Reads the host's own store.

    \b
    Examples:
      agtp domain ls
      agtp domain ls --json
    """
    config = require_config(where, "the list of domains")
    with open_records(config) as reader:
        found = [_to_json(value) for value in reader.state_items(ORG_DOMAIN)]
    print_entries(found, ("domain", "state", "owner_id", "told_at", "suspend_at", "deprecate_at"), as_json)


def _state(value: Mapping[str, Any]) -> str:
    """Return the state in one word: expiring, expired, renewed or transferred."""
    if value["event"] == EXPIRED and value["suspend_at"] > times.stamp(time.time()):
        return "expiring"
    return str(value["event"]).removeprefix("org-domain-")


def _to_json(value: Mapping[str, Any]) -> dict[str, Any]:
    entry = {"domain": value["domain"], "state": _state(value), "told_at": value["told_at"]}
    if value["owner"]:
        entry["owner_id"] = value["owner"]
    if value["event"] != RENEWED:
        entry.update(suspend_at=value["suspend_at"], deprecate_at=value["deprecate_at"])
    return entry


def _send_change(method: str, domain: str, given: Mapping[str, Any], where: Connection, as_json: bool) -> None:
    parameters = {name: value for name, value in given.items() if value is not None}
    target = resolve(where, identity=REGISTRAR)
    result = dict(result_of(ask(target, method, "/", {"org_domain": domain, **parameters})))
    if as_json:
        print_json(result)
        return
    agents = ", ".join(agent["name"] for agent in result["agents"]) or "none"
    state = _state(result)
    if result.get("noop"):
        click.echo(visible(f"{domain} is {state} already; nothing changed"))
        return
    click.echo(visible(f"{domain}: {state}; agents under it: {agents}"))
    if result["event"] == EXPIRED:
        click.echo(visible(f"suspended from {result['suspend_at']}, deprecated from {result['deprecate_at']}"))
