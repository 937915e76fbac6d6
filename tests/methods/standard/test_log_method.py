"""LOG: an agent's event in the signed chain: methods v01 section 5.9."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.identity import envelope
from agtphost.identity.canonical import canonical
from agtphost.testing import Answer, MemoryHost
from tests.rows import each_row


@pytest.fixture(scope="module")
def there() -> Iterator[SimpleNamespace]:
    host = MemoryHost({"methods": {"standard": "*"}})
    yield SimpleNamespace(host=host, agent=host.agent("teller"))
    host.close()


def log(there: SimpleNamespace, **given: Any) -> Answer:
    return there.host.call(
        "LOG", "/", {"event_type": "wire.approved", "data": {"amount": 5}, **given}, caller=there.agent
    )


def recorded(there: SimpleNamespace, record_id: str) -> dict[str, Any]:
    """The payload of the record of that identifier, in the host's chain."""
    (found,) = (each for each in there.host.records() if each.audit_id == record_id)
    return dict(envelope.parse_unverified(found.format, found.signed))


def test_each_step_of_a_transfer_is_in_the_chain(there: SimpleNamespace) -> None:
    """The draft's use case: an audit trail of discrete events, each with its receipt (METH-028)."""
    steps = ("wire.requested", "wire.approved", "wire.released")
    receipts = [
        log(there, event_type=step, data={"amount": 5, "step": n}, correlation_id="wire-7", severity="warning")
        for n, step in enumerate(steps)
    ]
    assert {each.status for each in receipts} == {200}
    for n, (step, receipt) in enumerate(zip(steps, receipts, strict=True)):
        told = recorded(there, receipt.result["record_id"])
        assert (told["event_type"], told["logged_type"], told["data"]["step"]) == ("agent-log", step, n)
        assert (told["caller_id"], told["correlation_id"]) == (there.agent.agent_id, "wire-7")
        assert receipt.record["extra"]["logged"]["record_id"] == receipt.result["record_id"]


def test_long_data_is_there_as_its_digest(there: SimpleNamespace) -> None:
    """Up to 16 KiB the record has the data itself, beyond its SHA-256 (METH-028)."""
    for size, kept in ((16_382, True), (16_383, False), (200_000, False)):
        data = "x" * size
        receipt = log(there, data=data)
        told = recorded(there, receipt.result["record_id"])
        assert ("data" in told, receipt.result["recorded"]) == (kept, "data" if kept else "digest")
        assert told["data_sha256"] == sha256(canonical(data)).hexdigest() == receipt.result["data_sha256"]


def test_deep_data_leaves_a_record_that_can_be_read(there: SimpleNamespace) -> None:
    """Signed documents are read 32 deep: data that would be deeper there is there as its digest (METH-028)."""
    for deep, kept in ((31, True), (32, False), (62, False)):
        data: Any = 1
        for _ in range(deep):
            data = [data]
        receipt = log(there, data=data)
        told = recorded(there, receipt.result["record_id"])
        assert ("data" in told, told["data_sha256"]) == (kept, sha256(canonical(data)).hexdigest())


@each_row(
    ("name", "value"),
    [
        ("event_type", ""),
        ("event_type", "a b"),
        ("event_type", 1),
        ("data", None),
        ("severity", "loud"),
        ("correlation_id", 1),
        ("correlation_id", ""),
        ("chain", "x"),
    ],
)
def test_bad_parameters_are_422(there: SimpleNamespace, name: str, value: Any) -> None:
    """Each names its parameter, and nothing is recorded as logged."""
    answer = log(there, **{name: value})
    assert (answer.status, name in str(answer.document)) == (422, True), answer.document


def test_nobody_logs_without_a_name(there: SimpleNamespace) -> None:
    """What changes something asks for a caller."""
    assert there.host.call("LOG", "/", {"event_type": "x", "data": 1}).status == 401


@each_row(("method", "given"), [("LOG", {"event_type": "e", "data": None}), ("SIGN", {"payload": None})])
def test_what_would_be_felt_by_others_is_not_read(there: SimpleNamespace, method: str, given: dict[str, Any]) -> None:
    """A body of 256 KiB is the longest; a longer one is refused before anything decodes it."""
    name = list(given)[-1]
    for size, status in ((262_000, 200), (262_145, 422)):
        answer = there.host.call(method, "/", {**given, name: "x" * size}, caller=there.agent)
        assert answer.status == status, answer.document
    assert answer.reason == "computation-too-costly" and "262144" in str(answer.document)
    assert there.host.call(method, "/", {name: [[]] * 131_072}, caller=there.agent).reason == "computation-too-costly"
