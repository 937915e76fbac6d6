"""Prices of calls: declared by endpoints or estimated by the operator (methods v01 section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from agtphost.config.prices import PriceSection
from agtphost.contract.binding import Binding
from agtphost.contract.rights import GrantSet, names_of
from agtphost.vocabulary import budget

COST_ESTIMATE = "Cost-Estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a call, by budget unit; the three mappings have the same units."""

    minimum: Mapping[str, Decimal]
    expected: Mapping[str, Decimal]
    maximum: Mapping[str, Decimal]
    """Compared with Budget-Limit."""

    confidence: float = 1.0


def declared_price(cost: Mapping[str, Decimal]) -> Price:
    """Return the price of an endpoint that declares its cost; minimum and maximum are equal."""
    return Price(minimum=cost, expected=cost, maximum=cost)


class PriceList:
    """
    The operator's price list.

    :param sections: sections in the order of the file; the first that names a call applies.
    """

    def __init__(self, sections: Sequence[PriceSection] = ()) -> None:
        self._entries = [
            (
                GrantSet(agent_id="", grants=frozenset({each.call})),
                Price(
                    minimum={**each.expected, **each.min},
                    expected=each.expected,
                    maximum={**each.expected, **each.max},
                    confidence=each.confidence,
                ),
            )
            for each in sections
        ]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def price_of(self, binding: Binding) -> Price | None:
        """Return the price of a call: the operator's estimate, or the declared cost; None if there is neither."""
        if self._entries:
            names = names_of(binding)
            for named, price in self._entries:
                if named.names(names):
                    return price
        return None if not binding.cost else declared_price(binding.cost)

    def limit_of(self, binding: Binding) -> Mapping[str, Decimal] | None:
        """Return the lowest Budget-Limit that allows a call; None if its price is unknown."""
        price = self.price_of(binding)
        return None if price is None else price.maximum

    def apply(self, binding: Binding) -> Binding:
        """Return a binding with its price as its cost, which every answer states."""
        price = self.price_of(binding) if self._entries else None
        if price is None:
            return binding
        fields = tuple(field for field in binding.headers if field[0] != COST_ESTIMATE)
        return replace(binding, cost=price.maximum, headers=(*fields, (COST_ESTIMATE, budget.render(price.expected))))
