"""INSPECT ``target=records``: the filter language as a text and as parameters, its counts, and any input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred

from agtphost.audit.filters import FIELDS
from agtphost.stores import MemoryStore, OffReactorRecords, Search
from agtphost.testing import MemoryHost, TestAgent
from tests.programmes import length
from tests.rows import each_row


class Searched:
    """A host with calls of two agents, one of which may look into the records of all."""

    def __init__(self) -> None:
        self.host = MemoryHost({})
        self.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
        self.demo, self.watcher = self.host.agent("demo"), self.host.agent("watcher", scopes=["inspect:all"])
        for number in range(3):
            self.host.call("QUERY", "/orders", caller=self.demo, task_id=f"t-{number}")
        self.host.call("QUERY", "/nothing", caller=self.demo)

    def inspect(self, caller: TestAgent | None = None, /, **given: Any) -> tuple[int, Any]:
        answer = self.host.call("INSPECT", "/", {"target": "records", **given}, caller=caller or self.watcher, wait=5.0)
        return answer.status, answer.reply.document

    def found(self, **given: Any) -> list[tuple[str, str]]:
        status, body = self.inspect(**given)
        assert status == 200, body
        return [(entry["method"], entry["path"]) for entry in body["result"]["records"]]


@pytest.fixture(scope="module")
def searched() -> Iterator[Searched]:
    made = Searched()
    yield made
    made.host.close()


ORDERS, NOTHING = ("QUERY", "/orders"), ("QUERY", "/nothing")


def test_a_text_and_parameters_are_one_filter(searched: Searched) -> None:
    """A caller is named by its label, a status by its class; both were an error or ignored before."""
    for asked in (
        {"filter": "caller:demo status:4xx"},
        {"caller_id": "demo", "status": "4xx"},
        {"caller_id": searched.demo.agent_id, "status": "4xx"},
        {"filter": "agent:demo", "status": 404},
        {"filter": "agent:demo nothing"},
        {"path": "/nothing", "from": "-1h"},
    ):
        assert searched.found(**asked) == [NOTHING], asked
    assert searched.found(endpoint="QUERY /orders", limit=2) == [ORDERS] * 2
    assert searched.found(task_id="t-1") == searched.found(task="t-1") == [ORDERS]
    status, body = searched.inspect(filter="task:t-1", signed=True)
    (entry,) = body["result"]["records"]
    assert status == 200 and entry["jws"].count(".") == 2 and entry["payload"]["path"] == "/orders"


def test_counts_are_by_what_was_asked(searched: Searched) -> None:
    """Agents have their names, and the largest count comes first."""
    body = searched.inspect(filter="path:/orders", count="agent")[1]["result"]
    expected = {"value": searched.demo.agent_id, "records": 3, "name": "demo"}
    assert body == {"count": "agent", "counts": [expected], "before": None}, "no name in a header is believed here"
    by_status = searched.inspect(caller="demo", count="status")[1]["result"]["counts"]
    assert [each["records"] for each in by_status] == [3, 1]


@each_row(
    ("given", "parameter", "explanation"),
    [
        ({"status": "abc"}, "status", "status 'abc' is not valid."),
        ({"status": 99}, "status", "status '99' is not valid."),
        ({"caller_id": "unknown"}, "caller_id", "'unknown' is not the name of an agent here."),
        ({"caller_id": "dem"}, "caller_id", "Did you mean demo?"),
        ({"chain": "x" * 99}, "chain", "is not valid"),
        ({"filter": "from:2026-11-27T10:00"}, "filter", "has no time zone"),
        ({"from": "2026-11-27T10:00"}, "from", "has no time zone"),
        ({"filter": "agnet:demo"}, "filter", "Did you mean agent?"),
        ({"filter": "x" * 10_000}, "filter", "filter has 10000 characters"),
        ({"agent": "\u202edemo"}, "agent", "U+202E"),
        ({"filter": "tool:a", "tool": "b"}, "tool", "tool is given twice."),
        ({"count": "colour"}, "count", "is not one of the known words"),
        ({"count": "tool", "text": "a"}, "count", "cannot be counted"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(given: dict[str, Any], parameter: str, explanation: str) -> None:
    """The refusal is 422 with the parameter, what is wrong, and what to send."""
    host = Searched()
    status, body = host.inspect(**given)
    host.host.close()
    assert (status, body["parameter"]) == (422, parameter) and body["remedy"]
    assert explanation in f"{body['explanation']} {body['remedy']}" and body["explanation"].isprintable()


def test_only_overseers_search(searched: Searched) -> None:
    """Another agent gets 403."""
    assert searched.inspect(searched.demo, filter="agent:demo")[0] == 403


VALUE = st.one_of(
    st.text(max_size=30),
    st.integers(),
    st.booleans(),
    st.none(),
    st.sampled_from(["demo", "4xx", "-1h", "2026-11-27", "host", "none", '"', "\u202e", "a" * 10_000]),
    st.lists(st.text(max_size=3), max_size=2),
)
NAMES = st.sampled_from([*FIELDS, "filter", "caller_id", "task_id", "count", "signed", "before", "limit"])


@settings(max_examples=length(150, 20_000), deadline=None)
@given(asked=st.dictionaries(NAMES, VALUE, max_size=4))
def test_any_parameters_are_answered(searched: Searched, asked: dict[str, Any]) -> None:
    """All input gets a result or a refusal with an explanation, and never a failure of the host."""
    status, body = searched.inspect(**asked)
    assert status in (200, 400, 422), body
    assert status == 200 or body.get("explanation")


def test_a_search_is_cancelled_with_its_call() -> None:
    """The thread that reads learns that the caller has left."""
    waiting: Deferred[Any] = Deferred()
    looks: list[Any] = []

    def run(look: Any) -> Deferred[Any]:
        looks.append(look)
        return waiting

    records = OffReactorRecords(MemoryStore(), run)
    call = Deferred.fromCoroutine(records.latest(None, 1, Search()))
    (look,) = looks
    assert look.keywords["stop"]() is False
    call.addErrback(lambda failure: failure.trap(CancelledError))
    call.cancel()
    assert look.keywords["stop"]() is True
