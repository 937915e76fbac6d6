"""Authority-Scope: what a caller claims of what it was granted (core v08 section 5.5)."""

from __future__ import annotations

from collections import OrderedDict

from zope.interface import implementer

from agtphost.dispatch import authority
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.iagtp import IGate
from agtphost.vocabulary import scopes
from agtphost.vocabulary.holdings import CLAIMS, LONGEST_CLAIM
from agtphost.vocabulary.status import Status

_Claim = tuple[frozenset[str], str | None, frozenset[str] | None]
"""What the agent was granted, what it claims, and what its certificate commits it to."""


@implementer(IGate)
class ClaimedScopesGate:
    """Works out the effective scopes; a claim beyond what was granted is refused, 262 or 455."""

    name = "claimed scopes"

    def __init__(self) -> None:
        self._memo: OrderedDict[str, OrderedDict[_Claim, frozenset[str]]] = OrderedDict()
        self._remembered = 0

    def check(self, exchange: Exchange) -> None:
        claim = exchange.request.headers.get("authority-scope")
        caller = exchange.caller
        if caller is None:
            if claim is not None:
                self._parse(claim)
            return
        certificate = exchange.peer.certificate
        committed = certificate.commitment if certificate is not None and certificate.agent_id else None
        key = (caller.scopes, claim, committed)
        own = self._memo.get(caller.agent_id)
        known = None if own is None else own.get(key)
        if known is None:
            claimed = None if claim is None else self._parse(claim)
            known = authority.effective_scopes(caller.scopes, committed, claimed)
            if claim is None or len(claim) <= LONGEST_CLAIM:
                self._remember(caller.agent_id, key, known)
        exchange.scopes = known

    def _remember(self, agent_id: str, key: _Claim, effective: frozenset[str]) -> None:
        """A few claims of each agent: whoever claims something new each time pushes out its own ones alone."""
        own = self._memo.setdefault(agent_id, OrderedDict())
        own[key] = effective
        self._remembered += 1
        if len(own) > CLAIMS.most_of_one:
            own.popitem(last=False)
            self._remembered -= 1
        while self._remembered > CLAIMS.in_all:
            _, pushed_out = self._memo.popitem(last=False)
            self._remembered -= len(pushed_out)

    @staticmethod
    def _parse(claim: str) -> frozenset[str]:
        try:
            return scopes.parse(claim)
        except scopes.ScopeError as error:
            raise Refusal(
                Status.BAD_REQUEST,
                "invalid-authority-scope",
                f"Authority-Scope is malformed: {error}.",
                remedy="Send comma-separated tokens such as documents:query.",
            ) from None
