"""Requests about the rights of agents, and what their answers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agtphost.cli.exchange import ask, entries_of, result_of
from agtphost.cli.target import Target

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

PATH = "/grants"


def read_rights(target: Target, agent: str, things: Sequence[str] = ()) -> dict[str, Any]:
    """Return the rights of an agent as the host tells them, and what it lacks for some things."""
    given: dict[str, Any] = {"agent": agent, "rights": True}
    if things:
        given["resource"] = list(things)
    found = entries_of(result_of(ask(target, "QUERY", PATH, given)).get("agents"), "agents")
    return dict(found[0])


def result_with_record(reply: Reply) -> dict[str, Any]:
    """Return the result of an answer, with the Audit-ID of its record."""
    return {**result_of(reply), "audit_id": reply.audit_id}


def scopes_of(shown: Mapping[str, Any]) -> list[str]:
    """Return the scopes of an agent's rights."""
    return [str(each.get("scope")) for each in shown.get("scopes") or () if isinstance(each, Mapping)]
