"""Operators approve what an upstream says of itself after it changed: design decision 16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from agtphost.adapters.mcp.approval import require_digest
from agtphost.adapters.web.pins import Pins
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.vocabulary.status import Status


@implementer(IBuiltInHandler)
class Approve:
    """
    Answers ``a2a.card.approve`` and ``acp.agents.approve``.

    :param pins: those of the upstream.
    :param waiting: digests of what is off, by name; looked at when the request comes.
    """

    kind = "adapter"

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
        self._scope = f"{protocol}:upstreams:approve"

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Approve what is off, as it was looked at.

        :raises Refusal: 403 for everybody but operators; 422 without the digest of what was looked at; 409 where
            nothing is off, where it is another digest than that, and where the configuration names the digest.
        """
        approver = self._authorization.require(
            context, self._scope, "What upstreams say of themselves is approved by operators."
        )
        wanted = require_digest(context.input.get("sha256"))
        name = context.input.get("name", "")
        digest = self._waiting().get(name) if isinstance(name, str) else None
        if digest is None:
            raise self._conflict("nothing-to-approve", "Nothing of that name is off because it changed.")
        if self._pins.fixed(name):
            raise self._conflict(
                "pinned-by-configuration", "The configuration names the approved digest; it has to be changed there."
            )
        if wanted != digest:
            raise self._conflict("definition-changed-again", "The upstream says something else of itself by now.")
        change, event = self._pins.approval(name, digest, approver)
        result: dict[str, Any] = {"protocol": self._protocol.upper(), "upstream": self._upstream, "sha256": digest}
        if name:
            result["name"] = name
        return Answer(
            result={"approved": result}, changes=(change,), events=(event,), extra={"upstream_approved": result}
        )

    def _conflict(self, reason: str, explanation: str) -> Refusal:
        return Refusal(
            Status.CONFLICT,
            reason,
            explanation,
            remedy="agtp upstreams ls --json shows what waits for approval, and its SHA-256.",
            details={"upstream": self._upstream},
        )


def approve_binding(action: str, path: str, handler: IBuiltInHandler) -> Binding:
    """Operators are no agents, and scopes are for these: the handler decides by the certificate."""
    return Binding(
        method="EXECUTE",
        path=path,
        handler=handler,
        tier="B",
        name=action,
        scope_status=Status.SCOPE_VIOLATION,
        state_changing=True,
        details={"action": action},
    )
