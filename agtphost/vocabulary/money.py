"""
Amounts of money in requests: of PURCHASE, of carts, and of the ceiling that a principal allows.

An amount is a decimal text, ``{"value": "20.00", "currency": "USD"}`` or
``"20.00 USD"``. A JSON number is taken for the shortest decimal that it is
read from, and never calculated with as a fraction of two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,4})?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


class MoneyError(ValueError):
    """A value is not an amount of money; the message says why, to follow a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount of one currency."""

    value: Decimal
    currency: str
    """ISO 4217, three letters."""

    def document(self) -> dict[str, str]:
        """Return the amount for JSON, as text."""
        return {"value": f"{self.value:f}", "currency": self.currency}

    def __str__(self) -> str:
        return f"{self.value:f} {self.currency}"


def amount(value: Any) -> Decimal:
    """
    Read an amount: a decimal of up to twelve digits and four places, not negative.

    :raises MoneyError: for everything else, ``1e3``, ``NaN`` and ``True`` included.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise MoneyError("is not an amount: write a decimal such as 20.00")
    text = value if isinstance(value, str) else _shortest(value)
    if _AMOUNT.fullmatch(text) is None:
        raise MoneyError("is not an amount of up to twelve digits and four decimal places")
    return Decimal(text)


def _shortest(number: float) -> str:
    text = repr(number)
    return text.removesuffix(".0")


def currency(value: Any) -> str:
    """
    Return a value that is a currency code, as text.

    :raises MoneyError: for everything else.
    """
    if not isinstance(value, str) or _CURRENCY.fullmatch(value) is None:
        raise MoneyError("names no currency: write three capital letters such as USD")
    return value


def parse(value: Any) -> Money:
    """
    Read an amount with its currency.

    :raises MoneyError: if it is none.
    """
    if isinstance(value, str):
        number, _, code = value.partition(" ")
        return Money(value=amount(number), currency=currency(code))
    if not isinstance(value, Mapping):
        raise MoneyError('is not an amount with a currency: write {"value": "20.00", "currency": "USD"}')
    if value.keys() - {"value", "currency"}:
        raise MoneyError("has members besides value and currency")
    return Money(value=amount(value.get("value")), currency=currency(value.get("currency")))
