"""
Who may call what: the one decision function (design decision 14).

The gates call :func:`require_scopes` and :func:`require_assurance` for the
request at hand; lists call :func:`admits` for everything they might show. Both
are the same code, so what is listed is what can be called.
"""

from __future__ import annotations

from collections.abc import Callable

from agtphost.contract.binding import Binding
from agtphost.contract.rights import format_grant
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import reaches_stopped, refuse_stopped
from agtphost.errors import Refusal
from agtphost.handlers.operators import OperatorAction, setting_for
from agtphost.identity import required_assurance
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason


def intersect(held: frozenset[str], bound: frozenset[str]) -> frozenset[str]:
    """Return the scopes that both sets allow: tokens of either that the other covers."""
    return scopes.intersect(held, bound)


def effective_scopes(
    declared: frozenset[str], committed: frozenset[str] | None, claimed: frozenset[str] | None
) -> frozenset[str]:
    """
    Return the scopes of one request: each source can only narrow them (security invariant 7).

    :param declared: what the caller's Identity Document declares.
    :param committed: what its certificate commits to; None where it commits to nothing in particular.
    :param claimed: the Authority-Scope header; None where absent, which inherits all (core v08 section 5.5).
    :raises Refusal: 262 ``scope-claim-invalid`` for a claim beyond the document, 455 for one beyond the certificate.
    """
    if claimed is None:
        return declared if committed is None else intersect(declared, committed)
    excess = scopes.missing(declared, sorted(claimed))
    if excess:
        raise Refusal(Reason.SCOPE_CLAIM_INVALID, details={"scopes": list(excess)}, scopes=excess)
    if committed is not None:
        excess = scopes.missing(committed, sorted(claimed))
        if excess:
            raise Refusal(Reason.SCOPE_COMMITMENT_EXCEEDED, details={"scopes": list(excess)}, scopes=excess)
    return claimed


def is_nameless(exchange: Exchange, binding: Binding) -> bool:
    """Return whether the caller is to ``binding`` what a caller without a name is: it has no scopes and no grants."""
    return exchange.nameless and binding.min_assurance is Assurance.NONE


def require_scopes(exchange: Exchange, binding: Binding) -> None:
    """
    Require that the effective scopes contain every required one (AGTP-API section 6.4).

    :raises Refusal: 262 or, for the action of EXECUTE, 455; both ``scope-required``.
    """
    if not binding.required_scopes:
        return
    held = frozenset() if is_nameless(exchange, binding) else exchange.scopes
    lacking = scopes.missing(held, binding.required_scopes)
    if lacking:
        raise Refusal(
            Reason.SCOPE_REQUIRED,
            f"{binding.display_name} needs scopes that this request does not carry.",
            status=binding.scope_status,
            remedy="Claim the missing scopes in Authority-Scope if the Identity Document declares them; "
            "otherwise the registrar has to grant them.",
            details={"missing_scopes": list(lacking), "required_scopes": list(binding.required_scopes)},
            scopes=lacking,
        )


def require_assurance(exchange: Exchange, binding: Binding) -> None:
    """
    Require the identity proof of the binding; operators and people need none if the binding allows them.

    :raises Refusal: 401 ``agent-unauthenticated``.
    """
    if exchange.assurance >= binding.min_assurance:
        return
    if (binding.operators and exchange.operator) or (binding.people and exchange.person):
        return
    details = {"assurance": exchange.assurance.label, "required_assurance": binding.min_assurance.label}
    if exchange.assurance is Assurance.NONE:
        raise Refusal(
            Reason.AGENT_UNAUTHENTICATED,
            "The request names no calling agent, and this may not be called anonymously.",
            remedy=_remedy_without_agent(exchange, binding),
            details=details,
        )
    raise Refusal(
        Reason.AGENT_UNAUTHENTICATED,
        required_assurance.explanation_of(exchange.assurance, binding.min_assurance),
        remedy=required_assurance.remedy_of(exchange.assurance, binding.min_assurance),
        details=details,
    )


def _remedy_without_agent(exchange: Exchange, binding: Binding) -> str | None:
    """
    Return what helps a caller that names no agent; None for the usual remedy.

    The holder of a certificate that names no agent is a person: naming an agent would make the call the agent's.
    """
    certificate = exchange.peer.certificate
    if certificate is None or certificate.agent_id is not None:
        return None
    agents = "The client certificate names no agent. Connect with the client certificate of the agent that calls."
    if not binding.operators:
        return agents
    # What a request of EXECUTE is for is in its body; tools are for agents.
    setting = setting_for(certificate.fingerprint, OperatorAction.OPERATE)
    return f"{agents} Administrators approve changed definitions as no agent. In host.toml: {setting}."


def require_agent(exchange: Exchange, binding: Binding) -> None:
    """
    Require that the addressed agent is active and offers the binding.

    A stopped agent is reached by the protocol's own methods that show and
    change its state, and by nothing that an operator or an upstream offers.

    :raises Refusal: 404 where it does not offer it, 503 or 410 where it is stopped.
    """
    agent, state = exchange.agent, exchange.agent_state
    # A stopped merchant is 458, by the gate after this one.
    if state is not None and not reaches_stopped(binding) and agent is not None and exchange.method != "PURCHASE":
        refuse_stopped(state, "agent", agent.agent_id)
    if binding.agents and (agent is None or agent.agent_id not in binding.agents):
        raise Refusal(Reason.NOT_OFFERED_BY_AGENT)


def require_grant(exchange: Exchange, binding: Binding) -> None:
    """
    Check that a caller whom the operator has narrowed only calls what a grant names.

    :raises Refusal: ``grant-required``, with the status of a missing scope: 262, for the action of EXECUTE 455.
    """
    for narrowing in () if is_nameless(exchange, binding) else exchange.narrowings:
        if not narrowing.allows(binding):
            needed = format_grant(binding)
            caller = exchange.caller
            own = caller is not None and narrowing.agent_id == caller.agent_id
            raise Refusal(
                Reason.GRANT_REQUIRED,
                f"The operator of this host limits what {'the calling agent' if own else 'an agent of the delegation'} "
                f"may call, and {needed} is not among it.",
                status=binding.scope_status,
                details={"agent_id": narrowing.agent_id, "needed_grant": needed},
                scopes=(),
            )


def require_bound(exchange: Exchange, binding: Binding) -> None:
    """
    Check that a caller under another agent's authorization only calls what that names; nothing else, not even what is
    free.

    :raises Refusal: 551 ``delegation-token-mismatch``.
    """
    if exchange.granted is not None and not exchange.granted.names(binding):
        raise Refusal(
            Reason.DELEGATION_TOKEN_MISMATCH,
            f"What the caller was authorized to do does not name {format_grant(binding)}.",
            remedy="Leave Delegation-Token out of calls of your own, or have AUTHORIZE name this as a resource.",
            details={"grant_id": exchange.granted.grant_id, "resource": list(exchange.granted.resources)},
        )


def require_proof(exchange: Exchange, binding: Binding) -> None:
    """
    Refuse a caller known by a header alone before its scopes are looked at, where a header is not enough.

    A caller who only names an agent must not learn which scopes that has.

    :raises Refusal: as :func:`require_assurance`.
    """
    if exchange.assurance is Assurance.HEADER:
        require_assurance(exchange, binding)


CHECKS: tuple[Callable[[Exchange, Binding], None], ...] = (
    require_agent,
    require_proof,
    require_bound,
    require_scopes,
    require_assurance,
    require_grant,
)
"""What admits and the gates share."""


def is_plainly_allowed(exchange: Exchange, binding: Binding) -> bool:
    """
    Return whether none of :data:`CHECKS` can object, as of most calls; where False, they decide.

    All are asked of each call of a tool, twice: one function in place of a dozen.
    """
    return (
        exchange.agent_state is None
        and not binding.agents
        and exchange.granted is None
        and not exchange.nameless
        and not exchange.narrowings
        and exchange.assurance >= binding.min_assurance
        and exchange.scopes.issuperset(binding.required_scopes)
    )


def admits(exchange: Exchange, binding: Binding) -> bool:
    """Return whether the caller of ``exchange`` could call ``binding`` now."""
    try:
        for check in CHECKS:
            check(exchange, binding)
    except Refusal:
        return False
    return True
