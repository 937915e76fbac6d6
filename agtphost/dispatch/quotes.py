"""
Carts and the quotes given for them: what a PURCHASE can be bound to (core v08 section 9, QUOTE).

A quote is a state item of kind ``quote``, committed with the record of the
QUOTE that gave it. It is good for the agent that asked, at the merchant that
answered, until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.vocabulary import money
from agtphost.vocabulary.money import Money, MoneyError
from agtphost.vocabulary.quotas import ITEM_KINDS

KIND = "quote"
MOST_PER_AGENT = ITEM_KINDS[KIND].per_owner
"""Quotes that one agent may have at a time."""

MOST_LINES = 500


class CartError(ValueError):
    """A cart that cannot be quoted; the message names the member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote that was given."""

    quote_id: str
    owner: str
    """Whose it is: the buyer's state owner (:func:`agtphost.identity.peer.state_owner`)."""

    merchant_id: str
    cart_digest: str
    total: Money
    valid_until: str
    """RFC 3339."""

    expires_at: int
    """The same in milliseconds since the Unix epoch."""

    def signed_members(self) -> dict[str, Any]:
        """Return the members that the quote's signature covers."""
        return {
            "quote_id": self.quote_id,
            "cart_digest": self.cart_digest,
            "total": self.total.document(),
            "quote_valid_until": self.valid_until,
        }


def cart_digest(cart: Mapping[str, Any]) -> str:
    """
    ``sha256:`` and the hash of the cart's canonical form.

    :raises CartError: it has none.
    """
    try:
        return f"sha256:{sha256(canonical(cart)).hexdigest()}"
    except CanonicalError as error:
        raise CartError(f"cart: {error}") from None


def cart_total(cart: Any) -> Money:
    """
    Return the total of a cart: each line's quantity times its price, tax and shipping.

    :raises CartError: naming the first member that is wrong.
    """
    if not isinstance(cart, Mapping):
        raise CartError("cart: it is not an object")
    lines = cart.get("lines")
    if not isinstance(lines, list) or not 0 < len(lines) <= MOST_LINES:
        raise CartError(f"cart.lines: it is not a list of 1 to {MOST_LINES} lines")
    total = sum((_line(line, number) for number, line in enumerate(lines)), Decimal(0))
    for name in ("tax", "shipping"):
        total += _amount(cart.get(name, "0"), f"cart.{name}")
    try:
        code = money.currency(cart.get("currency"))
        # The sum must follow the grammar of amounts too, to be written into a PURCHASE.
        return Money(value=money.amount(f"{total:f}"), currency=code)
    except MoneyError as error:
        raise CartError(f"cart: its total or currency {error}") from None


def _line(line: Any, number: int) -> Decimal:
    where = f"cart.lines[{number}]"
    if not isinstance(line, Mapping) or not isinstance(line.get("sku"), str) or not line["sku"]:
        raise CartError(f"{where}.sku: it is missing")
    quantity = line.get("qty")
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 0 < quantity <= 1_000_000:
        raise CartError(f"{where}.qty: it is not a whole number from 1 to 1000000")
    return quantity * _amount(line.get("unit_price"), f"{where}.unit_price")


def _amount(value: Any, name: str) -> Decimal:
    try:
        return money.amount(value)
    except MoneyError as error:
        raise CartError(f"{name}: it {error}") from None


class Quotes:
    """
    The quotes in force.

    :param held: where they are.
    """

    def __init__(self, held: StateTable) -> None:
        self._held = held

    def full(self, owner: str) -> bool:
        """Return whether an owner has as many quotes as one may have."""
        return self._held.count(KIND, owner) >= MOST_PER_AGENT

    def find(
        self, owner: str, merchant_id: str, *, quote_id: str | None = None, digest: str | None = None
    ) -> Quote | None:
        """
        Return the newest quote in force that an owner has from a merchant.

        :param quote_id: that one and no other.
        :param digest: for that cart and no other.
        """
        found = None
        for quote in self._quotes_of(owner):
            wanted = quote_id in (None, quote.quote_id) and digest in (None, quote.cart_digest)
            if wanted and quote.merchant_id == merchant_id:
                found = quote
        return found

    def _quotes_of(self, owner: str) -> Iterator[Quote]:
        return map(_quote, self._held.items_of(KIND, owner))

    @staticmethod
    def change(quote: Quote) -> Change:
        """Return the change that makes a quote durable."""
        return Change(
            kind=KIND,
            key=quote.quote_id,
            value={
                "merchant_id": quote.merchant_id,
                "cart_digest": quote.cart_digest,
                "total": quote.total.document(),
                "valid_until": quote.valid_until,
            },
            owner=quote.owner,
            expires_at=quote.expires_at,
            expected=0,
        )


def _quote(item: StateItem) -> Quote:
    value = item.value
    return Quote(
        quote_id=item.key,
        owner=item.owner,
        merchant_id=value["merchant_id"],
        cart_digest=value["cart_digest"],
        total=money.parse(value["total"]),
        valid_until=value["valid_until"],
        expires_at=item.expires_at or 0,
    )
