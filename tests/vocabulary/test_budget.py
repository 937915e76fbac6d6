"""Budgets: core v08 section 11.6."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import budget
from tests.rows import each_row

GOOD = {
    "tokens=5000": {"tokens": Decimal(5000)},
    "tokens=5000, compute-seconds=120": {"tokens": Decimal(5000), "compute-seconds": Decimal(120)},
    "compute-seconds=2.3,USD=10.00": {"compute-seconds": Decimal("2.3"), "USD": Decimal(10)},
    "calls=0": {"calls": Decimal(0)},
    "EUR=7": {"EUR": Decimal(7)},
    "tokens=5000, compute-seconds=120, financial=10.00USD, ttl=3600": {
        "tokens": Decimal(5000),
        "compute-seconds": Decimal(120),
        "USD": Decimal(10),
    },
}

BAD = [
    "", "tokens", "tokens=", "tokens=1.5", "tokens=-1", "tokens=+1", "tokens=1_000", "tokens=٥", "tokens=05",
    "calls=1.0", "USD=10.5", "USD=10.005", "USD=1e3", "usd=10.00", "JPY=10", "compute-seconds=.5",
    "compute-seconds=NaN", "compute-seconds=Infinity", "tokens=1, tokens=2", "USD=1.00, financial=1.00USD",
    "tokens=1;calls=2", "tokens=1 calls=2",
    "tokens=1,", "ttl=x", "financial=10.00", "tokens=1\n", ", ".join(["tokens=1"] * 17),
]  # fmt: skip


@each_row(("text", "amounts"), GOOD.items())
def test_good_budgets(text: str, amounts: dict[str, Decimal]) -> None:
    """AGTP-321: every registered unit in its own form; the glossary's spelling too."""
    assert budget.parse(text) == amounts
    assert budget.parse(budget.render(amounts)) == amounts


@each_row("text", BAD, ids=repr)
def test_bad_budgets(text: str) -> None:
    """AGTP-321: another unit, or an amount in another form, is refused and named."""
    with pytest.raises(budget.BudgetError):
        budget.parse(text)


def test_cost_estimates_are_written_with_commas() -> None:
    """AGTP-054, spec reading 22: the form of Cost-Estimate is that of Budget-Limit."""
    text = budget.render({"tokens": Decimal(8500), "compute-seconds": Decimal("2.3"), "USD": Decimal(1)})
    assert text == "tokens=8500, compute-seconds=2.3, USD=1.00"


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text does anything else than give amounts or a BudgetError; amounts are never negative."""
    try:
        amounts = budget.parse(text)
    except budget.BudgetError:
        return
    assert all(amount >= 0 for amount in amounts.values())


def test_only_what_is_limited_can_be_exceeded() -> None:
    """A unit that the limit does not name is no limit; the limit itself is allowed."""
    limit = budget.parse("tokens=100, USD=1.00")
    assert not budget.find_exceeded(limit, budget.parse("tokens=100, calls=7"))
    assert list(budget.find_exceeded(limit, budget.parse("tokens=101, USD=0.99"))) == ["tokens"]
