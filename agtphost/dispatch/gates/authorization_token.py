"""
The gate of tokens that AUTHORIZE gave: methods v01 sections 5.4 and 10.2, companion section 8.1.

Theory of operation. Such a token is proof of a state item, which was committed with the record of the AUTHORIZE and is
the truth about it: it is found by the SHA-256 of the whole token, so that only the very token that was issued is
accepted, and CANCEL ends it by changing the item. Under it the caller has only the granted scope, reduced to what its
grantor has at this moment, and may only call what the grant names. When the grantor is stopped, so are its grants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateTable
from agtphost.contract.rights import GrantSet
from agtphost.dispatch.authority import intersect
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.dispatch.rights import Narrowings
from agtphost.dispatch.token_authority import Granted
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage, digest_of
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.quotas import AUTHORIZATION
from agtphost.vocabulary.reasons import Reason

HEADER = "delegation-token"
IN_FORCE, CANCELLED = "active", "cancelled"


def grant_id_of(digest: str) -> str:
    """Return the identifier of a token's grant, by the SHA-256 of the token."""
    return f"azn-{digest[:32]}"


@implementer(ICacheableGate)
class GrantedGate:
    """
    Finds the grant behind ``Delegation-Token``, and has the request run under it.

    :param states: the present state of an agent.
    :param narrowings: what the host lets an agent call at most.
    :param now: seconds since the Unix epoch, by which the grants were made.
    """

    name = "authorization by another agent"

    def __init__(
        self,
        held: StateTable,
        directory: IAgentDirectory,
        states: Callable[[Agent], LifecycleState],
        narrowings: Narrowings = lambda agent_id: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._held = held
        self._directory = directory
        self._states = states
        self._narrowings = narrowings
        self._now = now

    def check(self, exchange: Exchange) -> None:
        """
        Take over the grant whose token a request presents.

        :raises Refusal: 401 where the caller's assurance is too low, 551 for a token that is not in force.
        """
        text = exchange.peer.granted or exchange.request.headers.get(HEADER)
        if text is None:
            return
        caller = exchange.caller
        if caller is None or exchange.assurance is not Assurance.CERTIFICATE:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                "Delegation-Token is accepted only from an agent that connects with its client certificate.",
                remedy="Connect with the client certificate of the agent that the grant is for.",
            )
        digest = digest_of(text)
        item = self._held.get(AUTHORIZATION, grant_id_of(digest))
        value: Mapping[str, Any] = {} if item is None else item.value
        if value.get("token_hash") != digest or value["state"] != IN_FORCE:
            raise Refusal(
                Reason.DELEGATION_TOKEN_INVALID,
                "Delegation-Token does not belong to a grant of this host that is in force.",
                remedy="Ask the grantor to AUTHORIZE again.",
            )
        if value["subject"] != caller.agent_id:
            raise Refusal(Reason.DELEGATION_TOKEN_MISMATCH, "Delegation-Token was issued to another agent.", remedy="")
        if not value["not_before"] <= self._now() < value["expires_at"]:
            raise Refusal(Reason.DELEGATION_TOKEN_EXPIRED, "The grant is not in force at this time.", remedy="")
        grantor = self._directory.by_id(value["grantor"])
        if grantor is None or self._states(grantor).is_stopped:
            raise Refusal(
                Reason.DELEGATION_CHAIN_BROKEN,
                "The agent that gave the grant was stopped.",
                remedy="Ask another agent to AUTHORIZE.",
            )
        if (own := self._narrowings(grantor.agent_id)) is not None:
            exchange.narrowings = (*exchange.narrowings, own)
        exchange.granted = _build_grant(value, grantor, text)

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a request without a grant."""
        return () if exchange.granted is None else None


def _build_grant(value: Mapping[str, Any], grantor: Agent, token: str) -> Granted:
    scopes = intersect(frozenset(value["scope"]), grantor.scopes)
    return Granted(
        grant_id=value["grant_id"],
        lineage=Lineage(
            chain=(value["grantor"], value["subject"]),
            scope=scopes,
            token=value["token_hash"],
            audit_id=value["audit_id"],
            calls=0,
            expires_at=int(value["expires_at"]),
        ),
        scopes=scopes,
        bound=GrantSet(value["grantor"], frozenset(value["resource"])),
        token=token,
    )
