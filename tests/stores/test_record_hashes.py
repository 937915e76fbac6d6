"""Hashes of sessions, tasks and paths: searches are exact, also where callers choose texts with equal hashes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from agtphost.audit.table_check import Expected, check_tables
from agtphost.identity import envelope
from agtphost.stores.record_blocks import unpack
from agtphost.stores.record_hashes import ABSENT, MOST_CHARACTERS, SHARED, RecordHashes, hash_text, pack_hashes, shorten
from agtphost.stores.record_look import RecordLook, never
from agtphost.stores.record_search import CountedBy, Search
from agtphost.testing.store_drafts import ALICE, BOB, KEYS, draft, write_drafts
from tests import postgres
from tests.rows import each_row
from tests.small_blocks import set_block
from tests.stores.test_record_blocks import SMALL, open_at


def find_alike(other: str) -> str:
    """Return a session of the same length that has the same hash as another: four octets decide any CRC-32."""
    wanted = crc32(other.encode()) & ~SHARED
    for number in count():
        text = f"s-{number:08d}-"
        if not (completed := complete(text, wanted)).isascii() or not completed.isprintable():
            continue
        return completed
    raise AssertionError


def complete(text: str, wanted: int) -> str:
    """Return a text with four characters more, so that its CRC-32 is a number."""
    table = [crc_of_octet(octet) for octet in range(256)]
    register = wanted ^ 0xFFFFFFFF
    indexes = []
    for _ in range(4):
        index = next(each for each in range(256) if table[each] >> 24 == register >> 24)
        indexes.append(index)
        register = ((register ^ table[index]) << 8) & 0xFFFFFFFF
    state = crc32(text.encode()) ^ 0xFFFFFFFF
    octets = bytearray()
    for index in reversed(indexes):
        octets.append((state ^ index) & 0xFF)
        state = table[index] ^ (state >> 8)
    return text + octets.decode("latin-1")


def crc_of_octet(octet: int) -> int:
    for _ in range(8):
        octet = octet >> 1 ^ (0xEDB88320 if octet & 1 else 0)
    return octet


SESSION = "sess-honest-0001"
POSING = find_alike(SESSION)


def test_the_posing_session_has_the_same_hash() -> None:
    assert POSING != SESSION and POSING.isprintable() and hash_text(POSING) == hash_text(SESSION)


def test_texts_with_one_hash_are_marked() -> None:
    """Each of them has to be read; a long text as well, of which no more than its hash is remembered."""
    long = "/" + "x" * MOST_CHARACTERS
    packed = pack_hashes([SESSION, "other", POSING, None, shorten(long)])
    shared = hash_text(SESSION) | SHARED
    assert list(unpack("I", packed)) == [shared, hash_text("other"), shared, ABSENT, hash_text(long) | SHARED]
    assert not hash_text("") & SHARED and shorten("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=postgres.needed)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    set_block(monkeypatch, SMALL, 2)
    made = open_at(tmp_path, request.param)
    yield made
    made.close()


def index_all(store: Any) -> None:
    while store.index_blocks():
        pass


LONG = "/" + "x" * 300
PATHS = ("/", "/orders", LONG, LONG + "y", "/ü", "")


@pytest.mark.parametrize("remembered", [True, False])
def test_searches_are_exact_among_posing_texts(store: Any, remembered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and counts have the records with the very text, whoever made others with the same hash."""
    sessions, tasks = (SESSION, POSING, "", "s3"), ("t1", "", SESSION)
    for number in range(SMALL * 12 + 2):
        write_drafts(
            store,
            draft(
                ALICE if number % 2 else BOB,
                session_id=sessions[number % 4 if number < 30 else number % 2 * 3],
                task_id=tasks[number % 3],
                path=PATHS[number % 6],
                status=200 if number % 5 else 404,
            ),
            seconds=1_000 + number,
        )
    if not remembered:
        store._facets.forget()
    index_all(store)
    reader = store.reader()
    assert RecordHashes(reader).end > SMALL * 11
    everything = [
        (record.audit_id, envelope.parse_unverified(record.format, record.signed))
        for _, record in reader.latest(None, 99, Search()).records
    ]
    assert len(everything) == SMALL * 12 + 2
    searches = [
        *(Search(session_id=text) for text in (*sessions, "none")),
        *(Search(path=path) for path in (*PATHS, LONG + "z")),
        *(Search(path=path, session_id=SESSION, status=404) for path in PATHS),
        *(Search(task_id=text, status=200, caller=ALICE) for text in (*tasks, POSING)),
        Search(session_id=SESSION, task_id="t1", path="/"),
    ]
    found_any = 0
    for search in searches:
        wanted = [audit_id for audit_id, payload in everything if search.matches(payload)]
        page = reader.latest(None, 99, search)
        assert [record.audit_id for _, record in page.records] == wanted, search
        assert sum(reader.count(CountedBy.STATUS, None, search).counts.values()) == len(wanted), search
        assert sum(reader.count(CountedBy.HOUR, None, search).counts.values()) == len(wanted), search
        assert sum(reader.summarize(9_999_999, search).facets.values()) == len(wanted), search
        found_any += bool(wanted)
    assert found_any > 12
    with store.tables() as rows:
        assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))


def test_control_who_trusts_hashes_counts_others(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at records, calls of the posing session would count as those of the honest one."""
    write_drafts(store, *(draft(session_id=POSING) for _ in range(SMALL)))
    index_all(store)
    search = Search(session_id=SESSION)
    assert not store.reader().count(CountedBy.STATUS, None, search).counts
    monkeypatch.setattr(RecordHashes, "_confirm", lambda hashes, column, text, numbers: frozenset(numbers))
    assert sum(store.reader().count(CountedBy.STATUS, None, search).counts.values()) == SMALL


def test_one_record_tells_of_all_with_its_hash(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block that only one text with the hash is in, one record is read, however many have it."""
    write_drafts(store, *(draft(session_id=SESSION) for _ in range(SMALL * 3)))
    write_drafts(store, *(draft(session_id=each) for each in (SESSION, POSING) * (SMALL // 2)))
    index_all(store)
    read: list[int] = []
    confirm = RecordHashes._confirm
    monkeypatch.setattr(RecordHashes, "_confirm", lambda *given: read.extend(given[3]) or confirm(*given))
    look = RecordLook(store.reader(), Search(session_id=SESSION), None, never)
    numbers = list(look._numbers_in_blocks(1, SMALL * 4 + 1))
    assert sorted(numbers) == [*range(1, SMALL * 3 + 1), *range(SMALL * 3 + 1, SMALL * 4, 2)]
    assert len(read) == 3 + SMALL


@each_row(
    ("statement", "row", "explanation"),
    [
        ("UPDATE record_hash SET sessions = x'00' WHERE number = 1", "1", "has not the length of a block"),
        ("UPDATE record_hash SET sessions = zeroblob(16) WHERE number = 1", "1", "sessions has 0 for record 5, whose"),
        ("UPDATE record_hash SET {paths} WHERE number = 0", "0", "for record 2, whose hash"),
        ("DELETE FROM record_hash WHERE number = 0", "0", "is not there, and block 1 is"),
        ("UPDATE record_hash SET number = 7 WHERE number = 1", "1", "is not there, and block 7 is"),
        ("INSERT INTO record_hash SELECT 2, sessions, tasks, paths FROM record_hash WHERE number = 1", "2",
         "record 10"),
    ],
)  # fmt: skip
def test_wrong_hashes_are_named(
    tmp_path_factory: pytest.TempPathFactory, statement: str, row: str, explanation: str
) -> None:
    """`agtp audit verify` names each row by which a search would miss a record, and nothing else."""
    with pytest.MonkeyPatch.context() as patched:
        set_block(patched, SMALL, 2)
        store = open_at(tmp_path_factory.mktemp("store"), "sqlite")
        write_drafts(store, *(draft(path=f"/{number}", session_id=SESSION) for number in range(9)))
        store.index_blocks()
        octets = bytearray(store._execute("SELECT paths FROM record_hash WHERE number = 0").fetchone()[0])
        octets[4] ^= SHARED
        with store.tables() as rows:
            assert not list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
            store._execute(statement.format(paths=f"paths = x'{octets.hex()}'"))
            found = list(check_tables(rows, Expected(keys=KEYS, now=2_000)))
        named = [(each.row, each.explanation) for each in found if each.table == "record_hash"]
        assert len(named) == len(found) and any(each == row and explanation in why for each, why in named), found
        store.close()


def test_a_record_that_cannot_be_read_is_the_only_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hashes cannot be compared, and another one may have been marked because of it."""
    set_block(monkeypatch, SMALL, 2)
    store = open_at(tmp_path, "sqlite")
    write_drafts(store, *(draft(session_id=each) for each in (SESSION, POSING, "a", "b")))
    store.index_blocks()
    store._execute("UPDATE record SET signed = x'00' WHERE number = 2")
    with store.tables() as rows:
        found = {(each.table, each.row) for each in check_tables(rows, Expected(keys=KEYS, now=2_000))}
    assert ("record", "2") in found and not [each for each in found if each[0] == "record_hash"]
    store.close()


def test_hashes_are_added_to_blocks_of_an_earlier_version(store: Any) -> None:
    """A host of that version writes blocks without them; searches read those records until they are there."""
    write_drafts(store, *(draft(session_id=("s1", "s2")[number % 2]) for number in range(SMALL * 3)))
    index_all(store)
    store.begin()
    store._execute("DELETE FROM record_hash WHERE number > 0")
    store.commit()
    assert len(store.reader().latest(None, 99, Search(session_id="s1")).records) == SMALL * 3 // 2
    index_all(store)
    assert RecordHashes(store.reader()).end == SMALL * 3 + 1
    assert len(store.reader().latest(None, 99, Search(session_id="s1")).records) == SMALL * 3 // 2
