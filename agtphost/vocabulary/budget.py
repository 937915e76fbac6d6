"""
Budgets: ``Budget-Limit`` and ``Cost-Estimate`` (core v08 sections 5.5 and 11.6).

::

    budget = unit "=" amount *( OWS "," OWS unit "=" amount )

``tokens`` and ``calls`` are whole numbers, ``compute-seconds`` is a decimal,
``USD``, ``EUR`` and ``GBP`` have up to two decimal places. The glossary of
core v08 also writes ``financial=10.00USD``, which is read as ``USD=10.00``,
and ``ttl=3600``, the lifetime of the budget, which is not an amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?", re.ASCII)
_MONEY = re.compile(r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{2})?", re.ASCII)
_FINANCIAL = re.compile(r"(?P<amount>[0-9.]+)(?P<unit>USD|EUR|GBP)", re.ASCII)

UNITS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "tokens": (_WHOLE, "a whole number"),
    "compute-seconds": (_DECIMAL, "a decimal number"),
    "USD": (_MONEY, "an amount with two decimal places"),
    "EUR": (_MONEY, "an amount with two decimal places"),
    "GBP": (_MONEY, "an amount with two decimal places"),
    "calls": (_WHOLE, "a whole number"),
}
"""The registered units, and how their amounts are written (core v08 section 11.6)."""

MONEY = frozenset(unit for unit, (grammar, _) in UNITS.items() if grammar is _MONEY)
"""The units that are currencies."""

MAX_ITEMS = 16


class BudgetError(ValueError):
    """A budget that does not follow the grammar; the message names the item."""


def parse(text: str) -> dict[str, Decimal]:
    """
    Amounts by unit.

    :raises BudgetError: naming the first item that is wrong, unknown or there twice.
    """
    items = [item.strip(" \t") for item in text.split(",")]
    if len(items) > MAX_ITEMS:
        raise BudgetError(f"it has more than {MAX_ITEMS} items")
    amounts: dict[str, Decimal] = {}
    for item in items:
        unit, separator, amount = item.partition("=")
        if unit == "ttl" and _WHOLE.fullmatch(amount):
            continue
        financial = _FINANCIAL.fullmatch(amount) if unit == "financial" else None
        if financial is not None:
            unit, amount = financial["unit"], financial["amount"]
        if not separator or unit not in UNITS:
            raise BudgetError(f"{item[:64]!r} is not an amount of {', '.join(UNITS)}")
        grammar, form = UNITS[unit]
        if grammar.fullmatch(amount) is None:
            raise BudgetError(f"{unit} is not {form}")
        if unit in amounts:
            raise BudgetError(f"{unit} stands twice")
        amounts[unit] = Decimal(amount)
    return amounts


def render(amounts: Mapping[str, Decimal]) -> str:
    """Return amounts in the form of the header; money has its two decimal places."""
    return ", ".join(
        f"{unit}={amount:.2f}" if UNITS[unit][0] is _MONEY else f"{unit}={amount:f}" for unit, amount in amounts.items()
    )


def find_exceeded(limit: Mapping[str, Decimal], cost: Mapping[str, Decimal]) -> dict[str, tuple[Decimal, Decimal]]:
    """
    Return the units of which ``cost`` takes more than ``limit`` allows, as (limit, cost). A unit that ``limit`` lacks
    is unlimited.
    """
    return {unit: (limit[unit], amount) for unit, amount in cost.items() if unit in limit and amount > limit[unit]}
