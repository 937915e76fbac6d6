"""Repeated reads of an unchanged list by one caller: one record, and a count in a summary."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.audit.drafts import StreamEvent
from agtphost.audit.list_reads import LISTS, MOST_LISTS, ListReads
from agtphost.audit.summaries import READS, Summaries
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import LISTS as LISTS_OF_HOST
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.refusals import RefusalLimits, RefusalRecords
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.identity.peer import Assurance, Peer
from agtphost.testing import MemoryHost
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from tests.dispatch.hosts import CALLER, HOSTED, BuiltInRecorder, DispatchHost, certificate
from tests.rows import each_row

LIMITS = RefusalLimits(agent=100, address=100, strangers=100, reads=100, strangers_reads=100)


class Listed:
    """A host with the list ``QUERY /things``, whose answer and whose time a test sets."""

    def __init__(self, *, lists: bool = True, reads: int = 100, strangers_reads: int = 100, **changes: Any) -> None:
        self.now = 1_000.0
        self.answer: Any = {"things": ["a"]}
        binding = Binding(
            method="QUERY",
            path="/things",
            handler=BuiltInRecorder(lambda context: self._answer()),
            tier="A",
            min_assurance=Assurance.NONE,
            state_changing=False,
            listing=True,
        )
        self.memory = DispatchHost(bindings=[replace(binding, **changes)])
        self.summaries = Summaries(lambda: self.now)
        self.refusals = RefusalRecords(
            replace(LIMITS, lists=lists, reads=reads, strangers_reads=strangers_reads),
            self.summaries,
            self.memory.ledger,
        )
        own, running = self.memory.core.admission, self.memory.core.services.lasting.running
        self.dispatcher = Dispatcher(
            self.memory.gates, self.memory.ledger, own.sealer, self.memory.clock, 30.0, running, self.refusals
        )

    def _answer(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer

    def read(self, path: str = "/things", peer: Peer | None = None, **headers: str) -> Response:
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        line = f"AGTP/1.0 QUERY {path}\r\n".encode()
        plain, _, query = path.partition("?")
        request = Request(method="QUERY", path=plain, query=query, headers=Headers(fields), body=b"", line=line)
        answers: list[Response] = []
        waiting = self.dispatcher.dispatch(request, peer or certified_peer())
        Deferred.fromCoroutine(waiting).addCallback(answers.append)
        self.memory.clock.advance(1)
        [answer] = answers
        return answer

    def take(self) -> list[StreamEvent]:
        return [event for event in self.summaries.take() if event.event_type == LISTS]

    @property
    def recorded(self) -> int:
        return len(self.memory.ledger.drafts)


def certified_peer(**changes: Any) -> Peer:
    return Peer(address="203.0.113.9", certificate=certificate(**changes))


def test_a_list_that_is_read_again_is_counted() -> None:
    """The first read has a record; the summary names it, the caller, the list, both hashes, the count and the times."""
    host = Listed()
    first = host.read(Session_ID="s-1")
    assert host.recorded == 1 and first.headers.get("audit-summary") is None
    again = []
    for _ in range(5):
        host.now += 2
        again.append(host.read(Session_ID="s-1"))
    assert host.recorded == 1
    assert {answer.body for answer in again} == {first.body}
    record = host.memory.ledger.drafts[0].payload
    [event] = host.take()
    fields = event.fields
    assert {answer.headers.get("audit-summary") for answer in again} == {fields["summary_id"]}
    assert all(draft.payload["summary_id"] == fields["summary_id"] for draft in host.memory.ledger.undurable)
    assert (fields["caller_id"], fields["identity_assurance"], fields["count"]) == (CALLER, "certificate", 5)
    [entry] = fields["lists"]
    assert entry == {
        "record": first.headers.get("audit-id"),
        "method": "QUERY",
        "path": "/things",
        "request_hash": record["request_hash"],
        "result_hash": record["result_hash"],
        "count": 5,
        "since": "1970-01-01T00:16:42.000Z",
        "until": "1970-01-01T00:16:50.000Z",
        "sessions": ["s-1"],
    }
    assert (fields["since"], fields["until"]) == (entry["since"], entry["until"])
    assert "5 further reads of unchanged lists, QUERY /things" in fields["explanation"]
    assert host.take() == [] and host.summaries.waiting == 0


def test_one_further_read_is_told_in_the_singular() -> None:
    """The explanation of a summary is read by people."""
    host = Listed()
    host.read()
    host.read()
    [event] = host.take()
    assert event.fields["explanation"].startswith("1 further read of unchanged lists")


def test_a_counted_list_and_a_strangers_read_name_their_summary_alike() -> None:
    """Both answers have Audit-Summary, and the Audit-ID of a signed record that is in no chain."""
    host = Listed(reads=1, strangers_reads=1)
    for _ in range(2):
        answers = [host.read(), host.read(peer=Peer(address="203.0.113.9"))]
    records = [draft.payload for draft in host.memory.ledger.undurable]
    assert host.recorded == 2 and len(records) == 2
    [events] = [host.summaries.take()]
    assert sorted(event.event_type for event in events) == sorted((LISTS, READS))
    assert {event.fields["summary_id"] for event in events} == {record["summary_id"] for record in records}
    for answer, record in zip(answers, records, strict=True):
        assert answer.headers.get("audit-summary") == record["summary_id"]
        assert answer.headers.get("audit-id") == answer.audit_id != ""
    of_list, of_stranger = ({name.lower() for name, _ in answer.headers} for answer in answers)
    assert of_list == of_stranger
    assert set(records[0]) - {"caller_principal_id"} == set(records[1])


@pytest.mark.parametrize("takes", [True, False])
def test_each_minute_has_a_record_of_its_own(takes: bool) -> None:
    """After a minute the next read has a record, whether summaries were written in between or not."""
    host = Listed()
    for _ in range(10):
        host.read()
        host.now += 15
        if takes:
            host.take()
    assert host.recorded == 3


def test_a_changed_list_has_a_record() -> None:
    """Counts before the change stay with the earlier record, and those after it belong to the new one."""
    host = Listed()
    ids = [host.read().headers.get("audit-id")]
    host.read()
    host.answer = {"things": ["a", "b"]}
    ids.append(host.read().headers.get("audit-id"))
    for _ in range(3):
        host.read()
    assert host.recorded == 2
    [event] = host.take()
    assert {entry["record"]: entry["count"] for entry in event.fields["lists"]} == {ids[0]: 1, ids[1]: 3}
    assert event.fields["count"] == 4


def test_the_task_of_a_request_makes_no_other_list() -> None:
    """An envelope that repeats the Task-ID is the same list."""
    host = Listed()
    answers = [host.read(Task_ID=f"t-{number}") for number in range(4)]
    assert host.recorded == 1 and json.loads(answers[3].body)["task_id"] == "t-3"


OTHERS: dict[str, Any] = {
    "another query": {"path": "/things?of=x"},
    "another certificate": {"peer": certified_peer(sha256="d" * 64)},
    "a new session": {"Session_ID": "s-2"},
    "a front": {"peer": replace(certified_peer(), http={"surface": "gateway", "client": "c"})},
    "an inner call": {"peer": replace(certified_peer(), depth=1)},
    "a keyed request": {"Idempotency_Key": "k"},
    "a stranger": {"peer": Peer(address="203.0.113.9")},
    "a header": {"peer": Peer(address="203.0.113.9"), "Agent_ID": CALLER},
}


@each_row(("what", "given"), list(OTHERS.items()))
def test_what_is_another_read_has_a_record(what: str, given: dict[str, Any]) -> None:
    """Only the same caller with the same request, from outside and with nothing that depends on it, is counted."""
    host = Listed()
    host.read()
    host.read(**given)
    assert host.recorded == 2, what


def acting() -> Answer:
    return Answer(result={}, events=(StreamEvent(chain=HOSTED, event_type="happened"),))


@each_row(
    ("answer", "changes"),
    [
        (acting, {}),
        (lambda: Answer(result={}, extra={"page_feed": 1}), {}),
        (lambda: Answer(result={}, status=201), {}),
        (Refusal(Reason.UNKNOWN_RESOURCE), {}),
        ({"things": []}, {"state_changing": True}),
        ({"things": []}, {"listing": False}),
    ],
)
def test_what_acts_or_is_refused_is_never_summed_up(answer: Any, changes: dict[str, Any]) -> None:
    """Every answer that changes something, says something more, or is no list, has a record."""
    host = Listed(**changes)
    host.answer = answer
    for _ in range(3):
        host.read()
    assert host.recorded == 3 and host.take() == []


def test_the_operator_turns_it_off() -> None:
    """With ``list_summaries = false`` each read has a record."""
    host = Listed(lists=False)
    for _ in range(3):
        host.read()
    assert host.recorded == 3


def test_nothing_is_counted_for_a_record_that_is_not_durable() -> None:
    """While the store is down an answer is 503, and the next read after it has a record."""
    host = Listed()
    host.memory.ledger.healthy = False
    assert host.read().headers.get("audit-summary") is None
    host.memory.ledger.healthy = True
    before = host.recorded
    host.read()
    assert host.recorded == before + 1


def test_lists_without_room_have_records() -> None:
    """The table is bounded; reads beyond it are not counted, and room comes back after a minute."""
    lists, record = ListReads(), {"method": "QUERY", "path": "/x", "request_hash": "r", "result_hash": "a"}
    for number in range(MOST_LISTS + 5):
        lists.note_record(number, "caller", "a", record, f"id-{number}", 1_000)
    assert lists.has(0, "a", 1_000) and not lists.has(MOST_LISTS, "a", 1_000)
    lists.add(0, 1_000, "")
    lists.note_record(0, "caller", "b", record, "id", 1_000)
    assert not lists.has(0, "b", 1_000), "the count waits for its event, and the table is full"
    lists.note_record(MOST_LISTS, "caller", "a", record, "id", 70_000)
    assert lists.has(MOST_LISTS, "a", 70_000) and lists.waiting == 1
    [event] = lists.take("s", 70_000)
    assert event.fields["count"] == 1 and lists.waiting == 0


def test_many_lists_are_several_events() -> None:
    """An event reports a bounded number of lists, and names some of a caller's sessions."""
    lists, record = ListReads(), {"method": "QUERY", "path": "/x", "request_hash": "r", "result_hash": "a"}
    for number in range(70):
        lists.note_record(number, "caller", "a", record, f"id-{number}", 1_000)
        for session in range(20):
            lists.add(number, 1_000, f"s-{session}")
    events = [*lists.take("s", 1_000)]
    assert [len(event.fields["lists"]) for event in events] == [32, 32, 6]
    assert sum(event.fields["count"] for event in events) == 70 * 20
    [entry, *_] = events[0].fields["lists"]
    assert (len(entry["sessions"]), entry["further_sessions"]) == (16, 4)


def test_the_lists_of_a_host() -> None:
    """These reads of the host's own are lists, the registry's among them; nothing that acts is one."""
    registry = {"listen": "tcp:8080:interface=127.0.0.1", "path": "/registry"}
    host = MemoryHost({"gateway": {"listen": registry["listen"]}, "registry": registry})
    bindings = [*host.core.services.registry.all_bindings()]
    found = {(each.method, each.path) for each in bindings if each.listing}
    assert found == LISTS_OF_HOST and ("QUERY", "/cards") in found
    assert not [each for each in bindings if each.listing and each.state_changing]
