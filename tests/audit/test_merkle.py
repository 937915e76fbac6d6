"""The tree over all records: roots, growth by tiles, proofs, and every way a proof can be wrong."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.audit import merkle
from agtphost.audit.merkle import Growth, ProofError, Tree, leaf_hash, node_hash
from tests.rows import each_row

KNOWN = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
"""The entries that implementations of certificate transparency test with."""

ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""Their roots, for one entry up to eight."""


class Shelf:
    """Tiles in memory."""

    def __init__(self) -> None:
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.size = 0

    def __call__(self, level: int, number: int) -> bytes:
        return self.tiles.get((level, number), b"")

    def add(self, entries: list[bytes]) -> None:
        growth = Growth(self, self.size)
        half = len(entries) // 2
        growth.extend(entries[:half])
        for entry in entries[half:]:
            growth.add(entry)
        self.tiles.update(growth.changed_tiles())
        self.size += len(entries)

    def tree(self, size: int | None = None) -> Tree:
        return Tree(self, self.size if size is None else size)


def entries(count: int) -> list[bytes]:
    return [sha256(str(number).encode()).digest() for number in range(count)]


def plain_root(leaves: list[bytes]) -> bytes:
    """RFC 9162 section 2.1.1, word for word."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(plain_root(leaves[:k]), plain_root(leaves[k:]))


def test_known_roots() -> None:
    """The published values."""
    shelf = Shelf()
    assert shelf.tree().root() == merkle.EMPTY_ROOT == sha256(b"").digest()
    for entry, root in zip(KNOWN, ROOTS, strict=True):
        shelf.add([entry])
        assert shelf.tree().root().hex() == root


@each_row("count", [1, 255, 256, 257, 511, 512, 700, 65_536, 65_537, 66_000])
def test_tiles_say_what_the_definition_says(count: int) -> None:
    """However the entries arrive, the tree is that of RFC 9162, over one, two and three levels of tiles."""
    every = entries(count)
    leaves = [leaf_hash(entry) for entry in every]
    shelf, at = Shelf(), 0
    for step in (1, 7, 200, 300, 5_000, count):
        shelf.add(every[at : at + step])
        at = min(at + step, count)
    assert shelf.size == count
    assert shelf.tree().root() == plain_root(leaves)
    assert shelf.tree(count // 2 or 1).root() == plain_root(leaves[: count // 2 or 1])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_proofs_prove(data: st.DataObject) -> None:
    """Every entry of every tree, and every pair of sizes."""
    size = data.draw(st.integers(1, 700))
    shelf = Shelf()
    shelf.add(entries(size))
    tree, root = shelf.tree(), shelf.tree().root()
    index = data.draw(st.integers(0, size - 1))
    merkle.verify_inclusion(index, size, leaf_hash(entries(size)[index]), tree.inclusion(index), root)
    first = data.draw(st.integers(1, size))
    merkle.verify_consistency(first, shelf.tree(first).root(), size, root, tree.consistency(first))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_changed_proof_proves(data: st.DataObject) -> None:
    """T-AU: one flipped bit in proof, entry or root, a moved index, a step more or less."""
    size = data.draw(st.integers(2, 300))
    shelf = Shelf()
    shelf.add(entries(size))
    index = data.draw(st.integers(0, size - 1))
    leaf, root = leaf_hash(entries(size)[index]), shelf.tree().root()
    proof = shelf.tree().inclusion(index)
    bit = data.draw(st.integers(0, 255))

    def flipped(octets: bytes) -> bytes:
        changed = bytearray(octets)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    step = data.draw(st.integers(0, len(proof) - 1))
    wrong = [
        (index, size, flipped(leaf), proof, root),
        (index, size, leaf, proof, flipped(root)),
        (index, size, leaf, [*proof[:step], flipped(proof[step]), *proof[step + 1 :]], root),
        (index, size, leaf, proof[:-1], root),
        (index, size, leaf, [*proof, root], root),
        ((index + 1) % size, size, leaf, proof, root),
    ]
    for arguments in wrong:
        with pytest.raises(ProofError):
            merkle.verify_inclusion(*arguments)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 299))
def test_a_rewritten_past_is_not_continued(first: int, more: int, at: int) -> None:
    """A tree in which one earlier entry differs has no consistency proof with the earlier root."""
    old, new = Shelf(), Shelf()
    old.add(entries(first))
    changed = entries(first + more)
    changed[at % first] = b"\x00" * 32
    new.add(changed)
    proof = new.tree().consistency(first)
    with pytest.raises(ProofError):
        merkle.verify_consistency(first, old.tree().root(), first + more, new.tree().root(), proof)


@pytest.mark.parametrize("first", [0, 4])
def test_impossible_proofs_are_refused(first: int) -> None:
    """Nothing continues a longer tree, and an empty one needs no proof."""
    shelf = Shelf()
    shelf.add(entries(3))
    with pytest.raises(ProofError):
        shelf.tree().consistency(first)
    with pytest.raises(ProofError):
        merkle.verify_consistency(first, b"", 3, b"", [])
    with pytest.raises(ProofError):
        shelf.tree().inclusion(3)
    with pytest.raises(ProofError):
        merkle.verify_inclusion(3, 3, b"", [], b"")


def test_short_consistency_proofs_are_refused() -> None:
    """Empty, one step short, one too long, or given for equal sizes."""
    shelf = Shelf()
    shelf.add(entries(7))
    old, root = shelf.tree(3).root(), shelf.tree().root()
    proof = shelf.tree().consistency(3)
    merkle.verify_consistency(3, old, 7, root, proof)
    for wrong in ([], proof[:-1], [*proof, root], proof[1:]):
        with pytest.raises(ProofError):
            merkle.verify_consistency(3, old, 7, root, wrong)
    merkle.verify_consistency(7, root, 7, root, [])
    with pytest.raises(ProofError):
        merkle.verify_consistency(7, old, 7, root, [])


def test_a_damaged_tile_is_noticed() -> None:
    """A tile with too few hashes gives no proof at all."""
    shelf = Shelf()
    shelf.add(entries(300))
    shelf.tiles[0, 0] = shelf.tiles[0, 0][:-32]
    with pytest.raises(ProofError):
        shelf.tree().inclusion(254)
