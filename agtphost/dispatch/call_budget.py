"""
What one request from outside may cost: the calls that it makes inside this host, and the octets that it stores.

Every inner call is charged to the caller's rate in ``[limits]`` as if the caller had made it itself. A request that
says how many calls it makes (BATCH, CHAIN, RUN, a batch of inputs of a card) is charged for all of them before the
first one, with one arithmetic operation, and refused where its caller has less left; every other inner call is charged
when it is made. The depth of calls and their number per request are bounded here too, even if the caller has more left.

Each charged call pays for :data:`OCTETS_PER_CALL` of what is stored: records, state items and stored answers. A caller
that has stored more owes further calls, and its next request waits until they are paid.
"""

from __future__ import annotations

from typing import Final, Protocol

from agtphost.audit.drafts import Draft, Sealed
from agtphost.dispatch.exchange import CallTree, Exchange, Place
from agtphost.dispatch.outcome import Outcome
from agtphost.errors import Refusal
from agtphost.identity.peer import Withdrawable
from agtphost.vocabulary.bounds import stored_octets
from agtphost.vocabulary.quotas import ANSWERS
from agtphost.vocabulary.reasons import Reason

MAX_DEPTH: Final = 10
"""Calls inside calls; the same figure as the drafts' max_synthesis_depth."""

MOST_CALLS: Final = 1_000
"""Inner calls of one request from outside, at every depth together: ten times what one BATCH has."""

OCTETS_PER_CALL: Final = 6_000
"""
Octets that one charged call pays for. With the store's rows and indexes around them they come to less than 8,000 octets
of the database's file.
"""


class Charges(Protocol):
    """The rates of callers, :class:`agtphost.dispatch.gates.limits.RateGate`."""

    def charge(self, exchange: Exchange, method: str, calls: int, octets: int = 0) -> None:
        """
        Charge the caller for so many calls of a method, or for none of them.

        :param octets: of what is to be stored, where the calls pay for that.
        :raises Refusal: 429; fewer are left.
        """

    def owe(self, exchange: Exchange, calls: int) -> None:
        """Charge the caller for so many calls, even beyond its allowance."""


class InnerCalls:
    """
    The calls that one handler makes inside this host.

    :param exchange: the request that the handler answers.
    :param charges: None: callers are not charged.
    """

    __slots__ = ("_charges", "_exchange", "_paid", "_place")

    def __init__(self, exchange: Exchange, charges: Charges | None) -> None:
        self._exchange = exchange
        self._charges = charges
        self._paid = 0
        outer = exchange.place
        self._place = Place(CallTree(), listed=False) if outer is None else outer

    def announce(self, calls: int, *, lists: bool = False, alone: bool = False) -> None:
        """
        Charge for calls that are about to be made, all of them or none.

        :param lists: whether the caller has listed them: none of them may be a list, or ``alone``.
        :param alone: whether they may not be made for a call of a list.
        :raises Refusal: 429 where fewer are left; 422 for too many, and for a list inside of a list.
        """
        place = self._place
        if place.listed and (lists or alone):
            raise Refusal(
                Reason.INVOCATION_TOO_DEEP,
                "A list of calls may not contain BATCH, RUN or a card's batch, which make many calls themselves.",
                remedy="Send it as a separate request.",
            )
        if place.tree.made + calls > MOST_CALLS:
            raise _too_many()
        if self._charges is not None:
            self._charges.charge(self._exchange, self._exchange.request.method, calls)
        place.tree.made += calls
        self._paid += calls
        if lists:
            self._place = Place(place.tree, listed=True)

    def enter(self, method: str) -> Place:
        """
        Count a call that is about to be made, and charge for it unless it was announced.

        :raises Refusal: 429 where none is left; 422 where calls go too deep, or are too many.
        """
        exchange, tree = self._exchange, self._place.tree
        if exchange.peer.depth >= MAX_DEPTH:
            raise Refusal(Reason.INVOCATION_TOO_DEEP, f"Calls inside calls go {MAX_DEPTH} deep at most.")
        if self._paid:
            self._paid -= 1
            return self._place
        if tree.made >= MOST_CALLS:
            raise _too_many()
        tree.made += 1
        if self._charges is not None:
            self._charges.charge(exchange, method, 1)
        return self._place


def _too_many() -> Refusal:
    return Refusal(
        Reason.INVOCATION_TOO_DEEP,
        f"One request makes {MOST_CALLS} calls inside this host at most, those of its calls included.",
        remedy="Make several requests of it.",
        details={"most_calls": MOST_CALLS},
    )


def charge_changes(charges: Charges | None, exchange: Exchange, draft: Draft, outcome: Outcome | None = None) -> None:
    """
    Have the ledger charge for the state items of a draft, before it writes any.

    A call that only stores items is refused where fewer calls are left than they cost. A refusal would not undo other
    effects of a call: such a caller is charged beyond its allowance.

    :param charges: None: callers are not charged.
    :param outcome: of the call; None in the middle of one.
    """
    if charges is None:
        return
    peer = exchange.peer
    acted = exchange.invoked or exchange.approval is not None or peer.follow is not None or draft.vital
    alone = outcome is not None and not (acted or outcome.reason or outcome.continuation)

    def charge(octets: int) -> None:
        further = _further(exchange, octets)
        if further and alone:
            charges.charge(exchange, exchange.request.method, further, octets)
        elif further:
            charges.owe(exchange, further)
        exchange.stored += octets

    draft.grows = charge


def charge_later(charges: Charges | None, exchange: Exchange, octets: int) -> None:
    """
    Charge for what the host will store in the caller's name when the call is over.

    :param charges: None: nothing is charged.
    :raises Refusal: 429; the caller has fewer calls left than that costs.
    """
    calls = (octets + OCTETS_PER_CALL - 1) // OCTETS_PER_CALL
    if calls and charges is not None:
        charges.charge(exchange, exchange.request.method, calls, octets)


def charge_record(
    charges: Charges | None, exchange: Exchange, draft: Draft, sealed: Sealed, outcome: Outcome | None = None
) -> None:
    """
    Charge for a record that was stored, its answer that is kept, and its handler's records: none can be refused.

    :param outcome: of the call; None in the middle of one.
    """
    octets = len(sealed.jws) + len(exchange.request.path) + exchange.unpaid
    exchange.unpaid = 0
    if exchange.peer.http is not None and outcome is not None:
        link = exchange.peer.link
        if isinstance(link, Withdrawable) and link.keeps:
            octets += stored_octets(min(len(outcome.body), link.keeps))
    if draft.reservation is not None:
        octets += stored_octets(min(len(draft.result), ANSWERS.longest))
    # Most calls store less than they have paid for.
    if exchange.stored + octets >= OCTETS_PER_CALL and charges is not None and (further := _further(exchange, octets)):
        charges.owe(exchange, further)
    exchange.stored += octets


def _further(exchange: Exchange, octets: int) -> int:
    """
    Return how many calls pay for these octets, in addition to those that pay for what the exchange has stored already.
    """
    before = max(exchange.stored, 1)
    return (before + octets - 1) // OCTETS_PER_CALL - (before - 1) // OCTETS_PER_CALL
