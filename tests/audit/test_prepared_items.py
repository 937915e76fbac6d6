"""State items that were made ready before their transaction are stored, and signed, as all others are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agtphost.audit.drafts import Change, Sealed, StaleChange
from agtphost.audit.prepared_items import prepare, whole_batch
from agtphost.audit.state_digest import RowSetHash, leaves_of
from agtphost.audit.state_item import SHORT
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.transaction import Submission
from agtphost.audit.writer import GroupWriter
from agtphost.vocabulary.jsontext import KEPT_DEPTH
from agtphost.vocabulary.quotas import COLLECTION_ITEM
from tests.audit.drafting import KEY, draft, group_writer, sqlite_store

OWNER = "ab" * 32


def change(key: str, octets: int = 10, expected: int = 0, expires_at: int | None = None) -> Change:
    """An item of a collection."""
    value = {
        "collection": "goods",
        "id": key,
        "owner": OWNER,
        "share": [OWNER, "p"],
        "data": "x" * octets,
        "work": {"n": 1},
    }
    return Change(kind=COLLECTION_ITEM, key=key, value=value, owner=OWNER, expected=expected, expires_at=expires_at)


class Books:
    """A store, and what writes to it."""

    def __init__(self, folder: Path) -> None:
        self.store = sqlite_store(folder)
        self.states = self.keeper()
        self.now = 1000.0
        self.writer = self.opened(self.states)

    def opened(self, states: StateKeeper) -> GroupWriter:
        """A start, which compares the rows with what was signed."""
        return group_writer(self.store, states=states, now=lambda: self.now)

    def write(self, *changes: Change) -> Submission:
        made = draft()
        made.changes = changes
        submission = Submission(made)
        self.writer.write([submission])
        return submission

    def require_signed(self) -> None:
        """The digest is that of the rows, and a start believes them."""
        rows = RowSetHash()
        rows.add_all(leaves_of({}, self.store.list_items()).values())
        assert self.states.statement_octets() is not None
        assert self.states.statement_octets()[0] == rows.digest()  # type: ignore[index]
        self.opened(self.keeper())

    def keeper(self) -> StateKeeper:
        """What signs the rows, and knows none of them yet."""
        return StateKeeper(self.store, keys=lambda: [KEY.public])


def test_prepared_items_are_those_that_the_transaction_would_make(tmp_path: Path) -> None:
    """Row, digest and what memory keeps are the same, short or long, new or another version."""
    plain, ready = Books(made(tmp_path / "a")), Books(made(tmp_path / "b"))
    for expected in (0, 1):
        changes = [change(f"k{n}", octets, expected) for n, octets in enumerate((10, SHORT, 5_000))]
        one, other = plain.write(*changes), ready.write(*prepare(changes))
        assert one.held == other.held and one.items == other.items
        plain.require_signed()
        ready.require_signed()
    assert plain.store.list_items() == ready.store.list_items()
    assert [item.version for item in ready.store.list_items()] == [2, 2, 2]
    plain.store.close()
    ready.store.close()


def test_a_prepared_item_of_another_version_is_refused_with_all_others(tmp_path: Path) -> None:
    """Nothing of the draft is stored, and the digest is as it was."""
    books = Books(tmp_path)
    books.write(*prepare([change("a")]))
    before = books.store.list_items()
    outcome = books.write(*prepare([change("b"), change("a")])).outcome
    assert isinstance(outcome, StaleChange)
    assert books.store.list_items() == before
    books.require_signed()
    books.store.close()


def test_an_item_that_takes_the_place_of_its_expired_self_is_counted_once(tmp_path: Path) -> None:
    """An expired item counts as absent, and may come again just as it was."""
    books = Books(tmp_path)
    items = [change("a", expires_at=1_001_000), change("b", expires_at=1_001_000)]
    books.write(*prepare(items))
    books.now = 1002.0
    outcome = books.write(*prepare(items)).outcome
    assert isinstance(outcome, Sealed)
    books.require_signed()
    books.store.close()


def test_a_part_of_what_was_prepared_together_is_counted_by_itself(tmp_path: Path) -> None:
    """The digest of the whole batch stands for all of its items, or is not used."""
    books = Books(tmp_path)
    changes = prepare([change("a"), change("b"), change("c")])
    assert whole_batch(changes) is not None and whole_batch(changes[:2]) is None and whole_batch(()) is None
    mixed = (*changes[:2], change("d"))
    assert whole_batch(mixed) is None
    for part in (mixed, changes[2:]):
        assert isinstance(books.write(*part).outcome, Sealed)
        books.require_signed()
    books.store.close()


def test_what_cannot_be_known_before_is_left_to_the_transaction() -> None:
    """Removals, changes of any version, those with the Audit-ID of their record, and what is too deep."""
    each = (
        replace(change("a"), value=None),
        replace(change("a"), expected=None),
        replace(change("a"), linked="audit_id"),
        replace(change("a"), value=nested_object(KEPT_DEPTH)),
    )
    assert [made.prepared for made in prepare(each)] == [None] * 4


def nested_object(depth: int) -> dict[str, object]:
    """An object of arrays inside each other."""
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return {"data": found}


def made(folder: Path) -> Path:
    """A folder that is there."""
    folder.mkdir()
    return folder
