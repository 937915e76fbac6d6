"""Resolve A2A payloads of EXECUTE: core v08 sections 7.2.8 and 8.4, adapters section 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.adapters.a2a import relay
from agtphost.adapters.a2a.agent import CARD, A2AAgent
from agtphost.adapters.a2a.bindings import (
    ACTIONS,
    CONTINUATION,
    MEMBER,
    PAYLOAD_TYPE,
    SEND,
    bindings_of,
    list_offered_actions,
)
from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.tasks import state_of, task_in
from agtphost.adapters.web_adapter import WebAdapter
from agtphost.contract.binding import Binding, Resolution
from agtphost.iagtp import IPayloadAdapter, IToolAddresses
from agtphost.upstream.cancellation import AlreadyOver
from agtphost.upstream.failures import ErrorAnswer
from agtphost.upstream.ownership import OwnedTask
from agtphost.vocabulary.a2a_errors import TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from agtphost.vocabulary.reasons import Reason


@implementer(IPayloadAdapter, IToolAddresses)
class A2AAdapter(WebAdapter[A2AAgent]):
    """The payload adapter for A2A agents."""

    name = "a2a"
    payload_types = frozenset({PAYLOAD_TYPE})
    member = MEMBER
    ambiguous = Reason.AMBIGUOUS_AGENT
    unknown = Reason.UNKNOWN_A2A_AGENT
    example = '{"agent": "NAME", "message": {"parts": [{"text": "..."}]}}'
    approve_action = "a2a.card.approve"
    actions = ACTIONS
    unlisted_actions = tuple(relay.ACTIONS)

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """Find the agent that a path or payload names; a payload without the message that lists require may go on."""
        found = super().resolve(action, payload, server)
        if action != SEND or "message" in found.input:
            return found
        return replace(found, binding=replace(found.binding, input_schema=CONTINUATION))

    def _bind(self, upstream: A2AAgent) -> Mapping[str, Binding]:
        return bindings_of(upstream, self._links)

    def _list_offered_actions(self, upstream: A2AAgent) -> Iterable[str]:
        return list_offered_actions(upstream)

    def _describe_for_manifest(self, upstream: A2AAgent) -> Mapping[str, object]:
        card, changed = upstream.card, {"changed_card": upstream.candidate is not None}
        if card is None:
            return changed
        return {
            **changed,
            "version": card.interface.version,
            "skills": list(card.skills),
            "card_sha256": card.digest,
            "card_trust": card.trust,
        }

    def _describe_for_operators(self, upstream: A2AAgent) -> Mapping[str, object]:
        return {
            "version": None if upstream.card is None else upstream.card.interface.version,
            "approved": {"card": upstream.pins.approved_digest(CARD)},
            "waiting_for_approval": {} if upstream.candidate is None else {"card": upstream.candidate.digest},
        }

    def definition(self, upstream: str, name: str) -> Mapping[str, Any] | None:
        """Return the approved and the present card of an agent; None for an unknown agent."""
        agent = self.by_name.get(upstream)
        if agent is None or name != CARD:
            return None
        card = agent.candidate or agent.card
        return agent.pins.describe(CARD, None if card is None else card.pinned)

    async def end(self, link: OwnedTask) -> str:
        """
        Cancel a task of any owner at the upstream, and return its state.

        :raises agtphost.upstream.failures.UpstreamFailure: for every other outcome; :class:`AlreadyOver` where there is
            nothing to cancel.
        """
        agent = self._upstream_of(link)
        try:
            result = await agent.ask(A2aOperation.CANCEL, {"id": link.remote_id}, agent.settings.timeout)
        except ErrorAnswer as error:
            if error.error.get("code") in (TASK_NOT_FOUND, TASK_NOT_CANCELABLE):
                raise AlreadyOver(str(error)) from None
            raise
        return state_of(task_in(result))
