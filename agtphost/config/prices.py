"""``[[methods.price]]``: what calls take, as the operator estimates it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.values import Line, Section, form
from agtphost.vocabulary import budget
from agtphost.vocabulary.grants import is_grant

MOST_PRICES = 256
"""Prices of one host: each quote, and each call with a Budget-Limit, looks through them."""


def _amounts(value: Any) -> Mapping[str, Decimal]:
    if isinstance(value, Mapping):  # Read before: a section is validated again without its faulty keys.
        return value
    if not isinstance(value, str):
        raise ValueError('must be text such as "tokens=500, USD=0.02"')
    try:
        return budget.parse(value)
    except budget.BudgetError as error:
        raise ValueError(f"is not what a call takes: {error}") from None


Amounts = Annotated[Mapping[str, Decimal], BeforeValidator(_amounts)]
Priced = Annotated[
    Line, form(is_grant, "holds {}, which names no call: SUMMARIZE, files.read_file, files.*, BOOK /room")
]


class PriceSection(Section):
    """An entry of ``[[methods.price]]``: the costs of the calls that it names. The first that names a call counts."""

    call: Priced
    """
    The calls, in the words of grants: ``SUMMARIZE`` for a method of the host itself, ``files.read_file`` or ``files.*``
    for tools, ``BOOK /room`` for an endpoint.
    """

    expected: Amounts = Field(default_factory=dict)
    """What a call takes: ``"tokens=8500, compute-seconds=2.3"``. QUOTE answers with it."""

    min: Amounts = Field(default_factory=dict)
    """The least that a call takes; units that it leaves out are as in ``expected``."""

    max: Amounts = Field(default_factory=dict)
    """The most that a call takes, which ``Budget-Limit`` is held to; units left out are as in ``expected``."""

    confidence: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How sure the estimate is, as QUOTE states it."""


def price_faults(prices: Sequence[PriceSection]) -> Iterator[ConfigFault]:
    """Find ranges that are none, and more prices than there may be."""
    if len(prices) > MOST_PRICES:
        yield ConfigFault(
            location=("methods", "price"),
            message=f"has {len(prices)} entries; {MOST_PRICES} are possible",
            hint="name several calls with one: files.*",
        )
    for number, each in enumerate(prices):
        at = ("methods", "price", number)
        if not each.expected:
            yield ConfigFault(location=(*at, "expected"), message="names no amount", hint='write "tokens=500"')
        for key, bound, wrong in (("min", each.min, 1), ("max", each.max, -1)):
            for unit, amount in bound.items():
                if unit not in each.expected:
                    message = f"has {unit}, which expected lacks"
                    yield ConfigFault(location=(*at, key), message=message, hint="name the same units in both")
                elif (amount - each.expected[unit]) * wrong > 0:
                    message = f"is {'more' if wrong > 0 else 'less'} than expected in {unit}"
                    yield ConfigFault(location=(*at, key), message=message, hint="order them: min, expected, max")
