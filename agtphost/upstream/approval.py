"""
Let operators approve an upstream's definitions that changed: design decision 16.

An approval names the digest of the definition that was looked at, so that a later change is not approved with it; it is
committed with the answer, and with its event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.upstream.pins import Pins
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status


@implementer(IBuiltInHandler)
class ApproveDefinition:
    """
    The handler of ``a2a.card.approve`` and ``acp.agents.approve``.

    :param protocol: ``a2a`` or ``acp``.
    :param upstream: the upstream's configured name.
    :param pins: the approved digests of the upstream's definitions.
    :param waiting: returns the present digests of the definitions that are switched off until they are approved, by
        name.
    :param authorization: decides who may approve.
    """

    kind = "adapter"
    scope = ""
    """The scope of agents that may approve."""

    refusal_text = "Only operators can approve the definitions of upstreams."

    def __init__(
        self,
        protocol: str,
        upstream: str,
        pins: Pins,
        waiting: Callable[[], Mapping[str, str]],
        authorization: Authorization,
    ) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._pins = pins
        self._waiting = waiting
        self._authorization = authorization

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Approve a definition that is off, by the digest that was looked at.

        :raises Refusal: 403 for all but operators; 422 without a digest; 409 where nothing is off, where the present
            digest is another one, and where the configuration sets the digest.
        """
        scope = self.scope or f"{self._protocol}:upstreams:approve"
        approver = self._authorization.require(context, scope, self.refusal_text)
        wanted = require_digest(context.input.get("sha256"))
        name, digest = self._find_definition(context)
        if self._pins.is_fixed(name) and self._pins.approved_digest(name) != digest:
            raise self._conflict(Reason.PINNED_BY_CONFIGURATION, None, name, digest)
        if wanted != digest:
            said = "The upstream has changed its definition again."
            raise self._conflict(Reason.DEFINITION_CHANGED_AGAIN, said, name, digest)
        changes, event = self._pins.approval(name, digest, approver)
        result, record = self._make_result(name, digest)
        return Answer(result=result, changes=changes, events=(event,), extra=record)

    def _find_definition(self, context: BuiltInContext) -> tuple[str, str]:
        """Return the name of what is to be approved, and its present digest."""
        name = context.input.get("name", "")
        digest = self._waiting().get(name) if isinstance(name, str) else None
        if digest is None:
            raise self._conflict(Reason.NOTHING_TO_APPROVE, None, "", "")
        return name, digest

    def _make_result(self, name: str, digest: str) -> tuple[Mapping[str, Any], Mapping[str, object]]:
        """Return the result, and the members of its record."""
        result = {"protocol": self._protocol.upper(), "upstream": self._upstream, "sha256": digest}
        if name:
            result["name"] = name
        return {"approved": result}, {"upstream_approved": result}

    def _conflict(self, reason: Reason, explanation: str | None, name: str, digest: str) -> Refusal:
        pinned = reason is Reason.PINNED_BY_CONFIGURATION
        return Refusal(
            reason,
            explanation,
            remedy=None if pinned else "agtp upstreams ls --json shows what waits for approval, and its SHA-256.",
            details={"upstream": self._upstream},
        )


def require_digest(shown: object) -> str:
    """
    Return the digest that an approval names.

    :raises Refusal: 422 where it is missing or malformed.
    """
    if isinstance(shown, str) and len(shown) == 64 and not set(shown) - set("0123456789abcdef"):
        return shown
    raise Refusal(
        Reason.MISSING_PARAMETER if shown is None else Reason.INVALID_PARAMETER,
        "An approval names the definition that was looked at: sha256, 64 hexadecimal digits in lower case.",
        remedy="INSPECT with target upstream-definition shows it; agtp tools approve and agtp upstreams approve do so.",
        details={"parameter": "sha256", "parameters": ["sha256"]},
    )


def approve_binding(action: str, path: str, handler: IBuiltInHandler) -> Binding:
    """
    Return the binding of an approval. Scopes are for agents, so the handler authorizes operators by their certificate.
    """
    return Binding(
        method="EXECUTE",
        path=path,
        handler=handler,
        tier="B",
        name=action,
        scope_status=Status.SCOPE_VIOLATION,
        operators=True,
        state_changing=True,
        details={"action": action},
    )
