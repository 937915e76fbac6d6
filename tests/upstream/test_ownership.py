"""Which task of an upstream belongs to whom: durable, bounded, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

from agtphost.upstream import ownership as module
from agtphost.upstream.ownership import KEEP_SECONDS, OwnedTask, TaskOwnership, is_remote_id
from agtphost.vocabulary.quotas import ITEM_KINDS
from tests.adapters.peers import Book

ALICE, BOB = "a" * 64, "b" * 64
ONE = OwnedTask(
    owner=ALICE, upstream="u", remote_id="r1", task_id="T-1", conversation="c1", session_id="S-1", state="working"
)


def test_a_link_is_found_by_each_of_its_names() -> None:
    """By Task-ID, by the upstream's id and by the session; never by another owner or at another upstream."""
    book = Book()
    links = TaskOwnership(book, "a2a-task", now=lambda: 1000.0)
    book.commit(links.changes(ONE))
    assert links.by_task(ALICE, "u", "T-1") == replace(ONE, updated=1000)
    assert links.by_remote(ALICE, "u", "r1") == replace(ONE, updated=1000)
    assert links.find_conversation(ALICE, "u", "S-1") == "c1"
    assert links.owns_conversation(ALICE, "u", "c1")
    for owner, upstream in ((BOB, "u"), (ALICE, "v")):
        assert links.by_task(owner, upstream, "T-1") is None
        assert links.by_remote(owner, upstream, "r1") is None
        assert links.find_conversation(owner, upstream, "S-1") == ""
        assert not links.owns_conversation(owner, upstream, "c1")


def test_the_newest_task_of_a_task_id_counts() -> None:
    """A Task-ID that began two tasks stands for the one that changed last."""
    book = Book()
    links = TaskOwnership(book, "a2a-task")
    book.commit(links.changes(ONE))
    book.commit(links.changes(replace(ONE, remote_id="r2")))
    found = links.by_task(ALICE, "u", "T-1")
    assert found is not None
    assert found.remote_id == "r2"
    book.commit(links.changes(replace(ONE, state="completed")))
    found = links.by_task(ALICE, "u", "T-1")
    assert found is not None
    assert found.remote_id == "r1"


def test_what_did_not_change_is_not_written() -> None:
    """Reading a task again makes no change, and so no write."""
    book = Book()
    links = TaskOwnership(book, "a2a-task", now=lambda: 1000.0)
    book.commit(links.changes(ONE))
    assert links.changes(replace(ONE, updated=0)) == ()
    changes = links.changes(replace(ONE, state="completed"))
    assert [change.expires_at for change in changes] == [(1000 + KEEP_SECONDS) * 1000]


def test_one_caller_has_so_many_links_and_no_more() -> None:
    """Beyond the bound the caller's oldest link goes; other callers lose nothing."""
    book = Book()
    links = TaskOwnership(book, "a2a-task")
    book.commit(links.changes(replace(ONE, owner=BOB)))
    for number in range(ITEM_KINDS["a2a-task"].per_owner + 5):
        book.commit(links.changes(replace(ONE, remote_id=f"r{number}", task_id=f"T-{number}")))
    assert len(list(links.list_of(ALICE, "u"))) == ITEM_KINDS["a2a-task"].per_owner
    assert links.by_task(ALICE, "u", "T-4") is None
    assert links.by_task(ALICE, "u", "T-5") is not None
    assert links.by_task(BOB, "u", "T-1") is not None


def test_identifiers_of_upstreams_are_bounded() -> None:
    """What an upstream calls its task is kept and sent back, so it is short and printable."""
    assert is_remote_id("x" * module.LONGEST_ID)
    for bad in ("", "x" * (module.LONGEST_ID + 1), "a\nb", 5, None):
        assert not is_remote_id(bad)
