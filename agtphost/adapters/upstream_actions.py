"""The common part of the actions of A2A agents and ACP servers: time limits, failures and bindings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError

from agtphost.adapters import precedence
from agtphost.adapters.callers import caller_of
from agtphost.contract.binding import Binding
from agtphost.contract.carried_call import CarriedCall
from agtphost.contract.schemas import CompiledSchema
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.handlers.context import LAST_WORD
from agtphost.upstream.failures import CallCancelled, UpstreamFailure
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.refusals import refusal
from agtphost.upstream.web_upstream import WebUpstream
from agtphost.vocabulary.status import Status

T = TypeVar("T")


class UpstreamAction:
    """
    The base class of the handlers of the actions of one A2A agent or ACP server.

    :param upstream: makes the calls.
    :param links: the tasks at upstreams, by the callers that own them.
    """

    kind = ""
    """The name of the protocol."""

    remote_id_member = ""
    """The member of results and records that has the upstream's own name of a task."""

    def __init__(self, upstream: WebUpstream, links: TaskOwnership) -> None:
        self._upstream = upstream
        self._links = links
        self._name: str = upstream.settings.name

    def _seconds(self, context: BuiltInContext) -> float:
        seconds: float = self._upstream.settings.timeout
        if context.deadline:
            seconds = min(seconds, context.deadline - LAST_WORD - self._upstream.seconds())
        return seconds

    async def _await_outcome(self, call: Awaitable[T], link: Callable[[], OwnedTask | None] = lambda: None) -> T:
        """
        Return the result of a call.

        :param link: returns the task that the call is about, if it is known when the call fails.
        :raises Refusal: see :mod:`agtphost.upstream.refusals`.
        """
        try:
            return await call
        except UpstreamFailure as failure:
            raise self._to_refusal(failure, link()) from failure
        except CancelledError:
            raise self._to_refusal(CallCancelled(), link()) from None

    async def _await_description(self, context: BuiltInContext) -> None:
        """Wait until the upstream has described itself."""

        async def nothing(seconds: float) -> None:
            return None

        await self._await_outcome(self._upstream.call(self._seconds(context), nothing, caller_of(context)))

    def _to_refusal(self, failure: UpstreamFailure, link: OwnedTask | None = None) -> Refusal:
        details = {} if link is None else {"task_id": link.task_id, self.remote_id_member: link.remote_id}
        self._upstream.say(f"a call failed: {failure}")
        return refusal(self.kind, self._name, failure, details)

    def _note(self, contradicted: tuple[str, ...], context: BuiltInContext) -> dict[str, object]:
        return precedence.log_contradiction(self._upstream.say, context, contradicted)


def action_binding(
    upstream: WebUpstream,
    action: str,
    handler: IBuiltInHandler,
    *,
    what: str,
    description: str,
    capability: str,
    schema: CompiledSchema | None,
    digest: str,
    outcome: str = "",
    confidence: float = 0.9,
    extra: Mapping[str, object],
    payload_type: str,
    member: str,
    known: bool = True,
) -> Binding:
    """
    Return an action as a binding, so that the gates decide about it by the operator's settings.

    :param what: what the action does.
    :param capability: ``retrieval``, ``modification`` or ``transaction``.
    :param digest: the digest of the action's definition.
    :param outcome: a sentence; empty: ``what``.
    :param member: the member of the payload that names the upstream.
    :param known: whether the upstream has described itself.
    """
    settings: Any = upstream.settings
    reading = capability == "retrieval"
    approval = settings.approval is not None and capability == "transaction"

    async def find_out() -> None:
        async def nothing(seconds: float) -> None:
            return None

        await upstream.call(settings.start_timeout, nothing)

    return Binding(
        method="EXECUTE",
        path=f"/{upstream.protocol}/{settings.name}",
        handler=handler,
        tier="B",
        name=f"{settings.name}.{action}",
        description=description,
        required_scopes=settings.scopes,
        scope_status=Status.SCOPE_VIOLATION,
        min_assurance=settings.min_assurance,
        input_schema=schema,
        idempotent=reading,
        state_changing=not reading,
        timeout=settings.timeout,
        approval=approval,
        unknown=None if known else find_out,
        call=CarriedCall(action=action, payload_type=payload_type, upstream_member=member),
        extra=extra,
        details={
            **({"approval": "required"} if approval else {}),
            "action": action,
            "payload_type": payload_type,
            "input_schema": schema.schema if schema is not None else {"type": "object"},
            "definition_digest": digest,
            "semantic": {
                "intent": f"{what}.",
                "actor": "agent",
                "outcome": outcome or f"{what}.",
                "capability": capability,
                "confidence": confidence,
                "impact": {"retrieval": "informational", "modification": "reversible"}.get(capability, "irreversible"),
                "is_idempotent": reading,
            },
        },
    )
