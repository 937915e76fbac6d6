"""
Shares of the operator's inbox, by the sender's owner: no sender can fill it alone.

Agents are cheap, owners are not: all agents of one owner have one share together. Critical messages have reserved
places after those, and so have the hosts that report about their agents and certificates (core v08 section 7.2.16):
however much others send, theirs arrives.
"""

from __future__ import annotations

from collections.abc import Iterable

from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.vocabulary.reasons import Reason

ORDINARY = 500
"""Unread messages to the operator that are not critical, of all senders."""

ORDINARY_OF_AN_OWNER = 100
"""Of all agents of one owner."""

CRITICAL = 600
"""Places for critical ones besides."""

CRITICAL_OF_AN_OWNER = 100

OF_HOSTS = 200
"""Places for what the hosts in ``[lifecycle] hosts`` tell, besides."""

OF_A_HOST = 100


LITTLE = 200
LITTLE_OCTETS = 131_072
"""Items of a kind, and octets, of which a list is made without others having their turn."""


def is_little(held: StateTable, kind: str) -> bool:
    """Return whether items of a kind are few enough to list on the reactor thread."""
    return held.count(kind) <= LITTLE and held.octets(kind) <= LITTLE_OCTETS


def share_of(sender: Agent) -> str:
    """Return the share that a sender's message uses: its owner's, or its own where it has no owner."""
    return sender.owner_id or sender.principal or sender.agent_id


def require_share(unread: Iterable[StateItem], whose: str, places: str) -> None:
    """
    Require that the operator's inbox accepts one more message of an owner.

    :param unread: what is in it.
    :param whose: the share that it would take.
    :param places: ``ordinary``, ``critical`` or ``host``: see :func:`places_of`.
    :raises Refusal: 429, naming the share that is used up.
    """
    every, most = {
        "host": (OF_HOSTS, OF_A_HOST),
        "critical": (CRITICAL, CRITICAL_OF_AN_OWNER),
        "ordinary": (ORDINARY, ORDINARY_OF_AN_OWNER),
    }[places]
    taken = own = 0
    for item in unread:
        if item.brief.get("places", "ordinary") == places:
            taken += 1
            own += item.brief.get("sender_owner") == whose
    if own < most and taken < every:
        return
    mine = own >= most
    raise Refusal(
        Reason.OWNER_SHARE_USED if mine else Reason.INBOX_FULL,
        f"The operator has {most if mine else every} unread {places} messages"
        f"{' of this owner and its agents' if mine else ''}, and takes no more before some of them are read.",
        remedy=f"Try again later{'; critical messages have separate places' if places == 'ordinary' else ''}.",
        details={"scope": "owner" if mine else "operator", "places": places, "limit": most if mine else every},
        headers=(("Retry-After", "60"),),
    )


def places_of(*, critical: bool, host: bool) -> str:
    """Return which reserved places a message to the operator uses."""
    return "host" if host else "critical" if critical else "ordinary"
