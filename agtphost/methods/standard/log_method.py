"""
LOG: an agent's own event in the signed chain (methods v01 section 5.9).

The event is a separate record in the host's chain, durable before the caller is answered; its Audit-ID is the
receipt. Data beyond what a record takes is there as its SHA-256: the caller keeps the data, and can show that it is
what was logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Draft, StreamEvent
from agtphost.dispatch.store_refusals import made_durable, taken_meanwhile
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext

EVENT = "agent-log"
SEVERITIES = ("info", "warning", "error", "critical")
MOST = 16_384
"""Octets of data that the record itself has, as RFC 8785 writes it."""

DEEPEST = jsontext.SIGNED_DEPTH - 1
"""The deepest nesting of arrays and objects: verifiers of the record read no more."""


@implementer(IBuiltInHandler)
class Logging:
    """The handler of LOG."""

    kind = "built_in"
    most_octets = 262_144
    """More numbers take so long to read and to write in their canonical form that other callers feel it."""

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the LOG call.

        :raises agtphost.errors.Refusal: 422 for what cannot be recorded, 503 where nothing can be made durable.
        """
        caller, given = owner_of(context), context.input
        event_type = parameters.identifier(given, "event_type")
        severity = parameters.choice(given, "severity", SEVERITIES, "info")
        correlation = parameters.text(given, "correlation_id")
        data, digest = await self._parts.offload(_encode_data, given)
        said = {"logged_type": event_type, "severity": severity, "data_sha256": digest}
        if correlation is not None:
            said["correlation_id"] = correlation
        fields = {"caller_id": caller.agent_id, "task_id": context.task_id or "", **said, **data}
        draft = Draft(
            chain=HOST_CHAIN,
            payload={},
            events=(StreamEvent(chain=HOST_CHAIN, event_type=EVENT, fields=fields),),
            standing=(caller.agent_id,),
            performed=True,
            proven=self._parts.authorization.find_caller(context) is not None,
        )
        exchange = context.invocation.exchange
        sealed = await made_durable(self._parts.ledger, exchange, draft, performed=False, taken=taken_meanwhile)
        exchange.for_lists.unpaid += len(sealed.jws)
        receipt = {"record_id": sealed.audit_id, "issued_at": sealed.issued_at, "data_sha256": digest}
        return Answer(
            result={**receipt, "event_type": event_type, "severity": severity, "recorded": _how(data)},
            extra={"logged": {"record_id": sealed.audit_id, **said}},
        )


def _encode_data(given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the recorded form of the data, and its SHA-256 in hex."""
    data = given.get("data")
    if data is None:
        raise parameters.invalid("data", "The parameter data is missing.", "Send data.", missing=True)
    try:
        octets = canonical(data)
    except CanonicalError as error:
        raise parameters.invalid(
            "data", f"data has no canonical form: {error}.", "Send numbers below 2**53, or as text."
        ) from None
    digest = sha256(octets).hexdigest()
    whole = len(octets) <= MOST and not jsontext.is_deep(data, DEEPEST)
    return ({"data": data} if whole else {"data_octets": len(octets)}), digest


def _how(data: Mapping[str, Any]) -> str:
    return "data" if "data" in data else "digest"
