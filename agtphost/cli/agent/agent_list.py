"""The command ``agtp agent ls`` for agents stored with a host: state, scopes, grants, and certificate ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agent.rights_requests import find_unadmitted
from agtphost.cli.agent.stored_grants import stored_grants
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.identities import LocalAgent, local_agents
from agtphost.cli.options import Connection
from agtphost.cli.output import print_entries, print_note, to_text, visible_line
from agtphost.vocabulary import times

if TYPE_CHECKING:
    from agtphost.config import Config

SHORT = 12
"""Digits of an Agent-ID that fit into a line."""

NOT_ADMITTED = "not admitted"
"""The state of an agent whose files the running host has not read."""


def agents_of(config: Config) -> list[LocalAgent]:
    """Return every agent that has a document here, with its state in the store if there is a store yet."""
    if not may_have_store(config):
        return list(local_agents(config))
    with open_records(config) as reader:
        states = {agent_id: row.status for agent_id, row in reader.lifecycle_states().items()}
    return [replace(agent, status=states.get(agent.agent_id, agent.status)) for agent in local_agents(config)]


def agent_rows(config: Config) -> list[dict[str, Any]]:
    """Return the fields of each agent, for ``--json`` and the table."""
    from agtphost.host.expiry_watch import agent_certificates

    now = time.time()
    ends = {each.name: each for each in agent_certificates(config)}
    grants = {entry["agent_id"]: entry["grants"] for entry in stored_grants(config)}
    found = []
    for agent in agents_of(config):
        expiring = None if agent.hosted else ends.get(agent.directory.name)
        certificate = None
        if expiring is not None:
            certificate = {
                "ends": times.stamp(expiring.ends),
                "days_left": expiring.days_left(now),
                "soon": expiring.is_soon(now),
            }
        narrowed = agent.agent_id in grants
        found.append(
            {
                **agent.fields(),
                "certificate": certificate,
                "narrowed": narrowed,
                "grants": grants.get(agent.agent_id, []),
            }
        )
    return found


def show_agents(config: Config, where: Connection, *, wide: bool, as_json: bool) -> None:
    """
    Print the agents of a host.

    :param where: the host, which is asked whether it has admitted them.
    :param wide: print full Agent-IDs, kinds and each grant.
    """
    agents = agent_rows(config)
    missing = find_unadmitted(where, (agent["agent_id"] for agent in agents))
    for agent in agents:
        if agent["agent_id"] in missing:
            agent["status"] = NOT_ADMITTED
    # Output that a program reads is never cut.
    whole = wide or not sys.stdout.isatty()
    columns: dict[str, Any] = {
        "NAME": "name",
        "AGENT-ID": "agent_id" if whole else lambda agent: str(agent["agent_id"])[:SHORT],
        **({"KIND": "kind"} if wide else {}),
        "STATE": "status",
        "SCOPES": "scopes",
        "CERTIFICATE": _certificate,
        "MAY CALL": _grants if wide else _grants_in_short,
    }
    print_entries(agents, columns, as_json)
    if as_json:
        return
    if missing:
        print_note(f"{NOT_ADMITTED}: the running host has not read these agents' files yet; agtp reload")
    for agent in agents:
        certificate = agent["certificate"]
        if certificate is not None and certificate["soon"]:
            said = (
                f"{agent['name']}: its certificate {_describe_time_left(certificate)}; agtp agent renew {agent['name']}"
            )
            colour = "red" if certificate["days_left"] < 0 else "yellow"
            click.echo(click.style(visible_line(said), fg=colour), err=True)


def _certificate(agent: Mapping[str, Any]) -> str:
    certificate = agent["certificate"]
    if certificate is None:
        return "-"
    return f"{str(certificate['ends'])[:10]}{' (!)' if certificate['soon'] else ''}"


def _describe_time_left(certificate: Mapping[str, Any]) -> str:
    days = int(certificate["days_left"])
    if days < 0:
        return f"ended on {certificate['ends']}"
    return f"ends in {days} day{'' if days == 1 else 's'}, at {certificate['ends']}"


def _grants_in_short(agent: Mapping[str, Any]) -> str:
    """Return what an agent may call, in a few words."""
    if not agent["narrowed"]:
        return "as its scopes"
    names = [grant["allow"] for grant in agent["grants"] if grant["state"] == "in force"]
    return to_text(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "") if names else "nothing"


def _grants(agent: Mapping[str, Any]) -> str:
    """Return what an agent may call, with the end of each grant."""
    if not agent["narrowed"]:
        return "as its scopes"
    grants: Sequence[Mapping[str, Any]] = agent["grants"]
    return "\n".join(map(_grant, grants)) or "nothing"


def _grant(grant: Mapping[str, Any]) -> str:
    until = f" until {grant['until']}" if grant["until"] else ""
    return f"{grant['allow']}{until}{'' if grant['state'] == 'in force' else ' (expired)'}"
