"""
The Merkle tree over all records: RFC 9162 section 2.1, stored as tiles.

An entry is a record's Audit-ID, 32 octets, in the order the store numbered them; so everyone with a record can compute
its entry, and a published tree reveals nothing of what was recorded. Hashes are kept in tiles of up to 256: tile ``n``
of level 0 holds the leaf hashes from ``256 n`` on, and each hash of level ``l`` covers a whole tile of level ``l - 1``.
All else is computed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

HEIGHT = 8
WIDTH = 1 << HEIGHT
"""Hashes of a full tile."""

HASH = 32
"""Octets of a hash."""

LONGEST_PROOF = 130
"""Digests: more than any proof of a tree of 2 ** 63 entries has."""

EMPTY_ROOT = sha256(b"").digest()

Tiles = Callable[[int, int], bytes]
"""(level, number) to the tile's hashes, one after the other."""


class ProofError(ValueError):
    """A proof does not show what it should, or none can be made."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the leaf hash of one entry (RFC 9162 section 2.1.1)."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees (RFC 9162 section 2.1.1)."""
    return sha256(b"\x01" + left + right).digest()


def whole(hashes: bytes | bytearray) -> bytes:
    """Return the root over concatenated hashes, whose number is a power of two."""
    row = bytes(hashes)
    while len(row) > HASH:
        row = b"".join([sha256(b"\x01" + row[at : at + 2 * HASH]).digest() for at in range(0, len(row), 2 * HASH)])
    return row


class Growth:
    """
    The new and changed tiles of a growing tree.

    :param tiles: the tiles of the tree as it is.
    :param size: its number of entries.
    """

    def __init__(self, tiles: Tiles, size: int) -> None:
        self._tiles = tiles
        self._changed: dict[tuple[int, int], bytearray] = {}
        self.size = size
        """Entries, with those added."""

    def add(self, entry: bytes) -> None:
        """Put one entry at the end."""
        self.extend((entry,))

    def extend(self, entries: Sequence[bytes]) -> None:
        """Append entries, a tile's worth in each step."""
        at = 0
        while at < len(entries):
            part = entries[at : at + WIDTH - self.size % WIDTH]
            self._put(0, self.size, b"".join([sha256(b"\x00" + entry).digest() for entry in part]))
            self.size += len(part)
            at += len(part)

    def changed_tiles(self) -> dict[tuple[int, int], bytes]:
        """Return the changed tiles, by level and number, each in whole."""
        return {place: bytes(tile) for place, tile in self._changed.items()}

    def _put(self, level: int, at: int, digests: bytes) -> None:
        """Hashes of one level that one tile takes."""
        number, offset = divmod(at, WIDTH)
        tile = self._changed.get((level, number))
        if tile is None:
            before = self._tiles(level, number)[: offset * HASH] if offset else b""
            tile = self._changed[level, number] = bytearray(before)
        tile += digests
        if len(tile) == WIDTH * HASH:
            self._put(level + 1, number, whole(tile))


class Frontier:
    """
    The last tile of each level of a growing tree: enough to compute its root at any size.

    :param completed: takes level, number and hashes of each tile that becomes full.
    """

    def __init__(self, completed: Callable[[int, int, bytes], object] = lambda level, number, hashes: None) -> None:
        self._completed = completed
        self._tiles: list[bytearray] = []
        self._numbers: list[int] = []
        self.size = 0

    def add(self, leaf: bytes) -> None:
        """Put the leaf hash of one entry at the end."""
        self.size += 1
        self._put(0, leaf)

    def _put(self, level: int, digest: bytes) -> None:
        if level == len(self._tiles):
            self._tiles.append(bytearray())
            self._numbers.append(0)
        tile = self._tiles[level]
        tile += digest
        if len(tile) == WIDTH * HASH:
            hashes, number = bytes(tile), self._numbers[level]
            self._tiles[level], self._numbers[level] = bytearray(), number + 1
            self._completed(level, number, hashes)
            self._put(level + 1, whole(hashes))

    def unfinished_tiles(self) -> list[tuple[int, int, bytes]]:
        """Return level, number and hashes of each tile that is not full and not empty."""
        found = zip(self._numbers, self._tiles, strict=True)
        return [(level, number, bytes(tile)) for level, (number, tile) in enumerate(found) if tile]

    def root(self) -> bytes:
        """Return the root hash of the tree (RFC 9162 section 2.1.1)."""
        digest: bytes | None = None
        for tile in self._tiles:
            at = len(tile) // HASH
            while at:
                # From the end: the smallest perfect subtree first, each larger one to the left of all after it.
                count = at & -at
                left = whole(tile[(at - count) * HASH : at * HASH])
                digest = left if digest is None else node_hash(left, digest)
                at -= count
        return EMPTY_ROOT if digest is None else digest


def root_of(entries: Iterable[bytes]) -> bytes:
    """Return the root of the tree over entries, which are hashed here."""
    tree = Frontier()
    for entry in entries:
        tree.add(leaf_hash(entry))
    return tree.root()


class Tree:
    """
    A tree of a given size, read from tiles.

    :param tiles: gives a tile; it may hold more than this tree has.
    :param size: number of entries.
    """

    def __init__(self, tiles: Tiles, size: int) -> None:
        self._tiles = tiles
        self.size = size
        self._known: dict[tuple[int, int], bytes] = {}

    def root(self) -> bytes:
        """Return the root hash of the tree (RFC 9162 section 2.1.1)."""
        return self._range(0, self.size) if self.size else EMPTY_ROOT

    def inclusion(self, index: int) -> list[bytes]:
        """
        Return the inclusion proof of an entry (RFC 9162 section 2.1.3.1).

        :param index: counted from 0.
        :raises ProofError: the entry does not exist.
        """
        if not 0 <= index < self.size:
            raise ProofError(f"the tree of {self.size} entries has no entry {index}")
        return self._path(index, 0, self.size)

    def consistency(self, first: int) -> list[bytes]:
        """
        Return the proof that this tree extends a former one (RFC 9162 section 2.1.4.1).

        :param first: the size of the earlier tree.
        :raises ProofError: it is larger than this one, or empty.
        """
        if not 0 < first <= self.size:
            raise ProofError(f"the tree of {self.size} entries continues none of {first}")
        return self._subproof(first, 0, self.size, intact=True)

    def _path(self, index: int, low: int, high: int) -> list[bytes]:
        if high - low == 1:
            return []
        middle = low + _split_point(high - low)
        if index < middle:
            return [*self._path(index, low, middle), self._range(middle, high)]
        return [*self._path(index, middle, high), self._range(low, middle)]

    def _subproof(self, first: int, low: int, high: int, *, intact: bool) -> list[bytes]:
        if first == high:
            return [] if intact else [self._range(low, high)]
        middle = low + _split_point(high - low)
        if first <= middle:
            return [*self._subproof(first, low, middle, intact=intact), self._range(middle, high)]
        return [*self._subproof(first, middle, high, intact=False), self._range(low, middle)]

    def _range(self, low: int, high: int) -> bytes:
        """Return the hash over entries ``low`` to ``high``; the largest power of two inside divides ``low``."""
        count = high - low
        if count & (count - 1) == 0:
            return self._perfect(count.bit_length() - 1, low // count)
        middle = low + _split_point(count)
        return node_hash(self._range(low, middle), self._range(middle, high))

    def _perfect(self, level: int, number: int) -> bytes:
        """Return the hash of a complete subtree: the one with that number of those with ``2 ** level`` entries."""
        known = self._known.get((level, number))
        if known is None:
            tile_level, inside = divmod(level, HEIGHT)
            tile_number, offset = divmod(number << inside, WIDTH)
            tile = self._tiles(tile_level, tile_number)
            hashes = tile[offset * HASH : (offset + (1 << inside)) * HASH]
            if len(hashes) != HASH << inside:
                raise ProofError(f"tile {tile_number} of level {tile_level} is too short")
            known = self._known[level, number] = whole(hashes)
        return known


def _split_point(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)


def proof_to_texts(proof: Iterable[bytes]) -> list[str]:
    """Return a proof as base64 texts, the form in JSON."""
    return [base64.b64encode(digest).decode() for digest in proof]


def proof_from_texts(texts: object) -> list[bytes]:
    """
    Return the proof of base64 texts; refuse texts that are not canonical base64.

    :raises ProofError: it is not a list of digests in base64.
    """
    if not isinstance(texts, list) or len(texts) > LONGEST_PROOF:
        raise ProofError("the proof is not a list of digests")
    try:
        digests = [base64.b64decode(text, validate=True) for text in texts]
    except (TypeError, ValueError, binascii.Error):
        raise ProofError("the proof is not base64") from None
    if any(len(digest) != HASH for digest in digests) or proof_to_texts(digests) != texts:
        raise ProofError("the proof has a value that is not a digest")
    return digests


def root_from_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes]) -> bytes:
    """
    Compute the root that an inclusion proof leads to (RFC 9162 section 2.1.3.2).

    :param leaf: the entry's leaf hash.
    :raises ProofError: the proof is not of the right length.
    """
    if not 0 <= index < size:
        raise ProofError(f"a tree of {size} entries has no entry {index}")
    node, last, digest = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofError("the inclusion proof is too long")
        if node & 1 or node == last:
            digest = node_hash(sibling, digest)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            digest = node_hash(digest, sibling)
        node >>= 1
        last >>= 1
    if last:
        raise ProofError("the inclusion proof is too short")
    return digest


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> None:
    """
    Check that a tree holds an entry.

    :raises ProofError: the proof does not show it.
    """
    if root_from_inclusion(index, size, leaf, proof) != root:
        raise ProofError("the inclusion proof leads to another root")


def verify_consistency(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> None:
    """
    Check that one tree continues another: RFC 9162 section 2.1.4.2.

    :raises ProofError: the proof does not show it.
    """
    if first == second:
        if proof or first_root != second_root:
            raise ProofError("trees of one size have different roots")
        return
    if not 0 < first < second:
        raise ProofError(f"a tree of {second} entries cannot continue one of {first}")
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    if not path:
        raise ProofError("the consistency proof is empty")
    node, last = first - 1, second - 1
    while node & 1:
        node >>= 1
        last >>= 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise ProofError("the consistency proof is too long")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            new = node_hash(new, sibling)
        node >>= 1
        last >>= 1
    if last or old != first_root or new != second_root:
        raise ProofError("the later tree does not continue the earlier one")
