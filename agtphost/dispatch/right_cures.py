"""Add to a refusal of the gates of authority the command that gives the right: see :mod:`agtphost.dispatch.cures`."""

from __future__ import annotations

from typing import Final

from agtphost.contract.binding import Binding
from agtphost.contract.rights import CARRIER
from agtphost.dispatch import authority, cures
from agtphost.dispatch.authority import effective_scopes, is_nameless
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import NamingRefusal, Refusal
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import is_believed
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason

_RIGHTS: Final = (Reason.SCOPE_REQUIRED, Reason.GRANT_REQUIRED)
"""Reasons for which a right is given, of those whose refusals end in a command."""


def add_cure(exchange: Exchange, binding: Binding, refusal: Refusal) -> None:
    """
    Add to a refusal what helps its caller, and for an operator the one command that gives the right.

    :param binding: what refuses: what was asked for, or its placeholder where its caller must not learn about it.
    """
    if binding.absent and refusal.reason in _RIGHTS:
        # No right helps: a call with it is refused too, and no grant can name what lists leave out.
        refusal.remedy = (
            f"No endpoint of this host answers {binding.method}: its operator would bind an endpoint to it."
        )
    elif refusal.reason is Reason.SCOPE_REQUIRED:
        _cure_scopes(exchange, binding, refusal)
    elif refusal.reason is Reason.GRANT_REQUIRED:
        _cure_grant(exchange, binding, refusal)
    elif refusal.reason is Reason.AGENT_UNAUTHENTICATED:
        _cure_assurance(exchange, binding, refusal)


def require_assurance(exchange: Exchange, binding: Binding) -> None:
    """
    Check the caller's assurance as :func:`agtphost.dispatch.authority.require_assurance` does, for a request at hand.

    :raises Refusal: as that does, with what helps.
    """
    try:
        authority.require_assurance(exchange, binding)
    except Refusal as refusal:
        add_cure(exchange, binding, refusal)
        raise


def add_claim_cure(exchange: Exchange, refusal: Refusal) -> None:
    """Add to the refusal of a claim beyond what the caller has the command that gives it what it claims."""
    caller = exchange.caller
    if caller is None or _acts_for_others(exchange):
        return
    _add(refusal, f"{refusal.remedy.removesuffix('.')}; an operator can give them", *_allow(exchange, refusal.scopes))


def name_lacking(exchange: Exchange, refusal: Exception) -> None:
    """
    Name in the refusal of an unknown name the scopes that its caller lacks for some of the names that there are.

    The text depends on the caller alone, so that a name which the caller is not shown answers as one that does not
    exist.
    """
    caller = exchange.caller
    if not isinstance(refusal, NamingRefusal) or caller is None or _acts_for_others(exchange):
        return
    lacking = scopes.missing(exchange.scopes, sorted(refusal.asked))
    if lacking and is_believed(exchange.assurance):
        refusal.remedy = f"{refusal.remedy} {cures.lacking(caller, lacking)}"


def _acts_for_others(exchange: Exchange) -> bool:
    """Return whether the rights of a call are those that another agent handed on."""
    return exchange.lineage is not None or exchange.granted is not None


def _allow(exchange: Exchange, things: tuple[str, ...]) -> tuple[str, ...]:
    caller = exchange.caller
    return () if caller is None else cures.allow(cures.name_of(exchange, caller), things)


def _add(refusal: Refusal, remedy: str, *command: str) -> None:
    """Have a refusal end in a command, if there is one."""
    if command:
        cures.add(refusal, remedy, command[0])


def _cure_scopes(exchange: Exchange, binding: Binding, refusal: Refusal) -> None:
    caller, lacking = exchange.caller, refusal.scopes
    if caller is None or is_nameless(exchange, binding):
        # The same for a caller without a name and for every Agent-ID: whether it is known is not revealed.
        if exchange.peer.certificate is None:
            remedy = "Call as an agent that has the scopes; an operator issues one"
            cures.add(refusal, remedy, cures.issue(lacking))
        return
    if _acts_for_others(exchange):
        refusal.remedy = "Call without the delegation, or have it hand on the missing scopes."
        return
    certificate = exchange.peer.certificate
    committed = certificate.commitment if certificate is not None and certificate.agent_id else None
    if not scopes.missing(effective_scopes(caller.scopes, committed, None), lacking):
        # The agent has them: this request claims less, or a token gives it less.
        refusal.remedy = "Claim the missing scopes in Authority-Scope, or leave the header out."
        return
    named = cures.grant_of(binding) if binding.tier != "C" else ()
    _add(refusal, "An operator can allow it", *_allow(exchange, named or lacking))


def _cure_grant(exchange: Exchange, binding: Binding, refusal: Refusal) -> None:
    limited, caller = str(refusal.details["agent_id"]), exchange.caller
    name = limited
    if caller is not None and caller.agent_id == limited:
        name = cures.name_of(exchange, caller)
    _add(refusal, "An operator can allow it", *cures.allow(name, cures.grant_of(binding)))


def _cure_assurance(exchange: Exchange, binding: Binding, refusal: Refusal) -> None:
    certificate = exchange.peer.certificate
    if exchange.assurance is Assurance.HEADER and exchange.agent_id is not None:
        # The same for every Agent-ID: whether it is known is not revealed.
        cures.add(refusal, refusal.remedy.removesuffix("."), cures.certify(exchange.agent_id))
    elif exchange.assurance is Assurance.NONE and certificate is None and binding.method != CARRIER:
        # Its caller does not learn what the binding asks for; the record, which operators read, says so.
        # What an EXECUTE asks for is not known yet.
        refusal.cure = cures.issue(binding.required_scopes)
