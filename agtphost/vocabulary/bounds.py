"""What a bound of what is kept says, by kind of thing: its members, units and shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from agtphost.vocabulary.reasons import Reason

KIB: Final = 1024
MIB: Final = 1024 * KIB
HOUR: Final = 3_600
DAY: Final = 86_400

ANY: Final = frozenset({"*"})
"""In place of the values of a state: the oldest item may go in any state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuota:
    """The quota of one kind of state item."""

    kind: str
    says: str
    """What it is, in a few words."""

    per_owner: int
    """Items of one owner: an agent, or the host."""

    in_all: int
    octets_per_owner: int
    """Of their JSON."""

    octets_in_all: int
    unproven: int
    """Items that an owner may have where the call that adds one comes from below certificate assurance."""

    lives: int | None
    """The most seconds that an item is kept; None: until the thing that it represents ends."""

    state: str = ""
    """The member that says whether an item is finished."""

    finished: frozenset[str] = frozenset()
    """Values of :attr:`state` with which an item makes room for a new one, the oldest first; empty: none ever does."""

    indexed: tuple[str, ...] = ()
    """Members that items are found by."""

    giver: str = ""
    """
    The member that names the agent that caused an item, where it may belong to another: one of :attr:`indexed` or
    :attr:`brief`. That agent has a share of the whole as owners have. Empty: the owner causes its items.
    """

    brief: tuple[str, ...] = ()
    """Further members that stay at hand where the whole of a long item does not."""

    reason: Reason = Reason.TOO_MANY_ITEMS
    """The reason of the refusal when the quota is used up."""

    remedy: str = ""

    @property
    def at_the_cap(self) -> str:
        """Return in words what happens when the quota is used up."""
        if not self.finished:
            return f"refused: ``{self.reason}``"
        if self.finished == ANY:
            return "the oldest goes"
        return f"the oldest finished one goes; where none has finished, refused: ``{self.reason}``"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A table in memory that requests add to."""

    place: str
    """``module:Class.attribute``, or ``module:function``, below ``agtphost``."""

    says: str
    in_all: int
    octets: int
    """About so much memory at the most."""

    most_of_one: int = 0
    """Entries of one agent, or of one address; 0 where an entry is one already."""

    lives: str = "until it is pushed out"
    at_the_cap: str = "the one that was not used for longest goes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Stored answers of keyed requests."""

    keys: int
    """Of one agent with its certificate."""

    octets: int
    keys_in_all: int
    """Of all agents together, in shares by what is still free (:func:`fair_share`)."""

    octets_in_all: int
    unproven_keys: int
    """Of one agent that is known by header alone, or through a gateway that does not vouch for it."""

    unproven_octets: int
    longest: int
    """Octets of an answer that is kept; of a longer one there is the hash."""

    lives: int


def fair_share(in_all: int, taken: int) -> int:
    """
    Return how many items one owner may have at the most, where all together have ``taken`` of ``in_all``.

    The free part, cubed, of the whole: an eighth where half is free, a thousandth where a tenth is. One alone can have
    0.31 of it; a hundred, each taking all it can, leave a fourteenth free, and a thousand a forty-fifth: what is kept
    is not taken back, so the shares have to shrink faster than what is free.
    """
    return int(max(in_all - taken, 0) ** 3 // in_all**2)


def share_of_free(in_all: int, others: int, share: float) -> int:
    """
    Return how much one owner may have of ``in_all`` where the others have ``others`` of it.

    The share of what the others leave free, and always one: with a half, the first owner can have a half, the next one
    a quarter, and ten owners that take all they can leave a thousandth. Rounded up, so that a worker that repeatedly
    takes its part of a queue gets through all of it.
    """
    return max(ceil(share * max(in_all - others, 0)), 1)


def share_together(share: float) -> float:
    """Return the share that all agents of one owner have together: what two of them could have one after the other."""
    return 1 - (1 - share) ** 2


ROW: Final = 512
"""Octets of a row in the store besides its value: its key, its other columns, and its places in indexes."""

PAGE: Final = 4_096
IN_PLACE: Final = 700
"""Octets of a value up to which a row is kept in its place; the rest of a longer one takes whole pages."""


def stored_octets(octets: int) -> int:
    """Return how much the store grows by for a value of so many octets."""
    if octets <= IN_PLACE:
        return octets + ROW
    return -(-octets // PAGE) * PAGE + 2 * ROW
