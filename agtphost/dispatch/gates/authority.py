"""
The gates of authority: anonymous callers, the scopes that Authority-Scope claims, the scopes that a binding requires.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.dispatch import authority
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.dispatch.right_cures import add_claim_cure, add_cure, name_lacking, require_assurance
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import is_unseen
from agtphost.vocabulary import scopes
from agtphost.vocabulary.quotas import CLAIMS, LONGEST_CLAIM
from agtphost.vocabulary.reasons import ForeignReason, Reason

_Claim = tuple[frozenset[str], str | None, frozenset[str] | None]
"""What the agent was granted, what it claims, and what its certificate commits it to."""


@implementer(ICacheableGate)
class AnonymousGate:
    """
    A caller without a name gets no further than what is open to everyone: 401 (AGTP-029).

    An operator is not an agent, and may call what is for operators; a person of ``[notify]``, what is for people.
    A caller known by a header alone gets what a caller without a name gets, where that gets anything.

    :param floor: how surely a caller of what changes state must be known.
    """

    name = "anonymous"

    def __init__(self, authorization: Authorization, floor: Assurance = Assurance.CERTIFICATE) -> None:
        self._authorization = authorization
        self._floor = floor

    def check(self, exchange: Exchange) -> None:
        exchange.operator = exchange.caller is None and self._authorization.acts_as_operator(exchange.peer)
        exchange.person = exchange.caller is None and self._authorization.is_person(exchange.peer)
        if exchange.caller is None or exchange.peer.rights_of:
            known = self._authorization.operators.find(exchange.peer)
            exchange.call.operator = "" if known is None else known.name
        binding = exchange.binding
        if binding is None:
            return
        if exchange.assurance is Assurance.NONE and binding.min_assurance:
            require_assurance(exchange, binding)
        elif exchange.assurance is Assurance.HEADER and is_unseen(
            exchange.assurance, binding.min_assurance, self._floor, changes=binding.state_changing
        ):
            exchange.unseen, exchange.nameless = True, self._floor > Assurance.HEADER

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a caller with a name."""
        return None if exchange.caller is None else ()


@implementer(ICacheableGate)
class ClaimedScopesGate:
    """
    Works out the effective scopes; a claim beyond what was granted is refused, 262 or 455.

    A caller known by a header alone that claims too much has no scopes, as a caller without a name, where headers are
    not trusted: it must not learn what the named agent was granted, and lists show it what it may call.

    :param floor: how surely a caller of what changes state must be known. Headers are trusted where it is ``header``.
    """

    name = "claimed scopes"

    def __init__(self, floor: Assurance = Assurance.CERTIFICATE) -> None:
        self._floor = floor
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
        declared = caller.scopes
        committed = certificate.commitment if certificate is not None and certificate.agent_id else None
        if exchange.granted is not None:
            # The grantor's authority: its own certificate bounded it when it was granted.
            declared, committed = exchange.granted.scopes, None
        key = (declared, claim, committed)
        # A caller that only names the agent must not evict the agent's own claims.
        who = caller.agent_id if exchange.assurance is Assurance.CERTIFICATE else exchange.owner
        own = self._memo.get(who)
        known = None if own is None else own.get(key)
        if known is None:
            claimed = None if claim is None else self._parse(claim)
            try:
                known = authority.effective_scopes(declared, committed, claimed)
            except Refusal as refusal:
                if exchange.assurance is Assurance.HEADER and self._floor > Assurance.HEADER:
                    return
                add_claim_cure(exchange, refusal)
                raise
            if claim is None or len(claim) <= LONGEST_CLAIM:
                self._remember(who, key, known)
        exchange.scopes = known

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """
        Keep the verdict without a grant: declared, claimed and committed scopes depend on agent, head and peer only.
        """
        return None if exchange.caller is None or exchange.granted is not None else ()

    def _remember(self, owner: str, key: _Claim, effective: frozenset[str]) -> None:
        """Remember a few claims of each agent: new claims only evict those of the same agent."""
        own = self._memo.setdefault(owner, OrderedDict())
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
            raise Refusal(Reason.INVALID_AUTHORITY_SCOPE, f"Authority-Scope is malformed: {error}.") from None


@implementer(ICacheableGate)
class AuthorityGate:
    """
    The binding is this agent's, its scopes are held, and the caller is known surely enough.

    :param name: of the gate. The gate occurs twice in the order: before the body is read, so that only allowed callers'
        bodies are parsed; and after it, where the body of an EXECUTE has named another binding.
    :param behind_body: which of the two it is.
    """

    def __init__(self, name: str = "required scopes and assurance", *, behind_body: bool = False) -> None:
        self.name = name
        self._behind_body = behind_body

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None:
            raise Refusal(Reason.NOT_FOUND, "The host has no handler for the request.")
        exchange.call.bound = binding
        if binding is exchange.admitted:
            if self._behind_body and exchange.doubted is not None:
                raise exchange.doubted
            return
        try:
            if not authority.is_plainly_allowed(exchange, binding):
                for check in authority.CHECKS:
                    check(exchange, binding)
        except Refusal as refusal:
            if binding.alike is not None:
                self._require_alike(exchange, binding.alike, _reason_to_hide(exchange, binding, refusal))
            add_cure(exchange, binding, refusal)
            raise
        if binding.missing is not None:
            self._require_present(exchange, binding)
        exchange.admitted = binding
        if self._behind_body and exchange.doubted is not None:
            raise exchange.doubted

    def _require_alike(self, exchange: Exchange, alike: Binding, reason: Reason | ForeignReason) -> None:
        """
        Refuse as what doesn't exist would, unless the caller may use the neighbours of what it asked for.

        :param reason: why the call itself may not be made.
        :raises Refusal: that of the last in the row that refuses, or that nothing is there.
        """
        while True:
            try:
                for check in authority.CHECKS:
                    check(exchange, alike)
            except Refusal as refusal:
                if alike.alike is None:
                    add_cure(exchange, alike, refusal)
                    raise
                alike = alike.alike
            else:
                if alike.covers is None or reason in alike.covers:
                    self._require_present(exchange, alike)
                break

    @staticmethod
    def _require_present(exchange: Exchange, binding: Binding) -> None:
        if binding.missing is not None:
            refusal = binding.missing(lambda other: authority.admits(exchange, other))
            name_lacking(exchange, refusal)
            raise refusal

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Agents, scopes and assurance are what they were; of who is narrowed, nothing is kept."""
        if exchange.granted is not None or exchange.narrowings:
            return None
        return () if not self._behind_body or exchange.is_binding_final else None


def _reason_to_hide(exchange: Exchange, binding: Binding, refusal: Refusal) -> Reason | ForeignReason:
    """
    Return the reason that decides whether a call is answered as one of a name that does not exist.

    No right helps a caller who is not known surely enough. So missing assurance counts first, even if the refusal is
    about scopes: a caller who may not list a tool does not learn from its scopes that it exists.
    """
    try:
        authority.require_assurance(exchange, binding)
    except Refusal as doubted:
        return doubted.reason
    return refusal.reason
