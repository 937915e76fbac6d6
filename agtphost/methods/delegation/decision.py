"""One hop of a delegation while it is decided on: who hands what to whom, and how it is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agtphost.audit.lifecycle import LifecycleState
from agtphost.errors import Refusal
from agtphost.handlers.peer_hosts import HostAnswer
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage
from agtphost.identity.keys import VerifyingKey
from agtphost.methods.delegation.task import Asked
from agtphost.vocabulary.reasons import ForeignReason, Reason

States = Callable[[Agent], LifecycleState]


@dataclass(frozen=True, kw_only=True)
class Forwarded:
    """A hop as it goes on to the host of its delegatee."""

    delegator: str
    """The Agent-ID to call as."""

    parameters: Mapping[str, Any]
    chain: Sequence[str]
    """The tokens of the hops before, first to last."""

    scope: Sequence[str]
    """What the delegator has here and now: the grant has to be a strict part of it over there as well."""

    task_id: str
    session_id: str
    fields: Sequence[tuple[str, str]]
    """Header fields that bound what is done, such as AGTP-Zone-ID."""


class RemoteHost(Protocol):
    """A different host that agents here may delegate to, and whose agents may delegate to agents here."""

    @property
    def server_id(self) -> str:
        """The host's own server ID."""

    @property
    def zone(self) -> str | None:
        """The governance zone that its agents are in, as far as this host's operator says."""

    @property
    def keys(self) -> Sequence[VerifyingKey]:
        """The keys with which the host signs tokens of its agents."""

    async def delegate(self, forwarded: Forwarded, seconds: float) -> HostAnswer:
        """
        Have it do a task.

        :raises agtphost.handlers.peer_hosts.HostUnreachable: it was not asked.
        :raises agtphost.handlers.peer_hosts.HostLost: it was asked, and did not answer within its time or at all.
        """


@dataclass(frozen=True, kw_only=True)
class Delegatee:
    """The agent that a task is handed to."""

    agent_id: str
    label: str
    """Its name below ``/agents/``; empty where it is on another host."""

    zone: str | None
    host: RemoteHost | None
    """The host it is on; None: this one."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """A delegation hop under decision."""

    asked: Asked
    delegator: Agent
    target: Delegatee
    before: Lineage | None
    """The delegation that the request itself runs under."""

    def record_members(self) -> dict[str, object]:
        """Return the members that records have about the hop, independent of its outcome."""
        return {
            "delegator": self.delegator.agent_id,
            "delegatee": self.target.agent_id,
            "scope": sorted(self.asked.scope),
            **({} if self.target.host is None else {"peer": self.target.host.server_id}),
        }

    def chain_broken(
        self,
        reason: Reason | ForeignReason,
        explanation: str | None = None,
        remedy: str | None = None,
        *,
        position: int,
        **more: object,
    ) -> Refusal:
        """Return refusal 551, naming the link (core v08 section 5.6)."""
        link = {"delegator": self.delegator.agent_id, "delegatee": self.target.agent_id, "position": position, **more}
        return Refusal(
            reason,
            explanation,
            remedy=remedy,
            details={"link": link},
            extra={"delegation": {**self.record_members(), "link": link}},
        )

    def cut(self, position: int, explanation: str) -> Refusal:
        """551 for a chain that cannot be followed."""
        return self.chain_broken(
            Reason.DELEGATION_CHAIN_BROKEN,
            explanation,
            position=position,
            fault="chain",
        )

    def delegation_failed(self, lineage: Lineage, error: Mapping[str, Any], explanation: str, remedy: str) -> Refusal:
        """Return refusal 550 with the sub-agent's own error (core v08 section 5.6)."""
        return Refusal(
            Reason.DELEGATION_FAILURE,
            explanation,
            remedy=remedy,
            details={"target_agent_id": self.target.agent_id, "sub_agent_error": dict(error)},
            extra={
                "delegation": {
                    **lineage.members(),
                    **({} if self.target.host is None else {"peer": self.target.host.server_id}),
                    "sub_agent_error": {
                        "status": error["status"],
                        "reason": error["reason"],
                        "audit_id": error["audit_id"],
                    },
                }
            },
        )

    @property
    def position(self) -> int:
        """The number of the hop in its chain, counted from 1, as far as the host itself knows."""
        return 1 if self.before is None else self.before.depth + 1
