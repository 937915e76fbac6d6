"""
Bounds on a call beyond its scopes: what it costs, and what the operator's own scope dimensions allow.

Core v08 section 5.6 has 456 for a call that would take more than the request's
Budget-Limit, and 455 for scope dimensions outside the standard ones, such as
how many tokens a call may ask for or which collections it may query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from zope.interface import implementer

from agtphost.config.bounds import ScopeDimensionSection
from agtphost.contract.prices import PriceList
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import IGate
from agtphost.dispatch.right_cures import add_claim_cure
from agtphost.errors import Refusal
from agtphost.vocabulary import budget, scopes
from agtphost.vocabulary.reasons import Reason


def _permits(rule: ScopeDimensionSection, value: Any) -> bool:
    """Return whether the value is within the rule; a value of a different type is not."""
    if rule.maximum is not None:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value <= rule.maximum
    values = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and item in (rule.allowed or ()) for item in values)


@implementer(IGate)
class ScopeDimensionGate:
    """
    Refuses a call outside a scope dimension, 455.

    :param rules: all of them.
    """

    name = "scope dimensions"

    def __init__(self, rules: Iterable[ScopeDimensionSection]) -> None:
        self._rules: dict[tuple[str, str | None], list[ScopeDimensionSection]] = {}
        for rule in rules:
            self._rules.setdefault((rule.method, rule.path), []).append(rule)

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None:
            return
        for key in ((binding.method, binding.path), (binding.method, None)):
            for rule in self._rules.get(key, ()):
                self._apply(rule, exchange)

    @staticmethod
    def _apply(rule: ScopeDimensionSection, exchange: Exchange) -> None:
        value = exchange.input.get(rule.parameter, rule.default)
        if value is None or _permits(rule, value):
            return
        if rule.unless_scope is not None and scopes.covers(exchange.scopes, rule.unless_scope):
            return
        lifted = {} if rule.unless_scope is None else {"unless_scope": rule.unless_scope}
        bound = {"maximum": rule.maximum} if rule.maximum is not None else {"allowed": sorted(rule.allowed or ())}
        named = {"dimension": rule.name, "parameter": rule.parameter}
        refusal = Refusal(
            Reason.SCOPE_VIOLATION,
            f"The call is outside the scope dimension {rule.name}.",
            remedy=f"Change {rule.parameter}"
            + (f", or call with the scope {rule.unless_scope}." if rule.unless_scope else "."),
            details={**named, **bound, **lifted},
            extra={"scope_dimension": named},
            scopes=() if rule.unless_scope is None else (rule.unless_scope,),
        )
        if rule.unless_scope is not None:
            add_claim_cure(exchange, refusal)
        raise refusal


@implementer(IGate)
class BudgetGate:
    """
    Refuses a call that costs more than Budget-Limit allows, 456.

    The header is never required, and is read only where an endpoint says what
    a call of it costs (spec reading 23).

    :param prices: of the operator; None: what endpoints declare.
    """

    name = "budget"

    def __init__(self, prices: PriceList | None = None) -> None:
        self._prices = prices or PriceList()

    def check(self, exchange: Exchange) -> None:
        cost = self._prices.limit_of(exchange.binding) if exchange.binding is not None else None
        if cost is None:
            return
        limit = budget_limit(exchange)
        if limit is None:
            return
        beyond = budget.find_exceeded(limit, cost)
        if beyond:
            raise budget_exceeded(cost, beyond)


def budget_limit(exchange: Exchange) -> Mapping[str, Decimal] | None:
    """
    Return what Budget-Limit allows, by unit; None where the request has none.

    :raises Refusal: 400 for a malformed one.
    """
    text = exchange.request.headers.get("budget-limit")
    if text is None:
        return None
    try:
        return budget.parse(text)
    except budget.BudgetError as error:
        raise Refusal(Reason.INVALID_BUDGET_LIMIT, f"Budget-Limit is malformed: {error}.") from None


def require_affordable(exchange: Exchange, costs: Iterable[Mapping[str, Decimal] | None]) -> None:
    """
    Check that the calls that one request makes cost together no more than its Budget-Limit; each is also checked alone.

    :raises Refusal: 456 before the first of them; 400 for a malformed Budget-Limit.
    """
    total: dict[str, Decimal] = {}
    for cost in costs:
        for unit, amount in (cost or {}).items():
            total[unit] = total.get(unit, Decimal(0)) + amount
    limit = budget_limit(exchange) if total else None
    if limit is not None and (beyond := budget.find_exceeded(limit, total)):
        raise budget_exceeded(total, beyond)


def budget_exceeded(cost: Mapping[str, Any], beyond: Mapping[str, tuple[Any, Any]]) -> Refusal:
    """
    456, naming what there is too little of.

    :param beyond: by unit the limit and what the call takes.
    """
    shown = {unit: {"limit": str(limit), "cost": str(amount)} for unit, (limit, amount) in beyond.items()}
    estimate = budget.render(cost)
    return Refusal(
        Reason.BUDGET_EXCEEDED,
        f"The call needs more than its Budget-Limit allows: {', '.join(beyond)}.",
        remedy="Raise Budget-Limit, or ask for less.",
        details={"exceeded": shown, "cost_estimate": estimate},
        extra={"budget": {"exceeded": shown}},
    )
