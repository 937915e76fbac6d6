"""What a request costs with a database file: functions of Python and statements of SQL, alone and in groups."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import transaction
from agtphost.audit.submission_queue import EntryCollector
from agtphost.audit.writer import GroupWriter
from agtphost.stores import SQLiteStore, open_store
from agtphost.testing import MemoryHost
from agtphost.testing.ledger import PromptLedger
from tests.bench.measurement import agtp_request
from tests.dispatch.test_calls_of_one_request import nothing_as_time_passes as nothing_as_time_passes
from tests.function_calls import ROUNDS, count_functions

MOST = {1: 189, 8: 141}
"""
Functions a request, by how many are answered together. The first release that was measured had 205 and 155.
"""

STATEMENTS = 4
"""Of a group: BEGIN, a look for other writers, one INSERT of all records, COMMIT."""

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="interpreters differ in what they call a call")


class TurnLedger(PromptLedger):
    """A ledger without a thread that collects a turn's records into one group, as that of every host."""

    def __init__(self, store: Any, signer: Any, reactor: Any, **options: Any) -> None:
        super().__init__(store, signer, reactor, **options)
        self._collecting = EntryCollector(reactor, self._write_at_once)


class FileHost(MemoryHost):
    """A host in memory whose records are in a file."""

    writing = TurnLedger


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A new database file."""
    store = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=True)
    yield store
    store.close()


def sender(store: SQLiteStore, together: int) -> Callable[[], None]:
    """What has one request on each of so many connections answered."""
    host = FileHost(store=store)  # type: ignore[arg-type]
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    host.endpoint("ECHO", "/text", lambda context: dict(context.input), {"text": "string"}, output_schema=text)
    demo = host.agent("demo", scopes=["documents:query"])
    octets = agtp_request(demo.agent_id)
    connections = [host.connect(demo) for _ in range(together)]
    # A writer's thread leaves all of them open; here each would end before the next one begins.
    host.core.services.evidence.ledger.expect(lambda: together)

    def send() -> None:
        for connection in connections:
            connection.received.clear()
            connection.send(octets)
        host.clock.settle()

    for _ in range(ROUNDS):
        send()
        assert all(connection.received.startswith(b"AGTP/1.0 200 OK\r\n") for connection in connections)
    return send


def functions(store: SQLiteStore, together: int) -> Counter[str]:
    """Calls of Python functions by module, but for those of tests and of their clock."""
    send = sender(store, together)
    return count_functions(send)


@pytest.mark.parametrize("together", [1, 8])
def test_a_stored_answer_takes_no_more_functions_than_it_did(store: SQLiteStore, together: int) -> None:
    """From octets to octets, signed and committed to a file."""
    counted = functions(store, together)
    assert counted.total() / together <= MOST[together], counted.most_common(30)


@pytest.mark.parametrize("together", [1, 8])
def test_a_group_takes_four_statements(store: SQLiteStore, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records it has."""
    send = sender(store, together)
    execute, seen = store._execute, list[str]()

    def noted(statement: str, *given: Any) -> Any:
        seen.append(statement)
        return execute(statement, *given)

    monkeypatch.setattr(store, "_execute", noted)
    send()
    assert len(seen) == STATEMENTS, seen


def test_control_digests_that_nothing_needs_are_seen(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that copies the digests of the tables of state, although it changes none of them, is beyond the bound."""
    made = GroupWriter._group

    def eager(writer: GroupWriter) -> transaction.Group:
        group = made(writer)
        group._begin_tally()
        return group

    monkeypatch.setattr(GroupWriter, "_group", eager)
    assert functions(store, 1).total() > MOST[1]
