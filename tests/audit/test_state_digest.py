"""The tables of state are what signed records say of them (:mod:`agtphost.audit.state_keeper`)."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import acceptance, checkpoint
from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LifecycleEvent, StaleLifecycle, StreamEvent
from agtphost.audit.state_check import findings, mentions, read_statement
from agtphost.audit.state_digest import MEMBER, RowSetHash, item_leaf, leaves_of
from agtphost.audit.state_keeper import StateContradiction, StateKeeper
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.verify import verify_records
from agtphost.audit.writer import Entry, GroupWriter, Submission
from agtphost.identity.envelope import parse_unverified
from agtphost.stores import MemoryStore, Selection, StoreError, open_store
from agtphost.stores.rows import ItemRow
from tests.audit.drafting import ALICE, BOB, KEY, KEYS, draft, payload, sealed, sqlite_store, transition
from tests.programmes import seed_of_chance

Alter = Callable[[sqlite3.Connection], object]


class Host:
    """A store with what a host's ledger has around it; a start is another one."""

    def __init__(self, store: Any, now: float = 1_000.0, **options: Any) -> None:
        self.store = store
        self.now = now
        self.tree = TreeKeeper(store, "agtp.test", KEY)
        self.keeper = StateKeeper(store, lambda: [KEY.public], **options)
        self.writer = GroupWriter(
            store,
            RecordSigner(KEY),
            server_id="agtp.test",
            now=lambda: self.now,
            tree=self.tree,
            states=self.keeper,
        )
        self.writer.load()
        self.writer.sign_baseline()

    def write(self, *drafts: Draft) -> list[Any]:
        return sealed(self.writer, *drafts)

    def put(self, key: str, n: int = 0, **more: Any) -> None:
        self.write(changing(Change(kind="escalation", key=key, value={"n": n, **more}, owner=ALICE)))

    def checkpoint(self) -> None:
        assert self.tree.catch_up() is not None

    def events(self) -> list[dict[str, Any]]:
        found = [parse_unverified(each.format, each.signed) for each in self.store.reader().records(Selection())]
        return [each for each in found if "event_type" in each]

    def named(self) -> list[tuple[str, str]]:
        return [(table, row) for table, row, _ in findings(self.store.reader())]


def changing(*changes: Change) -> Draft:
    made = draft()
    made.changes = changes
    return made


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = MemoryStore() if request.param == "memory" else sqlite_store(tmp_path)
    yield made
    made.close()


def busy(store: Any) -> Host:
    """Changes of every kind: signed by their records, by events, and by the end of a group."""
    host = Host(store)
    host.put("a")
    host.write(transition(None, "suspended"))
    host.write(transition("suspended", "active", "agent-lifecycle-reinstated"), transition(None, "retired", "x", BOB))
    linked = Change(kind="approval", key="l", value={"decided_audit_id": "", "n": 1}, linked="decided_audit_id")
    host.write(changing(linked), changing(Change(kind="quote", key="q", value={"n": 1})))
    host.write(Draft(chain=HOST_CHAIN, payload={}, changes=(Change(kind="quote", key="r", value={"n": 2}),)))
    event = StreamEvent(chain=HOST_CHAIN, event_type="rcns_contract_revoked")
    host.write(Draft(chain=HOST_CHAIN, payload={}, events=(event,), changes=(Change(kind="quote", key="s", value={}),)))
    entry = LifecycleEvent(
        agent_id="cc" * 32, event_type="agent-genesis-issued", expected_status=None, new_status="active", fields={}
    )
    host.write(Draft(chain=HOST_CHAIN, payload={}, event=entry))
    host.write(changing(Change(kind="quote", key="q", value=None), Change(kind="escalation", key="b", value={"n": 7})))
    host.checkpoint()
    host.put("a", 2)
    return host


def test_adding_and_removing_in_any_order_comes_to_the_same() -> None:
    """The digest is of a set of rows; a row that is not in it changes it."""
    chance = random.Random(seed := 24)
    print(f"seed {seed}")
    leaves = [chance.randbytes(32) for _ in range(200)]
    whole, grown = RowSetHash(), RowSetHash()
    whole.add_all(leaves)
    for leaf in chance.sample(leaves, len(leaves)):
        grown.add(leaf)
    assert whole.digest() == grown.digest() != RowSetHash().digest()
    for leaf in chance.sample(leaves, len(leaves)):
        grown.remove(leaf)
        assert grown.digest() != whole.digest()
    assert grown.digest() == RowSetHash().digest()


def test_a_leaf_covers_every_column_and_confuses_none() -> None:
    """Rows that differ in one column, or in where a text ends, have different leaves."""
    row = ItemRow("kind", "key", b"\1", 1, None, b"{}")
    others = [
        row._replace(kind="kin", key="dkey"),
        row._replace(kind="kind 3", key="key"),
        row._replace(key="key 1"),
        row._replace(owner=b""),
        row._replace(version=2),
        row._replace(expires_at=0),
        row._replace(value=b"{} "),
    ]
    assert len({item_leaf(each) for each in (row, *others)}) == len(others) + 1


def test_what_was_written_is_what_was_signed(store: Any) -> None:
    """After every kind of change another start finds nothing wrong, and neither does a verification."""
    host = busy(store)
    assert host.named() == []
    records = list(store.reader().records(Selection()))
    assert verify_records(records, KEYS).ok
    again = Host(store)
    assert again.keeper.statement_octets() == host.keeper.statement_octets()
    assert not any(each["event_type"] == "state-baseline" for each in again.events())


def test_only_what_cannot_sign_itself_costs_a_record(store: Any) -> None:
    """A record signs its own changes; of those that name their record, or have none, one event for the group does."""
    host = Host(store)
    host.put("a")
    before = store.last_number()
    host.write(draft(), draft(ALICE, method="FETCH"))
    (plain,) = store.reader().walk(ALICE, None, 1)
    assert store.last_number() == before + 2 and MEMBER not in parse_unverified(plain.format, plain.signed)
    linked = [Change(kind="approval", key=key, value={"x": ""}, linked="x") for key in "lm"]
    host.write(*(changing(each) for each in linked), changing(Change(kind="quote", key="q", value={})))
    assert store.last_number() == before + 2 + 4
    assert [each["event_type"] for each in host.events()] == ["state-changed"]


def test_the_issue_that_was_recorded_meanwhile_is_no_conflict(store: Any) -> None:
    """A transition that was decided on the document's state holds where that state was stored since, and no other."""
    host = Host(store)

    def transition_of(previous: str, new: str) -> Draft:
        fields: dict[str, object] = {"previous_status": previous}
        made = draft(HOST_CHAIN)
        made.event = LifecycleEvent(
            agent_id=ALICE, event_type=f"to-{new}", expected_status=None, new_status=new, fields=fields
        )
        return made

    host.write(transition_of("unregistered", "active"))
    host.write(transition_of("active", "suspended"))
    assert store.lifecycle_states()[ALICE].status == "suspended"
    entries: list[Entry] = [
        Submission(transition_of("active", "deprecated")),
        Submission(transition_of("unregistered", "active")),
    ]
    host.writer.write(entries)
    assert all(isinstance(each.outcome, StaleLifecycle) for each in entries)


def test_a_draft_that_fails_leaves_the_digest_as_it_was(store: Any) -> None:
    """Others of its group are written, and the next start agrees."""
    host = Host(store)
    bad = changing(Change(kind="quote", key="bad", value={"n": 1}))
    bad.payload["path"] = float("nan")
    stale = changing(Change(kind="quote", key="stale", value={}, expected=5))
    entries: list[Entry] = [
        Submission(bad),
        Submission(changing(Change(kind="quote", key="q", value={}))),
        Submission(stale),
    ]
    host.writer.write(entries)
    assert [isinstance(entry.outcome, Exception) for entry in entries] == [True, False, True]
    assert host.named() == [] and len(Host(store).writer.list_items()) == 1


def test_one_draft_that_names_a_row_twice_is_counted_as_it_ends(store: Any) -> None:
    """Removals that make room come in front of what is put in their place."""
    host = Host(store)
    host.put("a")
    host.write(
        changing(Change(kind="escalation", key="a", value=None), Change(kind="escalation", key="a", value={"n": 3}))
    )
    Host(store)
    assert host.named() == []


def test_what_expires_goes_on_record(store: Any) -> None:
    """Its removal is signed; an item that took its place before that is not taken for it."""
    host = Host(store)
    for key in "ab":
        host.write(changing(Change(kind="quote", key=key, value={}, expires_at=2_000_000)))
    host.now = 3_000.0
    host.write(changing(Change(kind="quote", key="a", value={"n": 2}, expected=0)))
    assert not host.writer.forget() and [row.key for row in host.writer.list_items()] == ["a"]
    assert [each["event_type"] for each in host.events()] == ["state-changed"]
    assert host.named() == [] and not Host(store, 3_000.0).named()
    records = store.last_number()
    host.writer.forget()
    assert store.last_number() == records


def test_octets_that_are_no_record_say_nothing(store: Any) -> None:
    """Whatever was made of a record that has a statement: it is read as one, or as nothing, and never fails."""
    chance = random.Random(seed_of_chance())
    busy(store)
    records = [row for row in store.reader().signed_after(0, 99) if mentions(row.signed)]
    assert len(records) > 5
    for _ in range(2_000):
        _, form, signed = chance.choice(records)
        octets = bytearray(signed)
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(octets))
            octets[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        statement = read_statement(chance.choice((form, "cose", "7")), bytes(octets))
        assert statement is None or len(statement.digest) == 32


def damage(store: Any, *alterations: str | tuple[str, tuple[Any, ...]]) -> None:
    """As another program."""
    with closing(sqlite3.connect(store.path)) as database, database:
        for each in alterations:
            statement, values = (each, ()) if isinstance(each, str) else each
            assert database.execute(statement, values).rowcount, each


ROWS = {
    "un-revoke": "DELETE FROM lifecycle WHERE status = 'retired'",
    "an active agent": "UPDATE lifecycle SET status = 'active' WHERE status = 'retired'",
    "another successor": "UPDATE lifecycle SET successor = 'ff' WHERE status = 'retired'",
    "an approval": "UPDATE held SET value = '{\"status\": \"accepted\"}' WHERE key = 'l'",
    "its version": "UPDATE held SET version = 9 WHERE key = 'l'",
    "its owner": "UPDATE held SET owner = x'b0' WHERE key = 'a'",
    "it never expires": "UPDATE held SET expires_at = 9 WHERE key = 'a'",
    "gone": "DELETE FROM held WHERE key = 'b'",
    "another key": "UPDATE held SET key = 'z' WHERE key = 'b'",
    "added": "INSERT INTO held VALUES ('grant', 'mine', x'', 1, NULL, '{}')",
}


@pytest.mark.parametrize("statement", ROWS.values(), ids=ROWS)
def test_a_start_is_refused_with_a_row_that_nobody_signed(tmp_path: Path, statement: str) -> None:
    """Whichever it is; the message names it and what to do, and so does a verification."""
    host = busy(sqlite_store(tmp_path))
    damage(host.store, statement.replace("'{", "CAST('{").replace("}'", "}' AS BLOB)"))
    host.store.reopen()
    table = "lifecycle" if "lifecycle" in statement else "held"
    with pytest.raises(StateContradiction, match=f"{table}: .*audit verify.*accept-store"):
        Host(host.store)
    assert host.named() and {named for named, _ in host.named()} == {table}


def test_what_an_older_copy_of_the_tables_says_is_refused(tmp_path: Path) -> None:
    """Rows, log of changes and checkpoints of an earlier time, each as it was signed then, behind newer records."""
    host = Host(sqlite_store(tmp_path))
    host.put("a")
    host.checkpoint()
    with closing(sqlite3.connect(host.store.path)) as database:
        held = database.execute("SELECT * FROM held").fetchall()
    host.write(changing(Change(kind="escalation", key="a", value=None)))
    host.write(draft())
    for cut in (False, True):
        if cut:
            host.checkpoint()
        host.store.close()
        copy = tmp_path / f"copy-{cut}.sqlite3"
        with closing(sqlite3.connect(host.store.path)) as database, closing(sqlite3.connect(copy)) as target:
            database.backup(target)
            target.execute("INSERT INTO held VALUES (?, ?, ?, ?, ?, ?)", held[0])
            target.execute("DELETE FROM state_change WHERE number > 1")
            target.execute("DELETE FROM checkpoint WHERE size > 1")
            target.commit()
        with pytest.raises(StateContradiction, match="which row is unknown"):
            Host(open_store(f"sqlite:{copy}", create=False))
        host = Host(sqlite_store(tmp_path))


def test_a_store_that_lost_its_checkpoints_is_not_taken_for_an_older_one(tmp_path: Path) -> None:
    """The records still have statements; and where there never was one, the witness file says so."""
    host = busy(sqlite_store(tmp_path))
    damage(host.store, "DELETE FROM checkpoint", "DELETE FROM state_change", "DELETE FROM lifecycle")
    with pytest.raises(StateContradiction):
        Host(host.store)
    other = tmp_path / "other"
    other.mkdir()
    empty = Host(sqlite_store(other))
    empty.write(draft())
    seen = empty.tree.catch_up()
    assert seen is not None
    damage(
        empty.store,
        "DELETE FROM checkpoint",
        ("INSERT INTO held VALUES ('grant', 'mine', x'', 1, NULL, ?)", (b"{}",)),
    )
    with pytest.raises(StateContradiction, match="held: grant mine was added"):
        Host(empty.store, notes=lambda: [seen.note])
    # The control: without either, nothing tells it from a store of a version before this one.
    assert Host(empty.store).events()[-1]["event_type"] == "state-baseline"


def test_a_store_of_an_older_version_is_signed_once(store: Any) -> None:
    """As it is, with an event that says so; from then on every row counts."""
    old = GroupWriter(store, RecordSigner(KEY), server_id="agtp.test")
    old.load()
    sealed(old, changing(Change(kind="quote", key="q", value={})), transition(None, "suspended"))
    assert not list(findings(store.reader()))
    host = Host(store)
    (said,) = [each for each in host.events() if each["event_type"] == "state-baseline"]
    assert (said["agents"], said["items"], said[MEMBER]["baseline"]) == (1, 1, True)
    host.put("a")
    again = Host(store)
    assert len([each for each in again.events() if each["event_type"] == "state-baseline"]) == 1
    assert again.named() == [] and verify_records(store.reader().records(Selection()), KEYS).ok


def test_a_record_that_no_checkpoint_covers_is_verified_at_start(tmp_path: Path) -> None:
    """A statement in it is not believed for its octets alone."""
    host = busy(sqlite_store(tmp_path))
    damage(
        host.store,
        "UPDATE record SET signed = CAST(signed || 'x' AS BLOB) WHERE number = (SELECT max(number) FROM record)",
    )
    with pytest.raises(StoreError):
        Host(host.store)


def test_what_another_process_writes_while_the_host_runs_stops_it(tmp_path: Path) -> None:
    """Every transaction is refused until the rows are those that were signed again."""
    host = busy(sqlite_store(tmp_path))
    damage(host.store, "UPDATE held SET version = version + 1 WHERE key = 'l'")
    for _ in range(2):
        with pytest.raises(StateContradiction):
            host.put("c")
    with pytest.raises(StateContradiction):
        host.tree.catch_up()
    with pytest.raises(StateContradiction):
        host.writer.recover()
    damage(host.store, "UPDATE held SET version = version - 1 WHERE key = 'l'")
    host.put("c")
    assert host.named() == []


def test_another_writer_that_signs_is_followed(tmp_path: Path) -> None:
    """Two processes with the host's key: each goes on from what the other signed."""
    one, two = Host(sqlite_store(tmp_path)), Host(sqlite_store(tmp_path))
    for n in range(4):
        one.put("a", n)
        two.put("b", n)
    assert one.named() == [] and len(Host(one.store).writer.list_items()) == 2


def test_what_is_accepted_is_on_record(tmp_path: Path) -> None:
    """Who accepts rows that contradict what was signed leaves an event that names them, and the host starts."""
    host = busy(sqlite_store(tmp_path))
    damage(host.store, ROWS["un-revoke"], "DELETE FROM state_change WHERE number = 2")
    acceptance.record(host.store, KEY, {"actor": {"uid": 0}}, server_id="agtp.test")
    again = Host(host.store)
    (said,) = [each for each in again.events() if each["event_type"] == "state-accepted"]
    assert said["differing"] == 1 and BOB in said["rows"][0] and again.named() == []
    again.put("c")
    assert again.named() == [] and verify_records(host.store.reader().records(Selection()), KEYS).ok


def test_a_number_that_leaves_none_for_the_host_is_refused(tmp_path: Path) -> None:
    """At the start, and not by the first record that finds none; an accepted store begins a new list."""
    host = busy(sqlite_store(tmp_path))
    damage(host.store, "UPDATE state_change SET number = 9223372036854775807 WHERE number = 1")
    with pytest.raises(StateContradiction, match="9223372036854775807"):
        Host(host.store)
    acceptance.record(host.store, KEY, {"actor": {"uid": 0}}, server_id="agtp.test")
    Host(host.store).put("c")
    assert host.named() == []


def test_an_item_without_a_kind_hides_no_agent(tmp_path: Path) -> None:
    """Entries about agents have no kind; an item that has none is another row all the same."""
    host = busy(sqlite_store(tmp_path))
    damage(
        host.store,
        "DELETE FROM lifecycle WHERE status = 'retired'",
        f"INSERT INTO held VALUES ('', '{BOB}', x'', 1, NULL, x'')",
    )
    with pytest.raises(StateContradiction, match="lifecycle"):
        Host(host.store)
    assert {table for table, _ in host.named()} == {"lifecycle", "held"}


def test_a_caller_cannot_say_it_in_an_event(store: Any) -> None:
    """The member is the host's alone: fields of an event that have its name are left out."""
    host = Host(store)
    forged = {MEMBER: {"digest": "00" * 32, "log": "00" * 32, "baseline": True}, "note": "x"}
    event = StreamEvent(chain=ALICE, event_type="log-written", fields=forged)
    made = Draft(chain=ALICE, payload=payload(), events=(event,))
    host.write(made)
    assert MEMBER not in host.events()[0] and host.named() == []


COLUMNS = {
    "lifecycle": ("agent_id", "status", "since", "reason", "successor", "deadline", "org_domain"),
    "held": ("kind", "key", "owner", "version", "expires_at", "value"),
    "state_change": ("number", "record", "kind", "key", "leaf"),
}


def test_every_change_and_deletion_is_named(tmp_path: Path) -> None:
    """By table and row, in each of the three tables: a value that is another, a row that is gone. Prints its seed."""
    chance = random.Random(seed_of_chance())
    host = busy(sqlite_store(tmp_path))
    reader = host.store.reader()
    with closing(sqlite3.connect(host.store.path, isolation_level=None)) as database:
        for turn in range(150):
            table = chance.choice(list(COLUMNS))
            columns = COLUMNS[table]
            rowid = {"held": "kind = ? AND key = ?", "lifecycle": "agent_id = ?", "state_change": "number = ?"}[table]
            keys = {"held": 2, "lifecycle": 1, "state_change": 1}[table]
            rows = database.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
            row = chance.choice(rows)
            place = row[:keys]
            if chance.random() < 0.3:
                database.execute(f"DELETE FROM {table} WHERE {rowid}", place)
                did = f"delete {place}"
            else:
                column = chance.randrange(len(columns))
                value = other(chance, table, columns[column], row[column])
                database.execute(f"UPDATE {table} SET {columns[column]} = ? WHERE {rowid}", (value, *place))
                did = f"{columns[column]} of {place}: {row[column]!r} to {value!r}"
            found = [(named, where) for named, where, _ in findings(reader)]
            # The row, or where its key was changed the row that it was.
            name = place[0].hex() if table == "lifecycle" else " ".join(map(str, place))
            hit = [
                where
                for named, where in found
                if named == table and (concerns(where, name, row) if table == "state_change" else where == name)
            ]
            assert hit, (turn, table, did, found)
            database.execute(f"DELETE FROM {table}")
            database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows)
            assert not list(findings(reader)), "as it was"


def concerns(where: str, name: str, row: tuple[Any, ...]) -> bool:
    """Whether what is named is the entry, or the entries that one record signed together."""
    numbers = where.removeprefix("numbers ").removeprefix("number ")
    if numbers.startswith("from "):
        return int(name) >= int(numbers.split()[1])
    first, separator, last = numbers.partition(" to ")
    if separator:
        return int(first) <= int(name) <= int(last)
    return name in numbers.split(", ")


def other(chance: random.Random, table: str, column: str, value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bytes) and value:
        place = chance.randrange(len(value))
        return value[:place] + bytes([value[place] ^ (1 << chance.randrange(8))]) + value[place + 1 :]
    if isinstance(value, int):
        return value + chance.choice((1_000, -1_000))
    if isinstance(value, str):
        return value + chance.choice("xyz ")
    if column in ("owner", "leaf", "agent_id"):
        return b"\x01" * 32
    return 5 if column == "expires_at" else "x"


def test_a_start_goes_over_the_state_once(tmp_path: Path) -> None:
    """One leaf for each row, in whatever portions they are added; prints what 200,000 of them take."""
    held = [
        ItemRow("quote", f"{n:06}", bytes(32), 1, None, b'{"n": %d, "text": "some text"}' % n) for n in range(20_000)
    ]
    began = time.process_time()
    rows = RowSetHash()
    rows.add_all(leaves_of({}, held).values())
    print(f"{(time.process_time() - began) * 10:.2f} s for 200,000")
    whole = RowSetHash()
    for row in held[:100]:
        whole.add(item_leaf(row))
    part = RowSetHash()
    part.add_all(leaves_of({}, held[:100]).values())
    assert whole.digest() == part.digest() != rows.digest()


def test_a_checkpoint_says_what_the_state_was() -> None:
    """In a line that other verifiers pass over; changed, moved or from another key it says nothing."""
    state = bytes(range(32)), bytes(range(32, 64))
    issued = checkpoint.issue("agtp.test", 7, bytes(32), KEY, state)
    plain = checkpoint.issue("agtp.test", 7, bytes(32), KEY)
    assert checkpoint.verify(issued.note, [KEY.public]).root == bytes(32)
    assert checkpoint.state_of(issued, [KEY.public]) == state and checkpoint.state_of(plain, [KEY.public]) is None
    assert checkpoint.state_of(issued, ()) == state and checkpoint.state_of(plain, ()) is None
    line = issued.note.removeprefix(plain.note)
    other = checkpoint.issue("agtp.test", 8, bytes(32), KEY)
    moved = checkpoint.read(other.note + line)
    assert checkpoint.state_of(moved, [KEY.public]) is None
    unsigned = checkpoint.issue("agtp.test", 7, bytes(32), None, state)
    assert checkpoint.state_of(unsigned, [KEY.public]) is None and checkpoint.state_of(unsigned, ()) == state
