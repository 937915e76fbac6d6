"""Requirements of searches in a store, a part of :mod:`agtphost.testing.stores`."""

from __future__ import annotations

from typing import Any

from agtphost.audit.drafts import Draft, Sealed, StoredRecord
from agtphost.iagtp import IChainStore, IRecordReader
from agtphost.stores import Search
from agtphost.stores.record_search import LOOKED_INSIDE, CountedBy
from agtphost.stores.record_summary import RecordSummary
from agtphost.stores.rows import NO_FACET
from agtphost.testing.store_drafts import ALICE, BOB, draft, row, write_drafts
from agtphost.vocabulary.display_names import CLAIMED, UNKNOWN


def _find_all(reader: IRecordReader, search: Search) -> list[tuple[int, StoredRecord]]:
    """Return all records of a search, read in pages of two, each of which is newest first and has each record once."""
    found: list[tuple[int, StoredRecord]] = []
    before: int | None = None
    while True:
        page = reader.latest(before, 2, search)
        assert len(page.records) <= 2 and not page.damaged
        found += page.records
        before = page.before
        if before is None:
            numbers = [number for number, _ in found]
            assert numbers == sorted(set(numbers), reverse=True)
            return found


def _summarize(reader: IRecordReader, search: Search) -> RecordSummary:
    """Sum up the first ten minutes; on a busy machine a look may end before it came to the beginning."""
    for _ in range(100):
        found: RecordSummary = reader.summarize(600_000, search)
        if found.is_complete:
            break
    assert found.is_complete, search
    return found


class SearchCases:
    """Requirements of searches; every case starts with an empty store."""

    @staticmethod
    def written(store: IChainStore, *drafts: Draft, seconds: float = 1_000.0) -> list[Sealed]:
        """Write a group at that time, as the host does, and return the result of each draft."""
        return write_drafts(store, *drafts, seconds=seconds)

    def test_a_search_finds_the_latest_of_all_chains(self, store: IChainStore) -> None:
        """A search finds the newest first, by columns and by signed members, in pages, each record once."""
        for number in range(12):
            refused = {"status": 403, "reason": "scope-missing"} if number % 3 == 0 else {}
            one = draft(ALICE, method="FETCH" if number % 2 else "QUERY", path=f"/orders/{number % 2}", **refused)
            other = draft(BOB, caller_id="" if number % 2 else ALICE, task_id=f"task-{number % 4}")
            self.written(store, one, other, seconds=1_000 + number)
        reader = store.reader()
        every = reader.latest(None, 100, Search())
        assert [number for number, _ in every.records] == list(range(24, 0, -1)) and every.before is None
        assert not every.damaged and {record.chain for _, record in every.records} == {ALICE, BOB}
        for search, expected in (
            (Search(chain=ALICE), 12),
            (Search(chain="cc" * 32), 0),
            (Search(caller=BOB), 12),
            (Search(caller=""), 6),
            (Search(agent=ALICE), 18),
            (Search(method="FETCH", path="/orders/1"), 6),
            (Search(status=403), 4),
            (Search(status_class=4), 4),
            (Search(status_class=5), 0),
            (Search(reason="scope-missing", method="QUERY"), 2),
            (Search(task_id="task-3"), 3),
            (Search(task_id="task-3", chain=ALICE), 0),
            (Search(since=1_003_000, until=1_005_000), 4),
            (Search(since=9_999_000), 0),
            (Search(text=("SCOPE-missing",)), 4),
            (Search(text=("orders/1", "scope")), 2),
        ):
            assert len(_find_all(reader, search)) == expected, search
        assert [number for number, _ in reader.latest(3, 9, Search()).records] == [2, 1]

    def test_a_search_finds_records_by_every_column(self, store: IChainStore) -> None:
        """Tool, person, operator, session and task find their records, with any characters."""
        odd = ("t", 'a "quoted" one', "back\\slash", "Übung", "nul\0", "x" * 300, "%", "_")
        for number, text in enumerate(odd):
            members = {"session_id": text, "task_id": text, "acting_principal_id": text, "path": f"/{number}"}
            called = draft(method="EXECUTE", extra={"mcp_server": "files", "mcp_tool": text}, **members)
            acted = draft(operator={"name": text, "key": f"key-{number}"}, caller_id="")
            self.written(store, called, acted)
        reader = store.reader()
        for number, text in enumerate(odd):
            for search in (
                Search(task_id=text),
                Search(session_id=text),
                Search(person=text),
                Search(path=f"/{number}"),
                Search(tool=f"files.{text}"),
                Search(operator=text),
                Search(operator=f"key-{number}"),
                Search(operator=text, caller=""),
            ):
                assert len(_find_all(reader, search)) == 1, search
        assert len(_find_all(reader, Search(tool="files.*"))) == len(odd)
        assert not _find_all(reader, Search(tool="file.*")) and not _find_all(reader, Search(task_id="tt"))

    def test_invented_names_are_found_without_facets(self, store: IChainStore) -> None:
        """Methods and callers that requests invented are found and counted, and no facet has them."""
        claimed = {"identity_assurance": "header"}
        proven = {"identity_assurance": "certificate", "caller_principal_id": "Acme"}
        refused = {"status": 404, "reason": "not-found", "caller_id": ""}
        for number in range(5):
            self.written(
                store,
                draft("", method=f"MADEUP{number}", **refused),
                draft("", caller_id=f"{number:064x}", **claimed),
                draft(ALICE, caller_id=f"{number:064x}", tier="B", **claimed),
                draft("", method="EXECUTE", extra={"action": f"made-{number}", "tool": f"made-{number}"}, **refused),
                draft("", method="EXECUTE", tier="B", extra={"mcp_server": "s", "mcp_tool": f"made-{number}"}
                      | {"unlisted": True}, **refused),
                draft("", method="EXECUTE", tier="B", extra={"action": f"made-{number}", "unlisted": True}),
            )  # fmt: skip
        known = draft(ALICE, method="CUSTOM", tier="B", status=403, reason="scope-required", **proven)
        action = draft(ALICE, method="EXECUTE", tier="B", extra={"action": "reserve-room"}, **proven)
        self.written(store, known, action, draft("", method="QUERY", **refused))
        reader = store.reader()
        for search, expected in (
            (Search(method="MADEUP3"), 1),
            (Search(method="MADEUP3", status=200), 0),
            (Search(method="MADEUP9"), 0),
            (Search(method="CUSTOM"), 1),
            (Search(method="QUERY", status=404), 1),
            (Search(method="EXECUTE"), 16),
            (Search(caller=f"{3:064x}"), 2),
            (Search(caller=f"{3:064x}", chain=ALICE), 1),
            (Search(agent=f"{3:064x}"), 2),
            (Search(agent=ALICE), 7),
            (Search(agent=ALICE, caller=f"{3:064x}"), 1),
            (Search(agent=BOB, caller=f"{3:064x}"), 0),
            (Search(caller=f"{9:064x}"), 0),
            (Search(caller=""), 16),
            (Search(caller=BOB), 7),
            (Search(caller=f"{3:064x}", method="QUERY", path="/orders"), 2),
            (Search(tool="reserve-room"), 1),
            (Search(tool="made-3"), 0),
            (Search(tool="s.*"), 0),
            (Search(text=("made-3",)), 3),
        ):
            assert len(_find_all(reader, search)) == expected, search
            if not search.text:
                assert sum(reader.count(CountedBy.STATUS, None, search).counts.values()) == expected, search
                assert sum(reader.count(CountedBy.HOUR, None, search).counts.values()) == expected, search
        by_tool = dict(reader.count(CountedBy.TOOL, None, Search()).counts)
        assert by_tool == {UNKNOWN: 5, "QUERY": 11, "EXECUTE": 15, "CUSTOM": 1, "reserve-room": 1}
        assert dict(reader.count(CountedBy.AGENT, None, Search()).counts) == {"": 16, CLAIMED: 10, BOB: 7}

    def test_a_search_skips_what_it_does_not_want(self, store: IChainStore) -> None:
        """A search finds the only record of its kind behind many others in one look, or none."""
        store.begin()
        chain = store.chain_number(ALICE)
        rows = [row(chain, each, each, each - 1)._replace(audit_id=each.to_bytes(32)) for each in range(1, 20_001)]
        rare = NO_FACET._replace(status=500, tool="rare")
        rows[2] = rows[2]._replace(facet=rare, task="t", path="/" + "r" * 5_000)
        store.append(rows)
        store.commit()
        reader = store.reader()
        for search in (Search(status=500), Search(tool="rare"), Search(task_id="t"), Search(path="/" + "r" * 5_000)):
            assert dict(reader.count(CountedBy.TOOL, None, search).counts) == {"rare": 1}, search
        for search in (Search(status=501), Search(tool="other"), Search(path="/" + "r" * 4_999)):
            found = reader.latest(None, 5, search)
            assert (list(found.records), found.before) == ([], None), search

    def test_a_search_for_text_ends(self, store: IChainStore) -> None:
        """A look for text decodes a bounded number of records, and the next one goes on there."""
        self.written(store, *(draft(reason="hay" if each else "needle") for each in range(LOOKED_INSIDE + 1)))
        reader = store.reader()
        assert [number for number, _ in _find_all(reader, Search(text=("needle",)))] == [1]

    def test_the_last_call_of_each_agent_is_found(self, store: IChainStore) -> None:
        """However many records came later; a caller that only claimed who it is has not called."""
        self.written(store, draft(ALICE, caller_id=BOB, status=403, reason="scope-missing"), seconds=10)
        self.written(store, draft(ALICE, caller_id=BOB), draft(BOB, caller_id=ALICE), seconds=20)
        claimed = {"identity_assurance": "header"}
        for number in range(6):
            self.written(store, draft(BOB, caller_id=ALICE), draft("", caller_id=BOB, **claimed), seconds=30 + number)
        found = store.reader().last_calls([ALICE, BOB, "cc" * 32])
        assert dict(found) == {ALICE: 35_000, BOB: 20_000}
        assert dict(store.reader().last_calls([])) == {}

    def test_records_are_counted(self, store: IChainStore) -> None:
        """Counts by tool, agent, operator, status and hour are those of the records that a search finds."""
        for hour in range(3):
            tool = draft(method="EXECUTE", extra={"mcp_server": "files", "mcp_tool": "read"}, status=200 + hour)
            looked = draft(caller_id="", operator={"name": "anna", "key": "sha256:00"})
            self.written(store, tool, looked, seconds=hour * 7_200 + 30)
        reader = store.reader()
        for by, search, expected in (
            (CountedBy.TOOL, Search(), {"files.read": 3, "QUERY": 3}),
            (CountedBy.TOOL, Search(since=7_200_000), {"files.read": 2, "QUERY": 2}),
            (CountedBy.AGENT, Search(), {BOB: 3, "": 3}),
            (CountedBy.OPERATOR, Search(), {"anna": 3, "": 3}),
            (CountedBy.STATUS, Search(tool="files.read"), {"200": 1, "201": 1, "202": 1}),
            (CountedBy.HOUR, Search(caller=BOB), {f"1970-01-01T0{hour}:00Z": 1 for hour in (0, 2, 4)}),
            (CountedBy.HOUR, Search(since=7_200_000, until=7_260_000), {"1970-01-01T02:00Z": 2}),
            (CountedBy.HOUR, Search(tool="none"), {}),
        ):
            assert dict(reader.count(by, None, search).counts) == expected, (by, search)
        assert dict(reader.count(CountedBy.TOOL, 3, Search()).counts) == {"files.read": 1, "QUERY": 1}

    def test_records_are_summed_up(self, store: IChainStore) -> None:
        """A summary counts what a search finds by slots of time and by facet, with what was refused."""
        for minute in range(10):
            refused: dict[str, Any] = {"status": 403, "reason": "scope-missing"} if minute % 5 == 0 else {}
            tool = draft(method="EXECUTE", extra={"mcp_server": "files", "mcp_tool": "read"}, **refused)
            looked = draft(method="INSPECT", caller_id="", operator={"name": "anna", "key": "sha256:00"})
            self.written(store, tool, looked, seconds=minute * 60)
        reader = store.reader()
        found = _summarize(reader, Search(reads=False, since=0))
        assert (found.since, found.until, found.width, found.is_complete) == (0, 600_000, 15_000, True)
        assert [slot.begin for slot in found.slots] == list(range(0, 600_000, 15_000))
        assert [slot.records for slot in found.slots][::4] == [1] * 10
        assert [slot.refused for slot in found.slots][::4] == [1, 0, 0, 0, 0] * 2
        assert sum(slot.records for slot in found.slots) == sum(found.facets.values()) == 10
        assert not any(slot.events for slot in found.slots)
        assert {(facet.tool, facet.status): count for facet, count in found.facets.items()} == {
            ("files.read", 200): 8,
            ("files.read", 403): 2,
        }
        for search, expected in (
            (Search(), 20),
            (Search(method="INSPECT"), 10),
            (Search(since=60_000, until=120_000), 2),
            (Search(since=90_000, until=100_000), 0),
            (Search(since=700_000), 0),
            (Search(path="/none"), 0),
            (Search(tool="none"), 0),
        ):
            found = _summarize(reader, search)
            assert sum(found.facets.values()) == sum(slot.records for slot in found.slots) == expected, search

    def test_events_are_no_calls_without_a_caller(self, store: IChainStore) -> None:
        """A search for calls without an agent finds the number that is counted for no agent."""
        event = draft(event="suspended", method="", status=200, caller_id="")
        self.written(store, draft(), event, draft(caller_id=""), event, draft(caller_id="", status=403, reason="x"))
        reader = store.reader()
        assert len(_find_all(reader, Search(caller=""))) == 2
        counted = dict(reader.count(CountedBy.AGENT, None, Search()).counts)
        assert counted[""] == 2 and sum(counted.values()) == 5, counted

    def test_events_and_held_calls_are_counted_apart(self, store: IChainStore) -> None:
        """An agent's suspension is a record and no call; a call that waits for a person was not refused."""
        held = draft(status=202, reason="approval-required")
        self.written(store, draft(), draft(event="suspended", method="", status=0), draft(), held, seconds=0)
        [slot] = _summarize(store.reader(), Search(since=0, until=1_000)).slots
        assert (slot.records, slot.events, slot.refused) == (4, 1, 0)

    def test_new_facets_are_those_without_an_earlier_record(self, store: IChainStore) -> None:
        """A facet with a record before the time is not new, although it has one after it."""
        self.written(store, draft(status=200), draft(status=403), seconds=10)
        self.written(store, draft(status=403), draft(status=404), seconds=20)
        new, others = store.reader().new_facets(20_000)
        assert [facet.status for facet in new] == [404]
        assert sorted(facet.status for facet in others) == [200, 403]
