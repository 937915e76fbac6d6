"""
Digests of single rows, and of all rows of the tables `held` and `lifecycle` together.

A row becomes a leaf: the SHA-256 over its table, its key and every other column. The digest of all rows is LtHash16
(Bellare and Micciancio 1997; Lewi, Kim, Maykov and Weis 2019, "Securing Update Propagation with Homomorphic
Hashing"): each leaf is expanded to 1,024 lanes of 16 bits, and the lanes of all leaves are added modulo 2**16. A row
that changes costs one subtraction and one addition, however many rows there are. 1,024 lanes keep a generalized
birthday attack out, which a sum or XOR of 256 bits would not; both tables have unique keys, so that no leaf counts
twice. Measured in CPython 3.11: 6 microseconds a leaf; MuHash3072 takes 19, and half a millisecond for its inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256, shake_128
from typing import Any, NamedTuple

from agtphost.stores.rows import AGENT, ItemRow, StateChangeRow, StateRow

MEMBER = "host_state"
"""The member of a signed payload that has a :class:`Statement`."""

EMPTY_LOG = bytes(32)
"""Where the chain over lists of changes begins."""

_OCTETS = 2048
_EVEN = int.from_bytes(b"\xff\xff\x00\x00" * (_OCTETS // 4), "little")
_CARRY = int.from_bytes(b"\x00\x00\x01\x00" * (_OCTETS // 4), "little")
_TOGETHER = 30_000
"""Leaves that are added before the lanes, which have 16 bits to spare, are reduced."""


class RowSetHash:
    """
    The LtHash16 of a set of leaves.

    :param even: lanes 0, 2, 4 ... with 16 bits of zeros between them.
    :param odd: the other lanes.
    """

    __slots__ = ("_even", "_odd")

    def __init__(self, even: int = 0, odd: int = 0) -> None:
        self._even = even
        self._odd = odd

    def copy(self) -> RowSetHash:
        """Return one that changes independently."""
        return RowSetHash(self._even, self._odd)

    def add(self, leaf: bytes) -> None:
        """Add a leaf that is not in the set."""
        lanes = _lanes(leaf)
        self._even = (self._even + (lanes & _EVEN)) & _EVEN
        self._odd = (self._odd + ((lanes >> 16) & _EVEN)) & _EVEN

    def remove(self, leaf: bytes) -> None:
        """Take a leaf out that is in the set."""
        lanes = _lanes(leaf)
        self._even = (self._even + (_CARRY - (lanes & _EVEN))) & _EVEN
        self._odd = (self._odd + (_CARRY - ((lanes >> 16) & _EVEN))) & _EVEN

    def add_all(self, leaves: Iterable[bytes]) -> None:
        """Add many leaves; faster than one by one."""
        lanes, even = self._even | (self._odd << 16), self._even
        for number, leaf in enumerate(leaves, 1):
            more = int.from_bytes(shake_128(leaf).digest(_OCTETS), "little")
            lanes += more
            even += more & _EVEN
            if not number % _TOGETHER:
                lanes, even = _reduce(lanes, even)
        lanes, self._even = _reduce(lanes, even)
        self._odd = (lanes >> 16) & _EVEN

    def merge(self, other: RowSetHash) -> None:
        """Add all leaves of another set, of which none is in this one."""
        self._even = (self._even + other._even) & _EVEN
        self._odd = (self._odd + other._odd) & _EVEN

    def digest(self) -> bytes:
        """Return the 32 octets that stand for the set."""
        lanes = self._even | (self._odd << 16)
        return sha256(b"agtphost state 1\n" + lanes.to_bytes(_OCTETS, "little")).digest()


def _reduce(lanes: int, even: int) -> tuple[int, int]:
    """Reduce both sums modulo 2**16 a lane; the carry of the even lanes is removed from the sum of all first."""
    odd = ((lanes - even) >> 16) & _EVEN
    even &= _EVEN
    return even | (odd << 16), even


def _lanes(leaf: bytes) -> int:
    return int.from_bytes(shake_128(leaf).digest(_OCTETS), "little")


def item_leaf(row: ItemRow) -> bytes:
    """Return the leaf of a row of `held`; lengths keep two different rows from being written alike."""
    kind, key, owner, version, expires_at, value = row
    if not isinstance(owner, bytes) or not isinstance(value, (bytes, type(None))):
        return sha256(
            repr(row).encode("utf-8", "backslashreplace")
        ).digest()  # Of a damaged page: no row of the host's.
    text = f"held {len(kind)} {kind} {len(key)} {key} {owner.hex()} {version} {expires_at} "
    return sha256(text.encode("utf-8", "surrogatepass") + (value or b"")).digest()


def agent_leaf(agent_id: str, row: StateRow) -> bytes:
    """Return the leaf of a row of `lifecycle`."""
    columns = "".join("- " if column is None else f"{len(column)} {column} " for column in row)
    return sha256(f"lifecycle {agent_id} {columns}".encode("utf-8", "surrogatepass")).digest()


Leaves = dict[tuple[str, str], bytes]
"""The leaf of each row, by kind and key; the kind is empty for rows of `lifecycle`, whose key is the Agent-ID."""


NO_KIND = "(no kind)"
"""Instead of an empty kind, which the host never writes: such a row is not to hide one of `lifecycle`."""


def leaves_of(states: Mapping[str, StateRow], held: Iterable[ItemRow]) -> Leaves:
    """Return the leaves of both tables."""
    leaves = {(AGENT, agent_id): agent_leaf(agent_id, row) for agent_id, row in states.items()}
    for row in held:
        leaves[row.kind or NO_KIND, row.key] = item_leaf(row)
    return leaves


class Statement(NamedTuple):
    """A signed record's statement about the two tables as they are after it."""

    digest: bytes
    """Of all rows: :meth:`RowSetHash.digest`."""

    log: bytes
    """Of every list of changes since the newest baseline, this record's included: :func:`extend_log`."""

    baseline: bool = False
    """Whether the record's list has every row, and nothing before it counts."""

    def to_json(self) -> dict[str, Any]:
        """Return the value of :data:`MEMBER`."""
        found: dict[str, Any] = {"digest": self.digest.hex(), "log": self.log.hex()}
        return {**found, "baseline": True} if self.baseline else found


def statement_of(payload: Mapping[str, Any]) -> Statement | None:
    """Return what a record's payload says of the tables; None where it says nothing that can be read."""
    said = payload.get(MEMBER)
    if not isinstance(said, dict):
        return None
    try:
        digest, log = bytes.fromhex(said["digest"]), bytes.fromhex(said["log"])
    except (KeyError, TypeError, ValueError):
        return None
    return Statement(digest, log, said.get("baseline") is True) if len(digest) == len(log) == 32 else None


def extend_log(log: bytes, changes: Iterable[StateChangeRow]) -> bytes:
    """
    Return the log digest after one more record's list of changes.

    It runs over the numbers of the entries too, so that their order is signed; a caller, who sees it in its record,
    cannot find out from it how many changes others have made.
    """
    hashed = sha256(log)
    for number, _, kind, key, leaf in changes:
        text = f"{number} {len(kind)} {kind} {len(key)} {key} "
        hashed.update(text.encode("utf-8", "surrogatepass") + (b"-" if leaf is None else b"+" + leaf))
    return hashed.digest()
