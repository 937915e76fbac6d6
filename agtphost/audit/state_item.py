"""One state item: what is at hand of it, however long it is, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from sys import intern
from typing import Any, NamedTuple

from agtphost.audit.state_digest import RowSetHash
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import ItemQuota
from agtphost.vocabulary.quotas import ITEM_KINDS

SHORT = 1_024
"""Octets up to which an item is kept decoded; of a longer one, what it is found by."""

_ABSENT: Mapping[str, Any] = {}


class StateItem(NamedTuple):
    """
    A state item as it was last committed.

    A named tuple, since a start makes one of each stored item: a frozen dataclass takes 1.5 us longer for each.
    """

    kind: str
    key: str
    owner: str
    """Agent-ID of the agent it belongs to; empty where it is the host's."""

    version: int
    """What :attr:`agtphost.audit.drafts.Change.expected` compares with."""

    expires_at: int | None
    """Milliseconds since the Unix epoch; None for never."""

    brief: Mapping[str, Any]
    """The members that its kind is found by and listed with: at hand however long the item is."""

    octets: int
    """Of its JSON."""

    mark: int
    """A hash of that text, valid in this process only."""

    kept: Mapping[str, Any] | bytes
    """The item, or its JSON where that is longer than :data:`SHORT`."""

    @property
    def value(self) -> Mapping[str, Any]:
        """
        Return the item's value. A long one is decoded each time, so that many of them cost no more memory than their
        octets.
        """
        if isinstance(self.kept, bytes):
            decoded: Mapping[str, Any] = jsontext.decode_kept(self.kept)
            return decoded
        return self.kept

    def is_stored_as(self, row: ItemRow) -> bool:
        """Return whether a row stores exactly this item."""
        return (
            self.version == row.version
            and self.mark == hash(row.value)
            and self.expires_at == row.expires_at
            and self.owner == row.owner.hex()
        )


class Batch:
    """
    A batch of changes that were prepared together.

    :param rows: digest of the set of all its rows.
    :param count: of these.
    """

    __slots__ = ("count", "rows")

    def __init__(self) -> None:
        self.rows = RowSetHash()
        self.count = 0


class PreparedItem(NamedTuple):
    """The prepared form of a change, which is stored if the item has the version that the change expects."""

    row: ItemRow
    leaf: bytes
    """Of the row: :func:`agtphost.audit.state_digest.item_leaf`."""

    item: StateItem
    batch: Batch


def names_at_hand(holding: ItemQuota) -> frozenset[str]:
    """Return the members that the items of a kind are found by and listed with."""
    return frozenset({holding.state, *holding.indexed, *holding.brief})


def item_of(
    row: ItemRow,
    octets: bytes,
    holding: ItemQuota,
    written: Mapping[str, Any] | None = None,
    decode: Callable[[bytes], Any] = jsontext.decode_kept,
    names: Set[str] = frozenset(),
) -> StateItem:
    """
    Return the item of a stored row.

    :param octets: its JSON.
    :param written: what that was written from, so that of a long item only the members at hand are read again.
    :param decode: reads the JSON.
    :param names: what :func:`names_at_hand` returns, where that is known.
    """
    names = names or names_at_hand(holding)
    if written is not None and len(octets) > SHORT:
        value = jsontext.decode_kept(jsontext.encode({name: written[name] for name in names if name in written}))
    else:
        value = decode(octets)
    return StateItem(
        kind=row.kind,
        key=row.key,
        owner=intern(row.owner.hex()),
        version=row.version,
        expires_at=row.expires_at,
        brief={name: _share_texts(value[name], row.key) for name in value.keys() & names} or _ABSENT,
        octets=len(octets),
        mark=hash(octets),
        kept=value if len(octets) <= SHORT else octets,
    )


def _share_texts(value: Any, key: str) -> Any:
    """
    Return a member with one object for equal texts of all items: who has thousands of items is named in each.

    Of 500 items of 1,800 octets, owners and shares by themselves took 450 octets each.

    :param key: of the item; the text that it ends with is no other item's.
    """
    if type(value) is str:
        return value if key.endswith(value) else intern(value)
    if type(value) is list:
        return [intern(each) if type(each) is str else each for each in value]
    return value


def build_item(row: ItemRow) -> StateItem | None:
    """
    Return the item of a row of the host's own, or None; called in the writer's thread, so that long ones do not block
    the reactor.
    """
    return None if row.value is None else item_of(row, row.value, ITEM_KINDS[row.kind])
