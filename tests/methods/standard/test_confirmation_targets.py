"""CONFIRM of bookings, items and schedules (core v08 section 7.2.11)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from agtphost.identity.canonical import canonical
from agtphost.testing import Answer, TestAgent
from agtphost.testing.identities import key_of
from agtphost.vocabulary import times
from tests.identity.issued import of_key
from tests.methods.standard.transacting_hosts import SETTINGS, Transacting
from tests.rows import each_row

CFO = key_of("chief financial officer")
ADDRESSED = {
    **SETTINGS,
    "notify": {"people": {"usr-cfo": CFO.public.fingerprint}, "groups": {"board": ["usr-cfo", "desk", "operator"]}},
}


@pytest.fixture
def host() -> Iterator[Transacting]:
    made = Transacting(settings=ADDRESSED)
    yield made
    made.close()


def entered(host: Transacting, collection: str, name: str, by: TestAgent | None = None, **data: Any) -> str:
    given = {"entity_type": collection, "data": {"id": name, **data}}
    return str(host.done("REGISTER", by, **given)["resource_id"])


def data_of(host: Transacting, resource: str, by: TestAgent | None = None) -> Any:
    return host.done("FETCH", by, resource_id=resource)["content"]


# Bookings and items


@each_row(("said", "becomes"), [("accepted", "confirmed"), ("rejected", "rejected"), ("deferred", "held")])
def test_a_held_booking_is_confirmed(said: str, becomes: str) -> None:
    """AGTP-335: its owner's word changes it, in the transaction of the attestation, which says of which state it is."""
    host = Transacting()
    room = entered(host, "rooms", "monday-9", status="held", guest="Ada")
    receipt = host.done("CONFIRM", target_id=room, status=said)
    data = data_of(host, room)
    assert (receipt["target"], data["status"]) == ("booking", becomes)
    confirmed = receipt["confirmed_item"]
    assert confirmed["sha256"] == sha256(canonical(data)).hexdigest()
    assert confirmed["version"] == (1 if said == "deferred" else 2)
    assert host.done("CONFIRM", target_id=room, status=said) == receipt
    host.close()


def test_a_booking_is_decided_once_and_by_its_owner(host: Transacting) -> None:
    """AGTP-335: the opposite afterwards is 409; a reader attests what it sees, and changes nothing."""
    room = entered(host, "rooms", "monday-9", status="held")
    seen = host.done("CONFIRM", host.desk, target_id=room, status="accepted")
    assert (seen["confirmed_item"]["version"], data_of(host, room)["status"]) == (1, "held")
    host.done("CONFIRM", target_id=room, status="accepted")
    assert data_of(host, room)["status"] == "confirmed"
    again = host.done("CONFIRM", host.desk, target_id=room, status="accepted")
    assert again["confirmed_item"]["version"] == 2
    refused = host.ask("CONFIRM", target_id=room, status="rejected")
    assert (refused.status, refused.reason) == (409, "already-decided")
    host.done("CANCEL", target_id=room)
    assert host.ask("CONFIRM", target_id=room, status="accepted", reason="late").status == 409


def test_an_item_is_attested_by_who_may_read_it(host: Transacting) -> None:
    """AGTP-335: version and digest are in receipt and record; another version is another attestation."""
    contract = entered(host, "contracts", "c-7", parties=["a", "b"])
    answer = host.ask("CONFIRM", host.archive, target_id=contract, status="accepted")
    receipt = answer.result
    assert (receipt["target"], receipt["confirmed_item"]["id"]) == ("item", contract)
    assert answer.record["extra"]["confirmed_item"] == receipt["confirmed_item"]
    rows = [{"id": "c-7", "parties": ["a", "c"]}]
    host.done("IMPORT", source=rows, target="contracts", conflict_policy="overwrite")
    later = host.done("CONFIRM", host.archive, target_id=contract, status="accepted")
    newer = later["confirmed_item"]
    assert newer["version"] == 2 and newer["sha256"] != receipt["confirmed_item"]["sha256"]
    # What is the same is repeated; what the first rows said is attested anew when they come back.
    assert host.done("CONFIRM", host.archive, target_id=contract, status="accepted") == later
    rows = [{"id": "c-7", "parties": ["a", "b"]}]
    host.done("IMPORT", source=rows, target="contracts", conflict_policy="overwrite")
    last = host.done("CONFIRM", host.archive, target_id=contract, status="accepted")
    assert last["confirmed_item"]["sha256"] == receipt["confirmed_item"]["sha256"]
    assert len({each["attestation_id"] for each in (receipt, later, last)}) == 3


@each_row("data", [{"status": []}, {"status": {}}, {"status": None}, {"status": 1}, {"status": "x" * 9_000}, {}])
def test_any_item_can_be_attested(data: dict[str, Any]) -> None:
    """AGTP-335: also one whose status is no word, or none that stands for a hold; it stays what it is."""
    host = Transacting()
    room = entered(host, "rooms", "odd", **data)
    for said in ("accepted", "rejected", "deferred"):
        assert host.done("CONFIRM", target_id=room, status=said)["confirmed_item"]["version"] == 1
    host.close()


def test_a_relation_is_no_item(host: Transacting) -> None:
    """What LINK and EMBED keep for each agent apart is no target, also for its owner."""
    entered(host, "rooms", "a")
    entered(host, "rooms", "b")
    host.done("LINK", source="rooms/a", target="rooms/b", relationship="beside")
    keys = [item.key for item in host.core.services.evidence.held.items_of("collection-item", host.writer.agent_id)]
    (relation,) = [key for key in keys if key.startswith("relations/")]
    assert host.ask("CONFIRM", target_id=relation, status="accepted").status == 404


def test_a_long_item_has_the_same_digest(host: Transacting) -> None:
    """AGTP-335: it is hashed in another thread, see ``a dense item`` of ``test_turns``."""
    data = {"id": "c-8", "numbers": [0.5] * 12_000}
    host.done("REGISTER", entity_type="contracts", data=data)
    receipt = host.done("CONFIRM", host.archive, target_id="contracts/c-8", status="accepted")
    assert receipt["confirmed_item"]["sha256"] == sha256(canonical(data)).hexdigest()


def test_a_foreign_item_and_a_missing_one_answer_alike(host: Transacting) -> None:
    """AGTP-335: who may not read a collection learns nothing of it; neither does a certificate that names no agent."""
    contract = entered(host, "contracts", "c-7", note=1)
    room = entered(host, "rooms", "monday-9", status="held")
    job = host.done("SUBMIT", target="orders", payload={"n": 1})["tracking_id"]

    def told(answer: Answer) -> dict[str, Any]:
        assert answer.status == 404
        return {name: value for name, value in answer.document.items() if name not in ("attribution", "audit_id")}

    def asked(target: str, key: bool = False) -> dict[str, Any]:
        given = {"target_id": target, "status": "accepted"}
        return told(host.call("CONFIRM", "/", given, caller=of_key(CFO) if key else host.stranger))

    assert asked(contract) == asked("contracts/none") == asked("nowhere/none") == asked(job)
    assert asked(room, key=True) == asked("rooms/none", key=True)
    assert data_of(host, room)["status"] == "held"


# Schedules


def test_a_schedule_is_confirmed(host: Transacting) -> None:
    """AGTP-335: by its owner, of the definition as it stands; it goes on, and a stranger learns nothing of it."""
    steps = [{"method": "FETCH", "parameters": {"resource_id": "rooms/none"}}]
    made = host.done("CHAIN", steps=steps, start_at=times.stamp(host.seconds() + 3_000))
    workflow = made["workflow_id"]
    receipt = host.done("CONFIRM", target_id=workflow, status="accepted")
    assert (receipt["target"], receipt["confirmed_item"]["state"]) == ("schedule", "scheduled")
    assert host.done("CONFIRM", target_id=workflow, status="accepted") == receipt
    foreign, missing = (
        host.ask("CONFIRM", host.stranger, target_id=name, status="accepted") for name in (workflow, f"wf-{'0' * 32}")
    )
    assert foreign.status == missing.status == 404
    assert foreign.document["explanation"] == missing.document["explanation"]
    host.done("CANCEL", target_id=workflow)
    later = host.done("CONFIRM", target_id=workflow, status="accepted")
    assert later["confirmed_item"]["state"] == "cancelled"
