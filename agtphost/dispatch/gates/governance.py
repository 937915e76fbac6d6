"""
Governance tokens: a governance platform's verdict on one action of one agent (companion section 8.2).

A token is in the body, as ``governance_token`` of ``context``, with any method. It is bound to the agent, the method,
the path and the parameters of the very request that it comes with, may narrow its scopes, and is used up by it, even if
the request fails. The use is durable before the action begins, so only one of two requests with one token acts,
concurrent ones and those after a crash included.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.interfaces import ILedger
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import IGate
from agtphost.dispatch.store_refusals import store_down
from agtphost.dispatch.used_tokens import UsedTokens
from agtphost.errors import Refusal
from agtphost.identity import delegation
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.delegation import DelegationError, GovernanceToken
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

MEMBER = "governance_token"
"""The member of ``context`` that has the token."""

SCOPE = "authority_scope"
"""The member of ``action`` that bounds what it may use, and describes nothing."""

USED = "governance-token-used"
"""The signed event that tells of a token's use."""


def parameters_digest(given: Mapping[str, Any]) -> str:
    """
    Return the ``action.parameters_digest`` of a request: ``sha256:`` over its canonical parameters (RFC 8785).

    :raises DelegationError: they have no canonical form.
    """
    try:
        return f"sha256:{sha256(canonical(given)).hexdigest()}"
    except CanonicalError as error:
        raise DelegationError("claims", f"the parameters have no canonical form: {error}") from None


class Governance:
    """
    Verifies governance tokens.

    :param issuers: the keys of the platforms that are believed, by their ``iss``.
    :param used: tokens that were used.
    :param server_id: what a token's ``aud`` has to be, where it has one.
    :param now: seconds since the epoch.
    """

    def __init__(
        self,
        issuers: Mapping[str, VerifyingKey],
        used: UsedTokens,
        server_id: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = issuers
        self._used = used
        self._server_id = server_id
        self._now = now

    def verdict(self, text: Any, agent_id: str, action: Mapping[str, str], *, bound: bool) -> GovernanceToken:
        """
        Verify a token against the action that it comes with; whether it says ALLOW is for the caller to see.

        :param agent_id: whose action it is.
        :param action: method, path and other members that describe it.
        :param bound: whether the token has to name all of ``action``; else what it names has to be right.
        :raises DelegationError: for one that proves nothing about it.
        """
        if not isinstance(text, str):
            raise DelegationError("malformed", "it is not a text")
        token = delegation.read_governance(text, self._issuers, self._now())
        if token.agent_id != agent_id:
            raise DelegationError("claims", "it was issued for another agent")
        if token.audience is not None and token.audience != self._server_id:
            raise DelegationError("audience", "it was issued for another host")
        for name in sorted(token.action.keys() - action.keys() - {SCOPE}):
            # What the platform decided on is not what this host understands, so it decided on something else.
            raise DelegationError("claims", f"action.{name[:64]} is not a part of this action")
        for name, value in action.items():
            missing = None if bound or name == "method" else value
            if token.action.get(name, missing) != value:
                raise DelegationError("claims", f"action.{name} is another")
        return token

    def find_use(self, token: GovernanceToken) -> str | None:
        """Return the request that used a token; None where it is unused."""
        return self._used.governance_used(token)

    def for_delegation(
        self, exchange: Exchange, agent_id: str, target: str, granted: frozenset[str], said: Mapping[str, object]
    ) -> Sequence[Change]:
        """
        Verify the token that comes with a DELEGATE, where there is one.

        :param target: the delegatee.
        :param granted: the scopes that the hop hands on.
        :param said: the members that records have of the hop.
        :return: the change that marks it as used, to be committed with the hop.
        :raises Refusal: 401 for one that proves nothing, 403 for a DENY, 262 for a grant beyond the verdict.
        """
        text = exchange.context.get(MEMBER)
        if text is None:
            return ()
        try:
            action = {
                "method": "DELEGATE",
                "path": exchange.path,
                "target_agent_id": target,
                "parameters_digest": parameters_digest(exchange.parameters),
            }
            token = self.verdict(text, agent_id, action, bound=False)
            if self.find_use(token) is not None:
                raise DelegationError("replayed", "it was used before")
        except DelegationError as error:
            raise invalid(error, {"delegation": said}) from None
        change = UsedTokens.governance_change(token, _mark(exchange))
        if not token.allowed:
            raise refuse_denied({"delegation": said}, change)
        excess = () if token.scope is None else scopes.missing(token.scope, sorted(granted))
        if excess:
            raise _refuse_excess(
                "authority_scope goes beyond what the governance token allows.", excess, {"delegation": said}, change
            )
        return (change,)


@implementer(IGate)
class GovernanceGate:
    """
    Holds every request that brings a governance token to its verdict; DELEGATE looks at its own.

    There is none on hosts that believe no platform.

    :param ledger: makes the use durable.
    """

    name = "governance"

    def __init__(self, governance: Governance, ledger: ILedger) -> None:
        self._governance = governance
        self._ledger = ledger

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        """
        Check the governance token of a request.

        :raises Refusal: 401 for a token that proves nothing, 403 for a DENY, 262 for too little scope, 503.
        """
        text = exchange.context.get(MEMBER)
        if text is None or exchange.method == "DELEGATE":
            return None
        return self._held_to(exchange, text)

    async def _held_to(self, exchange: Exchange, text: Any) -> None:
        agent_id = "" if exchange.caller is None else exchange.caller.agent_id
        request = exchange.request
        path = request.path if request.query is None else f"{request.path}?{request.query}"
        try:
            action = {
                "method": exchange.method,
                "path": path,
                "parameters_digest": parameters_digest(exchange.parameters),
            }
            token = self._governance.verdict(text, agent_id, action, bound=True)
            by = self._governance.find_use(token)
            if by is not None:
                if exchange.idempotency_key is not None and token.allowed and by == _mark(exchange):
                    # The same request under the same key: it is answered as it was, and acts no second time.
                    self._narrow(exchange, token)
                    return
                raise DelegationError("replayed", "it was used before")
        except DelegationError as error:
            raise invalid(error, {}) from None
        if token.allowed:
            self._narrow(exchange, token)
        await self._use(exchange, token, path)
        if not token.allowed:
            raise refuse_denied(_record_members(token))

    @staticmethod
    def _narrow(exchange: Exchange, token: GovernanceToken) -> None:
        """Narrow the scopes of the action to those of the verdict, which never adds any."""
        granted = token.scope
        if granted is None:
            return
        excess = scopes.missing(exchange.scopes, sorted(granted))
        binding = exchange.binding
        lacking = scopes.missing(granted, binding.required_scopes if binding is not None else ())
        if excess or lacking:
            raise _refuse_excess(
                "The governance token's authority_scope goes beyond what the caller has here and now."
                if excess
                else "The governance token's authority_scope does not cover what the endpoint requires.",
                excess or lacking,
                _record_members(token),
            )
        exchange.scopes = granted

    async def _use(self, exchange: Exchange, token: GovernanceToken, path: str) -> None:
        """Make it durable that the token is used, with a signed event that says for which request."""
        hashed = request_hash(exchange)
        event = StreamEvent(
            chain=HOST_CHAIN,
            event_type=USED,
            fields={
                "issuer": token.issuer,
                "token_id": token.token_id,
                "caller_id": token.agent_id,
                "verdict": "ALLOW" if token.allowed else "DENY",
                "method": exchange.method,
                "path": path,
                "request_hash": hashed,
            },
        )
        change = UsedTokens.governance_change(token, _mark(exchange))
        try:
            await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(change,), events=(event,)))
        except StaleChange:
            raise invalid(DelegationError("replayed", "it was used before"), _record_members(token)) from None
        except LedgerUnavailable:
            raise store_down() from None


def request_hash(exchange: Exchange) -> str:
    """Return the hash of the request, as its record has it."""
    return sha256(exchange.request.line + exchange.request.body).hexdigest()


def _mark(exchange: Exchange) -> str:
    """Return what identifies a request and its repetitions: its hash, and its Idempotency-Key."""
    return f"{request_hash(exchange)} {exchange.idempotency_key or ''}"


def _record_members(token: GovernanceToken) -> dict[str, object]:
    return {"governance": {"issuer": token.issuer, "token_id": token.token_id, "caller_id": token.agent_id}}


def _refuse_excess(explanation: str, missing: Sequence[str], said: Mapping[str, object], *changes: Change) -> Refusal:
    """Return a refusal with 262: the verdict, the caller's authority and the action do not fit together."""
    return Refusal(
        Reason.SCOPE_REQUIRED,
        explanation,
        status=Status.AUTHORIZATION_REQUIRED,
        remedy="Have the governance platform decide on what the agent has and the action needs.",
        details={"missing_scopes": list(missing)},
        changes=changes,
        extra=said,
        scopes=missing,
    )


def invalid(error: DelegationError, said: Mapping[str, object]) -> Refusal:
    """Return a refusal with 401: a failing token is rejected and recorded."""
    return Refusal(
        Reason.GOVERNANCE_TOKEN_INVALID,
        f"The governance token is not valid: {error}.",
        details={"fault": error.reason},
        extra=said,
    )


def refuse_denied(said: Mapping[str, object], *changes: Change) -> Refusal:
    """Return a refusal with 403: the platform's verdict is DENY."""
    return Refusal(Reason.GOVERNANCE_DENIED, changes=changes, extra=said)
