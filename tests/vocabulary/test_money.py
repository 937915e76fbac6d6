"""Amounts of money, as PURCHASE, carts and assertions write them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import money
from agtphost.vocabulary.money import Money, MoneyError
from tests.rows import each_row


@each_row(
    ("value", "amount"),
    [
        ("20.00 EUR", "20.00"),
        ({"value": "20.00", "currency": "EUR"}, "20.00"),
        ({"value": 20, "currency": "EUR"}, "20"),
        ({"value": 0.1, "currency": "EUR"}, "0.1"),
        ({"value": 20.0, "currency": "EUR"}, "20"),
        ({"value": "999999999999.9999", "currency": "EUR"}, "999999999999.9999"),
    ],
)
def test_an_amount(value: Any, amount: str) -> None:
    """Text and numbers are read as the decimals they are written as."""
    assert money.parse(value) == Money(value=Decimal(amount), currency="EUR")


@each_row(
    "value",
    [
        None,
        20,
        "20",
        "20 ",
        "EUR 20",
        "20 eur",
        "20 EURO",
        "20  EUR",
        "+20 EUR",
        "-20 EUR",
        "020 EUR",
        "20. EUR",
        ".5 EUR",
        "1e3 EUR",
        "NaN EUR",
        "Infinity EUR",
        "1,000 EUR",
        "٣ EUR",
        "20 EUR\n",
        "0.00001 EUR",
        "1000000000000 EUR",
        {"value": True, "currency": "EUR"},
        {"value": float("inf"), "currency": "EUR"},
        {"value": 1e-7, "currency": "EUR"},
        {"value": 1e22, "currency": "EUR"},
        {"value": "1"},
        {"currency": "EUR"},
        {"value": "1", "currency": "EUR", "x": 1},
        ["20", "EUR"],
    ],
)
def test_what_is_no_amount(value: Any) -> None:
    """Signs, exponents, other digits, other members, white space: refused."""
    with pytest.raises(MoneyError):
        money.parse(value)


@given(st.integers(0, 999_999_999_999), st.integers(0, 9999))
def test_what_is_written_is_read(whole: int, part: int) -> None:
    """An amount's document and text are read as that amount."""
    value = Money(value=Decimal(f"{whole}.{part:04d}"), currency="USD")
    assert money.parse(value.document()) == money.parse(str(value)) == value
