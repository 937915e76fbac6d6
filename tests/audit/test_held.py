"""State items: durable with the record that made them, versioned, expiring, and the same after a restart."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.drafts import Change, Draft, Sealed, StaleChange, StreamEvent
from agtphost.audit.item_tables import ItemTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.audit.writer import Submission
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.bounds import ItemQuota
from agtphost.vocabulary.quotas import ITEM_KINDS
from tests.audit.drafting import ALICE, BOB, draft, group_writer, sqlite_store


def changing(*changes: Change) -> Draft:
    made = draft()
    made.changes = changes
    return made


def put(key: str, value: object, *, expected: int | None = None, expires_at: int | None = None) -> Change:
    return Change(
        kind="escalation", key=key, value={"is": value}, owner=ALICE, expected=expected, expires_at=expires_at
    )


def test_items_survive_a_restart_with_their_versions(tmp_path: Path) -> None:
    """Security invariant 1: what a response told of is there after the process is gone."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    writer.write([Submission(changing(put("a", 1), put("b", 1))), Submission(changing(put("a", 2, expected=1)))])
    removal = Change(kind="escalation", key="b", value=None)
    writer.write([Submission(changing(removal))])
    store.close()
    again = group_writer(sqlite_store(tmp_path))
    table = StateTable()
    table.replace(again.list_items())
    assert [(item.key, item.version, item.owner, item.value) for item in table.all("escalation")] == [
        ("a", 2, ALICE, {"is": 2})
    ]
    assert table.get("contract", "a") is None


def test_open_items_are_those_that_have_not_finished() -> None:
    """Whatever their number, counted without going through them; what has expired is none."""
    now = [1.0]
    table = StateTable(lambda: now[0])
    rows = [
        ItemRow("escalation", key, bytes.fromhex(ALICE), 1, ends, b'{"status": "%s"}' % status.encode())
        for key, status, ends in (
            *(("a", "pending", None), ("b", "pending", 5_000), ("c", "accepted", None), ("d", "rejected", None)),
        )
    ]
    table.apply(rows)
    assert table.open("escalation") == 2 and table.count("escalation") == 4
    now[0] = 6.0
    assert table.open("escalation") == 1
    table.apply([rows[0]._replace(version=2, value=b'{"status": "accepted"}')])
    assert table.open("escalation") == 0 == table.open("proposal")


def test_of_two_changes_decided_on_one_version_the_second_fails_whole(tmp_path: Path) -> None:
    """In one group or in two: neither its record nor any of its other changes is written."""
    writer = group_writer(sqlite_store(tmp_path))
    first, second = (
        Submission(changing(put("a", 1, expected=0))),
        Submission(changing(put("c", 1), put("a", 2, expected=0))),
    )
    writer.write([first, second])
    assert isinstance(first.outcome, Sealed) and isinstance(second.outcome, StaleChange)
    later = Submission(changing(put("a", 3, expected=0)))
    writer.write([later])
    assert isinstance(later.outcome, StaleChange)
    assert [(row.key, row.version) for row in writer.list_items()] == [("a", 1)]
    assert second.held == () and first.held[0].version == 1


def test_events_stand_before_the_record_in_their_own_streams(tmp_path: Path) -> None:
    """Core v08 section 6.5.7: an event is signed, chained and found in the lifecycle stream of its agent."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    made = draft()
    made.events = (
        StreamEvent(chain=ALICE, event_type="rcns_contract_issued", fields={"synthesis_id": "s"}),
        StreamEvent(chain=BOB, event_type="rcns_contract_revoked"),
    )
    submission = Submission(made)
    writer.write([submission])
    assert isinstance(submission.outcome, Sealed)
    reader = store.reader()
    newest = reader.walk(ALICE, None, 5)
    assert [(record.kind, record.seq) for record in newest] == [("record", 2), ("event", 1)]
    assert newest[0].previous_audit_id == newest[1].audit_id
    assert [record.kind for record in reader.lifecycle(BOB, 5)] == ["event"]
    followed = Submission(draft())
    writer.write([followed])
    assert isinstance(followed.outcome, Sealed) and reader.walk(ALICE, None, 1)[0].seq == 3


def test_a_change_that_is_not_json_fails_alone(tmp_path: Path) -> None:
    """A handler's mistake costs its own answer, not the group's."""
    writer = group_writer(sqlite_store(tmp_path))
    wrong, right = Submission(changing(put("a", object()))), Submission(changing(put("b", 1)))
    writer.write([wrong, right])
    assert isinstance(wrong.outcome, Exception) and isinstance(right.outcome, Sealed)
    assert [row.key for row in writer.list_items()] == ["b"]


def test_expired_items_are_absent_and_go_when_the_store_is_idle(tmp_path: Path) -> None:
    """Memory and disk are bounded by what is alive."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    writer.write([Submission(changing(put("old", 1, expires_at=5), put("young", 1, expires_at=2**50)))])
    table = StateTable(now=lambda: 6.0)
    told: list[tuple[str, StateItem | None]] = []
    table.watch("escalation", lambda key, item: told.append((key, item)))
    table.apply(writer.list_items())
    assert table.get("escalation", "old") is None
    assert [item.key for item in table.items_of("escalation", ALICE)] == ["young"]
    assert list(table.items_of("escalation", BOB)) == []
    table.prune()
    assert told[-1] == ("old", None)
    writer.tidy()
    assert [row.key for row in writer.list_items()] == ["young"]


def test_watchers_hear_of_what_a_failed_store_took_back() -> None:
    """After a COMMIT in doubt the store's word counts."""
    table = StateTable()
    told: list[tuple[str, bool]] = []
    row = ItemRow("proposal", "p", b"", 1, None, b"{}")
    table.apply([row])
    table.watch("proposal", lambda key, item: told.append((key, item is not None)))
    table.replace([])
    assert told == [("p", True), ("p", False)]


@pytest.mark.parametrize("kind", ["proposal", "contract"])
def test_kinds_are_apart(kind: str) -> None:
    """One key may stand in several kinds."""
    table = StateTable()
    table.apply([ItemRow(kind, "same", b"", 1, None, b'{"k":1}')])
    assert [item.kind for name in ("proposal", "contract") for item in table.all(name)] == [kind]


def shape(table: ItemTable) -> dict[str, Any]:
    """What a table has, and what finds it, in order."""
    found = {each.name: getattr(table, each.name) for each in fields(table)}
    found["finished"] = list(table.finished)
    found["finished_of"] = {owner: list(items) for owner, items in table.finished_of.items()}
    found["items"] = list(table.items.items())
    return found


def rows_of(holding: ItemQuota) -> list[ItemRow]:
    """Items of one kind: of two owners, finished and not, with and without what they are found by."""
    states = ["going on", None, *sorted(map(str, holding.finished))]
    rows = []
    for number in range(24):
        value: dict[str, Any] = {
            name: f"{name} {number % 3}" for name in (*holding.indexed, *holding.brief) if number % 4
        }
        value[holding.state or "other"] = states[number % len(states)]
        owner = bytes.fromhex((ALICE, BOB)[number % 2])
        ends = None if number % 3 else 5_000 + number
        rows.append(ItemRow(holding.kind, f"k{number:02}", owner, 1, ends, jsontext.encode(value)))
    return rows


@pytest.mark.parametrize("kind", sorted(ITEM_KINDS))
def test_items_of_a_start_are_found_as_those_that_are_put_one_by_one(kind: str) -> None:
    """Whatever their kind is indexed by, ends with, or counts for whom: a start only takes fewer steps."""
    rows = rows_of(ITEM_KINDS[kind])
    at_once, one_by_one = StateTable(now=lambda: 0.0), StateTable(now=lambda: 0.0)
    at_once.replace(rows)
    one_by_one.apply(rows)
    assert shape(at_once._tables[kind]) == shape(one_by_one._tables[kind])
    assert shape(at_once._tables[kind])["items"], "the control: there is something to compare"
    for table in (at_once, one_by_one):
        table.apply([row._replace(value=None) for row in rows])
    assert shape(at_once._tables[kind]) == shape(one_by_one._tables[kind])
    assert not at_once._tables[kind].loads
