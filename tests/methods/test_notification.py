"""NOTIFY and the inboxes: core v08 section 7.2.13."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.methods.oversight import notification
from agtphost.stores import MemoryStore
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status
from tests.fakes import FakeLedger
from tests.identity.issued import of_key
from tests.identity.samples import key_of
from tests.methods.floor_hosts import CALLER, DESK, ISSUER, JUDGE, OPERATOR, OTHER, FloorHost, body_of, endpoint
from tests.methods.hosts import reading
from tests.rows import each_row

CONTENT = {"text": "hello", "n": [1, None, "é"]}
URGENCIES = ("critical", "informational", "background")


def notify(host: FloorHost, recipient: str = OTHER.agent_id, code: int = 202, **more: Any) -> dict[str, Any]:
    return host.result("NOTIFY", code=code, **{"recipient": recipient, "content": CONTENT, **more})


def inbox(host: FloorHost, by: Any = OTHER, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.result("QUERY", "/notifications", by=by, **more)["notifications"]
    return found


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_notification_waits_for_its_recipient() -> None:
    """The receipt has its number; the recipient reads it unchanged, and nobody else does (AGTP-226)."""
    host = FloorHost()
    receipt = notify(host, topic="greeting")
    (read,) = inbox(host)
    assert read["notification_id"] == receipt["notification_id"]
    assert (read["content"], read["topic"], read["sender"]) == (CONTENT, "greeting", CALLER.agent_id)
    assert inbox(host, by=CALLER) == inbox(host, by=JUDGE) == []


@each_row("urgency", URGENCIES)
@each_row("guarantee", ["at_most_once", "at_least_once", "exactly_once"])
def test_every_urgency_and_guarantee(urgency: str, guarantee: str) -> None:
    """Each word of the text is taken (AGTP-226)."""
    host = FloorHost()
    found = notify(host, urgency=urgency, delivery_guarantee=guarantee)
    assert (found["urgency"], found["delivery_guarantee"]) == (urgency, guarantee)
    assert len(inbox(host)) == 1


@each_row(
    ("name", "value"),
    [
        ("urgency", "now"),
        ("delivery_guarantee", "maybe"),
        ("expiry", "soon"),
        ("recipient", "a b"),
        ("content", "x" * 20_000),
        ("topic", 3),
    ],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each names its parameter (AGTP-226)."""
    answer = FloorHost().ask("NOTIFY", **{"recipient": "desk", "content": 1, name: value})
    assert (answer.status, body_of(answer)["parameter"]) == (422, name)


@pytest.mark.parametrize("recipient", ["9" * 64, "nobody", "demo"])
def test_an_unknown_recipient_is_404(recipient: str) -> None:
    """Neither an agent nor the operator (AGTP-226)."""
    assert FloorHost().refused("NOTIFY", recipient=recipient, content=1) == (404, "recipient-unknown")


def test_what_has_expired_is_not_delivered() -> None:
    """Not when it is sent too late, and not once its time has passed (AGTP-227)."""
    host = FloorHost()
    assert notify(host, code=200, expiry=later(-5))["status"] == "expired"
    assert inbox(host) == []
    notify(host, expiry=later(3600))
    (item,) = host.held.all("notification")
    assert item.expires_at is not None
    assert abs(item.expires_at / 1000 - datetime.now(UTC).timestamp() - 3600) < 60
    assert len(inbox(host)) == 1


def test_expired_items_are_gone() -> None:
    """An inbox doesn't show what expired since (AGTP-227)."""
    host = FloorHost()
    notify(host, expiry=later(3600))
    host.clock.advance(3601)
    assert inbox(host) == []


def test_exactly_once_is_kept_once() -> None:
    """The same notification again is the one that is there already; without the guarantee there are two."""
    host = FloorHost()
    first, second = (notify(host, delivery_guarantee="exactly_once") for _ in range(2))
    assert first["notification_id"] == second["notification_id"]
    assert second["duplicate"] is True
    assert len(inbox(host)) == 1
    notify(host)
    notify(host)
    assert len(inbox(host)) == 3


def test_critical_ones_come_first() -> None:
    """The inbox is sorted by urgency, and can be asked for one."""
    host = FloorHost()
    for urgency in reversed(URGENCIES):
        notify(host, urgency=urgency)
    assert [read["urgency"] for read in inbox(host)] == list(URGENCIES)
    assert [read["urgency"] for read in inbox(host, urgency="critical")] == ["critical"]
    assert len(inbox(host, limit=2)) == 2


def test_a_confirmed_one_leaves_the_inbox() -> None:
    """CONFIRM by the recipient alone; the sender sees that it was read, and a repeat changes nothing (AGTP-220)."""
    host = FloorHost()
    number = notify(host)["notification_id"]
    assert host.refused("CONFIRM", target_id=number, status="accepted", by=JUDGE) == (404, "target-unknown")
    assert host.refused("CONFIRM", target_id=number, status="accepted", by=CALLER) == (404, "target-unknown")
    host.result("CONFIRM", target_id=number, status="deferred", by=OTHER)
    assert len(inbox(host)) == 1
    first, second = (host.result("CONFIRM", target_id=number, status="accepted", by=OTHER) for _ in range(2))
    assert first == second
    assert inbox(host) == []
    (sent,) = inbox(host, by=CALLER, box="sent")
    assert (sent["status"], sent["confirmed"], sent["content"]) == ("acknowledged", "accepted", None)


@each_row(("by", "sees"), [(OPERATOR, True), (ISSUER, True), (JUDGE, False), (CALLER, False)])
def test_the_operators_inbox(by: Any, sees: bool) -> None:
    """``operator`` reaches the people who run the host, and the registrar of the sender."""
    host = FloorHost()
    number = notify(host, "operator")["notification_id"]
    assert bool(inbox(host, by=by)) is sees
    assert host.ask("CONFIRM", target_id=number, status="accepted", by=by).status == (200 if sees else 404)
    # What is broadcast to infrastructure is for whoever runs the host (companion section 9.3).
    notify(host, "infrastructure:broadcast", topic="certificate-revocation")
    assert [told["topic"] for told in inbox(host, by=by)] == (["certificate-revocation"] if sees else [])


def test_an_agents_own_endpoint_gets_it() -> None:
    """``NOTIFY /notifications`` of a hosted agent is called in the sender's name, through the gates."""
    got: list[EndpointContext] = []

    def take(context: EndpointContext) -> dict[str, Any]:
        got.append(context)
        return {}

    own = endpoint("NOTIFY", "/notifications", "Takes notifications.", take, agents=frozenset({DESK.agent_id}))
    host = FloorHost(endpoints=[own])
    receipt = notify(host, "desk", code=200, topic="x")
    assert receipt["status"] == "delivered"
    assert got[0].input["content"] == CONTENT
    assert got[0].input["notification_id"] == receipt["notification_id"]
    assert got[0].caller is not None and got[0].caller.agent_id == CALLER.agent_id
    assert [draft.payload["path"] for draft in host.ledger.drafts] == ["/agents/desk/notifications", "/"]
    assert notify(host)["status"] == "held"


@pytest.mark.parametrize(("guarantee", "status", "kept"), [("at_most_once", 200, 0), ("at_least_once", 202, 1)])
def test_an_endpoint_that_fails(guarantee: str, status: int, kept: int) -> None:
    """At most once: it is lost, and the receipt says so; at least once: it waits in the inbox."""

    def fail(context: EndpointContext) -> Any:
        raise Refusal(ForeignReason("closed", Status.UNAVAILABLE), "Closed.")

    host = FloorHost(endpoints=[endpoint("NOTIFY", "/notifications", "Fails.", fail)])
    found = notify(host, "desk", code=status, delivery_guarantee=guarantee)
    assert found["status"] == ("held" if kept else "undelivered")
    assert len(inbox(host, by=DESK)) == kept


def test_inboxes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sender cannot fill an inbox, and all of them together find an end."""
    monkeypatch.setattr(notification, "PER_SENDER", 2)
    monkeypatch.setattr(notification, "INBOX", 3)
    host = FloorHost()
    notify(host), notify(host)
    assert host.refused("NOTIFY", recipient=OTHER.agent_id, content=1) == (429, "inbox-full")
    assert host.ask("NOTIFY", by=JUDGE, recipient=OTHER.agent_id, content=1).status == 202
    assert host.refused("NOTIFY", by=DESK, recipient=OTHER.agent_id, content=1) == (429, "inbox-full")
    assert host.ask("NOTIFY", recipient="desk", content=1).status == 202


@pytest.mark.parametrize("status", ["maybe", "", 1])
def test_an_unknown_confirmation_is_422(status: object) -> None:
    """accepted, rejected or deferred (AGTP-220)."""
    assert FloorHost().refused("CONFIRM", target_id="x", status=status) == (422, "invalid-parameter")


@pytest.mark.parametrize("target", ["nothing", "esc-0", "0" * 64])
def test_an_unknown_target_is_404(target: str) -> None:
    """Also where it has the form of an Audit-ID (AGTP-220)."""
    host = FloorHost(records=reading(MemoryStore()))
    assert host.refused("CONFIRM", target_id=target, status="accepted") == (404, "target-unknown")


def test_receipts_are_bounded() -> None:
    """The oldest receipt goes when a caller has many; the newest is there for a repeat."""
    host = FloorHost(ledger=FakeLedger(attestation=replace(ITEM_KINDS["attestation"], per_owner=3)))
    for _ in range(5):
        number = notify(host)["notification_id"]
        receipt = host.result("CONFIRM", target_id=number, status="accepted", by=OTHER)
    kept = [item.key for item in host.held.items_of("attestation", OTHER.agent_id)]
    assert len(kept) == 3
    assert receipt["attestation_id"] in kept


def test_notifications_are_read_in_the_order_of_their_arrival() -> None:
    """Also those of one second, whatever their random numbers say; and escalations likewise."""
    host = FloorHost()
    sent = [notify(host, topic=f"t{number}")["notification_id"] for number in range(20)]
    assert [each["notification_id"] for each in inbox(host)] == sent


CFO = key_of("chief financial officer")
ADDRESSES = {
    "notify": {
        "people": {"usr-cfo": CFO.public.fingerprint},
        "groups": {
            "finance": ["usr-cfo", OTHER.agent_id, "desk", "operator", "usr-cfo"],
            "ghosts": [OTHER.agent_id, "nobody"],
        },
    }
}


def test_a_person_has_an_inbox() -> None:
    """AGTP-332: a configured person reads by the key that is configured, and confirms what was read."""
    host = FloorHost(ADDRESSES)
    receipt = notify(host, "usr-cfo")
    assert inbox(host, by=OPERATOR) == inbox(host, by=ISSUER) == []
    number = receipt["notification_id"]
    assert host.refused("CONFIRM", by=OPERATOR, target_id=number, status="accepted") == (404, "target-unknown")
    (read,) = inbox(host, by=of_key(CFO))
    assert (read["notification_id"], read["content"]) == (number, CONTENT)
    host.result("CONFIRM", by=of_key(CFO), target_id=number, status="accepted")
    assert inbox(host, by=of_key(CFO)) == []


def test_a_group_is_each_of_its_members() -> None:
    """AGTP-332: NOTIFY to a configured group reaches each inbox once; an unknown one, and an unknown member, is 404."""
    host = FloorHost(ADDRESSES)
    told = notify(host, "finance")["notifications"]
    assert len(told) == 4
    numbers = {each["notification_id"] for each in told}
    read = [inbox(host, by=by)[0]["notification_id"] for by in (of_key(CFO), OTHER, DESK, OPERATOR)]
    assert set(read) == numbers
    before = len(list(host.held.items_of("notification", OTHER.agent_id)))
    for wrong in ("ghosts", "nobody"):
        refused = host.ask("NOTIFY", recipient=wrong, content=CONTENT)
        assert (refused.status, body_of(refused)["reason"]) == (404, "recipient-unknown")
    assert len(list(host.held.items_of("notification", OTHER.agent_id))) == before
    once = [notify(host, "finance", code, delivery_guarantee="exactly_once") for code in (202, 200)]
    assert all(each["duplicate"] for each in once[1]["notifications"])


def test_a_retired_agent_has_no_inbox() -> None:
    """A retired agent is an unknown recipient, alone and as the last of a group; the others of a group are reached."""
    host = FloorHost({"notify": {"groups": {"both": [OTHER.agent_id, "desk"], "one": [OTHER.agent_id]}}})
    host.put(OTHER, "suspended")
    notify(host)
    host.put(OTHER, "retired")
    for name in (OTHER.agent_id, "one"):
        refused = host.ask("NOTIFY", recipient=name, content=CONTENT)
        assert (refused.status, body_of(refused)["reason"]) == (404, "recipient-unknown")
    assert [each["recipient"] for each in notify(host, "both")["notifications"]] == [DESK.agent_id]


def test_a_full_inbox_keeps_a_group_from_being_told_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction: where one member's inbox takes no more, nobody's does."""
    monkeypatch.setattr(notification, "PER_SENDER", 1)
    host = FloorHost(ADDRESSES)
    notify(host, "desk")
    assert host.refused("NOTIFY", recipient="finance", content=CONTENT) == (429, "inbox-full")
    assert inbox(host) == inbox(host, by=of_key(CFO)) == []
