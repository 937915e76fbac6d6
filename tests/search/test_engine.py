"""An embedder behind searches: what happens where it fails, takes its time, or is another one than before."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

from twisted.internet.defer import Deferred

from agtphost.search import engine
from agtphost.search.index import SearchEntry
from agtphost.search.vectors import VectorStore
from tests.search.hosts import Meanings, Searches

THINGS = [
    SearchEntry("merge_pull_request", "Merge a pull request."),
    SearchEntry("send_mail", "Send a letter to somebody."),
]
MEANINGS = ("land merge pull request", "post letter send mail")


def test_it_finds_what_no_word_names() -> None:
    """By meaning, and says which engine did; the control is the search by words."""
    found = Searches(THINGS, Meanings(*MEANINGS))
    assert found.names("land") == ["merge_pull_request"] and found.find("land").engine == "static"
    assert Searches(THINGS).names("land") == []


def test_one_that_fails_leaves_words() -> None:
    """The answer says so, and why; it is asked again after its rest, and not before."""
    embedder = Meanings(*MEANINGS)
    found = Searches(THINGS, embedder)
    embedder.fault = "no electricity"
    first = found.find("send land")
    assert (first.engine, first.degraded) == ("bm25", "no electricity")
    assert [number for number, _ in first.hits] == [1]
    embedder.fault = ""
    asked = len(embedder.asked)
    assert found.find("send").engine == "bm25" and len(embedder.asked) == asked
    found.clock.advance(engine.REST)
    again = found.find("land")
    assert (again.engine, again.degraded) == ("static", "") and again.hits[0][0] == 0


def test_one_that_takes_its_time_is_waited_for_a_while() -> None:
    """Then words answer, and meaning once the vectors are there; they are made once however many ask."""
    embedder = Meanings(*MEANINGS)
    embedder.holding = Deferred()
    found = Searches(THINGS, embedder)
    answers: list[object] = []
    for _ in range(3):
        found.begin("land").addCallback(answers.append)
    assert answers == []
    found.clock.advance(engine.PATIENCE)
    assert [(each.engine, each.degraded) for each in answers] == [("bm25", engine.VECTORS_PENDING)] * 3  # type: ignore[attr-defined]
    assert len(embedder.asked) == 1
    holding, embedder.holding = embedder.holding, None
    holding.callback(None)
    assert found.find("land").engine == "static"
    assert [len(texts) for texts in embedder.asked] == [2, 1]


def test_vectors_are_kept_over_restarts(tmp_path: Path) -> None:
    """In a file for its owner alone: nothing is embedded twice, and what another embedder made is thrown away."""
    path = tmp_path / "vectors.sqlite3"

    def after_restart(name: str) -> list[int]:
        store = VectorStore(path)
        embedder = Meanings(*MEANINGS, name=name)
        assert Searches(THINGS, embedder, store).names("land") == ["merge_pull_request"]
        store.close()
        return [len(texts) for texts in embedder.asked]

    assert after_restart("first") == [2, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert after_restart("first") == [1]
    assert after_restart("second") == [2, 1]
    assert after_restart("first") == [2, 1]
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT DISTINCT embedder FROM vector").fetchall() == [("first",)]


def test_a_file_that_is_none_is_made_anew(tmp_path: Path) -> None:
    """It is a cache: whatever is wrong with it costs time alone."""
    path = tmp_path / "vectors.sqlite3"
    path.write_bytes(b"no database at all, but long enough to be looked at as one" * 100)
    store = VectorStore(path)
    assert Searches(THINGS, Meanings(*MEANINGS), store).find("land").engine == "static"
    store.close()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM vector").fetchone() == (2,)


def test_vectors_of_another_length_are_not_compared() -> None:
    """A service whose model became another one: words answer, and vectors are made anew."""
    embedder = Meanings(*MEANINGS)
    found = Searches(THINGS, embedder)
    assert found.find("land").engine == "static"
    embedder._meanings.append(frozenset({"third"}))
    changed = found.find("post")
    assert changed.engine == "bm25" and "another length" in changed.degraded
    assert found.find("land").engine == "bm25"
    found.engine._queries.clear()
    assert found.find("land").engine == "static"
