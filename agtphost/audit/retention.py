"""
What stays of an agent that was revoked or deprecated, for how long, and when its label is free (core v08 section 11.7).

The record is a state item that never expires, put in the transaction of the
transition: it does not need the agent's files any more. Nothing in this
program removes one, nor any event; the periods below are what an operator
who archives a store has to keep to.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.identity.agents import Agent
from agtphost.vocabulary import times

RETAINED = "retained-agent"
"""The kind of state item."""

LABEL_DAYS = 90
"""From the end of an agent until its label can be used again (core v08 section 6.5)."""

YEARS: Mapping[LifecycleStatus, int] = {LifecycleStatus.RETIRED: 10, LifecycleStatus.DEPRECATED: 7}
"""From the transition, at the least. Of active and suspended agents: from the end of that state, 7."""


def retention_changes(
    agent: Agent, status: LifecycleStatus, fields: Mapping[str, object], now: float
) -> tuple[Change, ...]:
    """
    Return the changes that are committed with a transition to Revoked or Deprecated; none for any other.

    Without packages, sessions and scope grants; the Genesis is in it as it was loaded.

    :param fields: of the event: reason, actor, actor_key.
    :param now: seconds since the Unix epoch.
    """
    if status not in YEARS:
        return ()
    genesis = agent.genesis
    value = {
        "agent_id": agent.agent_id,
        "label": agent.name,
        "hosted": agent.hosted,
        "owner_id": agent.owner_id or "",
        "org_domain": str(agent.received.get("org_domain", "")),
        "principal": agent.principal,
        "trust_tier": agent.posture.trust_tier,
        "verification_path": agent.posture.verification_path,
        "status": status.value,
        "ended_at": times.stamp(now),
        "reason": str(fields.get("reason", "")),
        "initiator": str(fields.get("actor", "")),
        "initiator_key": str(fields.get("actor_key", "")),
        "genesis": "" if genesis is None else genesis.octets.decode("utf-8"),
        "genesis_sha256": "" if genesis is None else sha256(genesis.octets).hexdigest(),
        "keep_until": times.stamp(years_after(now, YEARS[status])),
    }
    return (Change(kind=RETAINED, key=agent.agent_id, value=json.loads(json.dumps(value))),)


def reserved_by(
    label: str, agent_id: str, records: Iterable[Mapping[str, Any]], now: float
) -> Mapping[str, Any] | None:
    """
    Return the ended agent that still reserves a label: another Agent-ID, ended less than 90 days ago.

    :param records: values of state items of the kind :data:`RETAINED`.
    :param now: seconds since the Unix epoch.
    """
    for value in records:
        if value["label"] == label and value["agent_id"] != agent_id and value["hosted"] and now < free_at(value):
            return value
    return None


def free_at(value: Mapping[str, Any]) -> float:
    """Return when the label of a retained agent can be used again, in seconds since the Unix epoch."""
    return (datetime.fromisoformat(value["ended_at"]) + timedelta(days=LABEL_DAYS)).timestamp()


def years_after(moment: float, years: int) -> float:
    """Return the same day some years later; 28 February in place of a 29 February that is missing."""
    day = datetime.fromtimestamp(moment, UTC)
    last = calendar.monthrange(day.year + years, day.month)[1]
    return day.replace(year=day.year + years, day=min(day.day, last)).timestamp()
