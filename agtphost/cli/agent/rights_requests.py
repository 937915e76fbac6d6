"""Requests about the rights of agents, and what their answers have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import ask, entries_of, open_client, require_success, result_of
from agtphost.cli.options import Connection
from agtphost.cli.output import print_note
from agtphost.cli.target import Target, resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client

PATH = "/grants"

ANSWER_SECONDS = 5.0
"""Seconds for which a list of files waits for what the running host says of them."""


def read_rights(target: Target, agent: str, things: Sequence[str] = ()) -> dict[str, Any]:
    """Return the rights of an agent as the host tells them, and what it lacks for some things."""
    given: dict[str, Any] = {"agent": agent, "rights": True}
    if things:
        given["resource"] = list(things)
    found = entries_of(result_of(ask(target, "QUERY", PATH, given)).get("agents"), "agents")
    return dict(found[0])


def list_admitted(client: Client, target: Target) -> Iterator[Mapping[str, Any]]:
    """Yield the agents that the running host lists to this caller."""
    more: dict[str, Any] = {}
    while True:
        reply = require_success(client.call(target.uri, "INSPECT", "/", {"target": "agents", **more}))
        yield from entries_of(result_of(reply).get("agents"), "agents")
        token = reply.headers.get("continuation-token")
        if token is None:
            return
        more = {"continuation_token": token}


def ask_agents(where: Connection) -> list[dict[str, Any]]:
    """Return what the running host says of its agents, for commands that a fault keeps from reading their files."""
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        listed = list(list_admitted(client, target))
    print_note(
        "note: the running host lists these agents, since the fault hides what is on this machine; `agtp agent rights "
        "NAME` asks it for certificate and grants"
    )
    return [
        {
            "name": each.get("name"),
            "agent_id": each.get("agent_id"),
            "kind": "hosted" if each.get("hosted") else "caller",
            "status": each.get("status"),
            "scopes": each.get("scopes"),
        }
        for each in listed
    ]


def find_unadmitted(where: Connection, agent_ids: Iterable[str]) -> frozenset[str]:
    """Return which agents the running host does not know, for lack of a reload; none if it does not answer."""
    wanted = set(agent_ids)
    try:
        target = replace(resolve(where, identity=REGISTRAR), timeout=ANSWER_SECONDS)
        with open_client(target) as client:
            for each in list_admitted(client, target):
                wanted.discard(str(each.get("agent_id")))
                if not wanted:
                    break
            # The list lacks what this caller may not see, too: a question about one agent tells which it is.
            answers = {lost: client.call(target.uri, "QUERY", PATH, {"agent": lost}) for lost in sorted(wanted)}
    except click.ClickException:
        return frozenset()
    return frozenset(lost for lost, reply in answers.items() if reply.reason == Reason.AGENT_NOT_FOUND)


def result_with_record(reply: Reply) -> dict[str, Any]:
    """Return the result of an answer, with the Audit-ID of its record."""
    return {**result_of(reply), "audit_id": reply.audit_id}


def scopes_of(shown: Mapping[str, Any]) -> list[str]:
    """Return the scopes of an agent's rights."""
    return [str(each.get("scope")) for each in shown.get("scopes") or () if isinstance(each, Mapping)]
