"""Queues, channels, transfers, connections, bookings: what changes hands, and what is called off."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.contract.grants import Grant
from agtphost.methods.standard import queues
from tests.methods.standard.transacting_hosts import SETTINGS, Transacting, at_once
from tests.programmes import length
from tests.rows import each_row


@pytest.fixture(scope="module")
def host() -> Iterator[Transacting]:
    made = Transacting()
    yield made
    made.close()


def ids(pulled: Any) -> list[str]:
    return [each["item_id"] for each in pulled["items"]]


def drained(host: Transacting) -> None:
    for item in host.done("PULL", source="orders", max_items=100)["items"]:
        host.done("CONFIRM", target_id=item["item_id"], status="accepted")


def test_a_batch_of_orders_is_pulled_and_packed(host: Transacting) -> None:
    """The draft's use case: the next batch, the most urgent first, hidden from others until its time (METH-004)."""
    for number, priority in enumerate(("normal", "low", "urgent")):
        host.done("SUBMIT", target="orders", payload={"order": number}, priority=priority, callback="inbox")
    first = host.done("PULL", host.desk, source="orders", max_items=2, visibility_timeout=60)
    assert [each["data"]["order"] for each in first["items"]] == [2, 0]
    assert [each["data"]["order"] for each in host.done("PULL", source="orders", max_items=9)["items"]] == [1]
    assert host.done("PULL", host.archive, source="orders", max_items=9)["items"] == []
    # Who pulled it confirms it; nobody else.
    done, given_back = ids(first)
    assert host.ask("CONFIRM", host.archive, target_id=done, status="accepted").status == 404
    assert host.done("CONFIRM", host.desk, target_id=done, status="accepted")["target"] == "queue-item"
    host.done("CONFIRM", host.desk, target_id=given_back, status="rejected")
    assert ids(host.done("PULL", host.archive, source="orders", max_items=9, visibility_timeout=5)) == [given_back]
    # Its time passes, and it is there again.
    host.advance(6)
    again = host.done("PULL", host.desk, source="orders", max_items=1)
    assert (ids(again), again["items"][0]["deliveries"]) == ([given_back], 3)
    (told,) = [each for each in host.inbox(host.writer) if each["topic"] == "submission-done"]
    assert (told["content"]["tracking_id"], told["content"]["status"]) == (done, "done")
    host.advance(3600)
    drained(host)


def test_an_item_is_given_back_and_held_as_often_as_it_is_said(host: Transacting) -> None:
    """An item comes to the same worker again: what it says then is done, and not what it said before (METH-004)."""
    item = host.done("SUBMIT", target="orders", payload={"order": 1})["tracking_id"]
    for _ in range(2):
        assert ids(host.done("PULL", host.desk, source="orders")) == [item]
        for _ in range(3):
            host.advance(50)
            host.done("CONFIRM", host.desk, target_id=item, status="deferred")
            assert host.done("PULL", host.archive, source="orders")["items"] == []
        host.done("CONFIRM", host.desk, target_id=item, status="rejected")
    assert host.done("CONFIRM", host.desk, target_id=item, status="rejected"), "a repeated call is told the same"
    # It is another's by now; who submitted it stays the same. What its submitter took back nobody has done.
    host.done("TRANSFER", resource_id=item, from_principal=host.writer.agent_id, to_principal=host.archive.agent_id)
    (pulled,) = host.done("PULL", host.desk, source="orders", visibility_timeout=5)["items"]
    assert pulled["submitted_by"] == host.writer.agent_id
    host.advance(6)
    host.done("CANCEL", target_id=item)
    assert host.ask("CONFIRM", host.desk, target_id=item, status="accepted").status == 409


def test_an_item_with_the_longest_name_is_done_and_called_off(host: Transacting) -> None:
    """Whatever REGISTER has taken CONFIRM and CANCEL can name: else an item of a queue would come for ever."""
    for collection in ("orders", "rooms"):
        host.done("REGISTER", entity_type=collection, data={"id": "x" * 128})
    (item,) = ids(host.done("PULL", source="orders"))
    assert host.done("CONFIRM", target_id=item, status="accepted")["item_id"] == item
    assert host.done("CANCEL", target_id=f"rooms/{'x' * 128}")["kind"] == "booking"
    assert host.ask("CANCEL", target_id=f"rooms/{'x' * 129}").status == 422


def test_a_report_waits_for_review_and_can_be_taken_back(host: Transacting) -> None:
    """The draft's use case of SUBMIT; CANCEL as long as nobody works at it, and 409 twice (METH-022, METH-024)."""
    receipt = host.done("SUBMIT", target="orders", payload={"report": "expenses"}, priority=9)
    assert host.done("CANCEL", target_id=receipt["tracking_id"], reason="A mistake.")["kind"] == "submission"
    assert host.done("PULL", source="orders")["items"] == []
    assert host.ask("CANCEL", target_id=receipt["tracking_id"]).reason == "already-cancelled"
    other = host.done("SUBMIT", target="orders", payload=1)["tracking_id"]
    host.done("PULL", host.desk, source="orders")
    assert host.ask("CANCEL", target_id=other).status == 409
    assert host.ask("CANCEL", host.stranger, target_id=other).status == 404
    host.advance(3600)
    drained(host)


@each_row(
    ("method", "given", "status"),
    [
        ("SUBMIT", {"target": "nothing", "payload": 1}, 404),
        ("SUBMIT", {"target": "contracts", "payload": 1}, 404),
        ("SUBMIT", {"target": "orders", "payload": None}, 422),
        ("SUBMIT", {"target": "orders", "payload": "x" * 70_000}, 422),
        ("SUBMIT", {"target": "orders", "payload": 1, "priority": 10}, 422),
        ("SUBMIT", {"target": "orders", "payload": 1, "priority": "now"}, 422),
        ("SUBMIT", {"target": "orders", "payload": 1, "callback": "https://evil.test/"}, 422),
        ("SUBMIT", {"target": "orders", "payload": 1, "callback": "agtp://evil.test/agents/writer"}, 422),
        ("SUBMIT", {"target": "orders", "payload": 1, "callback": "desk"}, 422),
        ("PULL", {"source": "nothing"}, 404),
        ("PULL", {"source": "contracts"}, 404),
        ("PULL", {"source": "orders", "max_items": 0}, 422),
        ("PULL", {"source": "orders", "visibility_timeout": 50_000}, 422),
        ("PULL", {"source": "orders", "visibility_timeout": True}, 422),
        ("PUBLISH", {"channel": "nothing", "content": 1}, 404),
        ("PUBLISH", {"channel": "orders", "content": 1}, 404),
        ("PUBLISH", {"channel": "relations", "content": 1}, 404),
        ("PUBLISH", {"channel": "knowledge", "content": None}, 422),
        ("PUBLISH", {"channel": "knowledge", "content": 1, "schedule_at": "2999-01-01T00:00:00Z"}, 422),
        ("TRANSFER", {"resource_id": "contracts/none", "from_principal": "desk", "to_principal": "desk"}, 404),
        ("TRANSFER", {"resource_id": "relations/x", "from_principal": "desk", "to_principal": "desk"}, 404),
        ("CONNECT", {"source": "telemetry", "destination": "elsewhere"}, 404),
        ("CONNECT", {"source": "telemetry", "destination": "observability", "ttl": 3601}, 422),
        ("CONNECT", {"source": "telemetry", "destination": "observability", "channel_type": "webhook"}, 422),
        ("CONNECT", {"source": "telemetry", "destination": "observability", "config": {"x": "y" * 5_000}}, 422),
        ("CANCEL", {"target_id": "a b"}, 422),
        ("CANCEL", {"target_id": "nothing"}, 404),
        ("CANCEL", {"target_id": "nothing", "refund_policy": "double"}, 422),
        ("CANCEL", {"target_id": "nothing", "notify_parties": "yes"}, 422),
    ],
)
def test_bad_parameters_change_nothing(host: Transacting, method: str, given: dict[str, Any], status: int) -> None:
    """Each is refused, and 422 names the parameter; a stranger is refused as well."""
    answer = host.ask(method, **given)
    assert answer.status == status, answer.document
    if status == 422:
        assert any(name in str(answer.document) for name in given), answer.document
    assert host.ask(method, host.stranger, **given).status >= 400


@pytest.mark.programme
def test_nothing_is_lost_and_nothing_is_had_twice_over_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Pulls, confirmations and crashes by chance: at no time two hold one item, and in the end each was taken out once.

    The control: with a hold that is not durable, somebody has what another holds (METH-004).
    """
    # Time goes by when the test says so, however long it takes itself.
    began = time.time()
    monkeypatch.setattr(Transacting, "seconds", lambda self: began + self.clock.seconds())
    assert worked(seed=7) == []
    with monkeypatch.context() as broken:
        kept = queues._update_item
        broken.setattr(
            queues,
            "_update_item",
            lambda item, value, until=None: kept(
                item, {**value, "work": {**value["work"], "hidden_until": 0.0}}, until
            ),
        )
        assert worked(seed=7)


def worked(seed: int) -> list[str]:
    dice, found, host = random.Random(seed), [], Transacting()
    left = {host.done("SUBMIT", target="orders", payload=number)["tracking_id"] for number in range(12)}
    held: dict[str, float] = {}
    clock = 0.0
    for _ in range(length(60, 2_000)):
        step = dice.random()
        by = dice.choice((host.writer, host.desk, host.archive))
        if step < 0.5:
            seconds = dice.choice((5, 30))
            for item in ids(host.done("PULL", by, source="orders", max_items=2, visibility_timeout=seconds)):
                if item not in left or held.get(item, 0.0) > clock:
                    found.append(f"{item} was somebody's")
                held[item] = clock + seconds
        elif step < 0.65 and held:
            item = dice.choice(sorted(held))
            answer = host.ask("CONFIRM", by, target_id=item, status="accepted")
            if answer.status == 200:
                left.discard(item)
                held.pop(item)
        elif step < 0.8:
            clock += 4
            host.advance(4)
        else:
            host = host.again()
    host.advance(60)
    rest = ids(host.done("PULL", host.writer, source="orders", max_items=100))
    found += [f"{item} was lost" for item in left if item not in rest]
    host.close()
    return found


def test_a_contract_goes_to_the_archive(host: Transacting) -> None:
    """The draft's use case: owner, chain of owners and record say so; METH-025, METH-061."""
    entered = host.done("REGISTER", entity_type="contracts", data={"title": "Lease"})
    resource = f"contracts/{entered['entity_id']}"
    parties = {"from_principal": host.writer.agent_id, "to_principal": host.archive.agent_id}
    refused = host.ask("TRANSFER", host.archive, resource_id=resource, **parties)
    assert (refused.status, refused.document["missing_scopes"]) == (455, ["contracts:write"])
    assert refused.record["extra"]["to_principal"] == host.archive.agent_id
    # Who lacks the scope is not told whether there is such an item.
    assert host.ask("TRANSFER", host.archive, resource_id="contracts/none", **parties).status == 455
    assert host.ask("TRANSFER", resource_id="contracts/none", **parties).status == 404
    wrong = {"from_principal": host.archive.agent_id, "to_principal": host.desk.agent_id}
    assert host.ask("TRANSFER", resource_id=resource, **wrong).status == 409
    assert host.ask("TRANSFER", resource_id=resource, **{**parties, "to_principal": "nobody"}).status == 404
    moved = host.ask("TRANSFER", resource_id=resource, **parties, reason={"code": "archived"})
    assert moved.status == 200
    extra = moved.record["extra"]
    assert {name: extra[name] for name in parties} == parties
    assert extra["transfer"]["ownership_chain"] == [host.writer.agent_id, host.archive.agent_id]
    assert [each["agent_id"] for each in moved.result["ownership_chain"]] == extra["transfer"]["ownership_chain"]
    # It is gone for its former owner.
    assert host.ask("TRANSFER", resource_id=resource, **parties).status == 409
    back = {"from_principal": host.archive.agent_id, "to_principal": host.writer.agent_id}
    assert host.ask("TRANSFER", resource_id=resource, **back).status == 403
    assert host.done("FETCH", host.writer, resource_id=resource)


def test_who_merely_says_a_name_hands_nothing_of_it_over() -> None:
    """On a development host a header may name an agent: what that agent has proved to own is not the header's."""
    host = Transacting(settings={**SETTINGS, "host": {"profile": "development"}})
    claimed = {"Agent-ID": host.writer.agent_id}
    parties = {"from_principal": host.writer.agent_id, "to_principal": host.archive.agent_id}
    for headers, status in ((claimed, 200), (None, 403)):
        entered = host.call(
            "REGISTER",
            "/",
            {"entity_type": "rooms", "data": {}},
            caller=None if headers else host.writer,
            headers=headers or {},
        )
        given = {"resource_id": entered.result["resource_id"], **parties}
        assert host.call("TRANSFER", "/", given, headers=claimed).status == status, "only its own"
    host.close()


AT_ONCE = [
    ("REGISTER", {"entity_type": "knowledge", "data": {}}, 3),
    ("PUBLISH", {"channel": "knowledge", "content": "x"}, 3),
    ("IMPORT", {"target": "knowledge", "source": [{}, {}]}, 1),
    ("CONNECT", {"source": "telemetry", "destination": "observability"}, 1),
]


@each_row(("method", "given", "succeed"), AT_ONCE)
def test_what_there_may_be_once_or_so_often_is_not_more_for_many_at_once(
    monkeypatch: pytest.MonkeyPatch, method: str, given: dict[str, Any], succeed: int
) -> None:
    """A collection of three, and one connection of two: callers who come before the first record is durable."""
    host = Transacting()
    assert at_once(monkeypatch, host, method, given, host.writer) == [200] * succeed + [409] * (5 - succeed)
    host.close()


def test_a_summary_is_published_now_and_later() -> None:
    """
    The draft's use case: those with the scope of the channel find it, others do not; ``schedule_at`` is kept over a
    crash, and CANCEL ends it (METH-029).
    """
    host = Transacting()
    now = host.done("PUBLISH", channel="knowledge", content={"summary": "Findings"}, format="application/json")
    assert now["status"] == "published"
    assert host.done("FETCH", host.desk, resource_id=now["resource_id"])
    assert host.ask("FETCH", host.stranger, resource_id=now["resource_id"]).status == 404
    assert host.ask("PUBLISH", host.desk, channel="knowledge", content=1).status == 403
    soon, never = (
        host.done("PUBLISH", channel="knowledge", content={"n": n}, schedule_at=_in(host, 100 + n)) for n in (1, 2)
    )
    assert host.done("CANCEL", target_id=never["content_id"])["kind"] == "publication"
    assert host.ask("CANCEL", target_id=never["content_id"]).status == 409
    assert host.ask("FETCH", host.desk, resource_id=soon["resource_id"]).status == 404
    host = host.again()
    assert host.ask("FETCH", host.desk, resource_id=soon["resource_id"]).status == 404
    host.advance(200)
    assert host.done("FETCH", host.desk, resource_id=soon["resource_id"])
    assert host.ask("FETCH", host.desk, resource_id=never["resource_id"]).status == 404
    # A full channel takes nothing, and its publisher hears of what was to come.
    late = host.done("PUBLISH", channel="knowledge", content={"n": 3}, schedule_at=_in(host, 50))
    host.done("PUBLISH", channel="knowledge", content=1)
    assert host.ask("PUBLISH", channel="knowledge", content=1).status == 409
    host.advance(60)
    (told,) = (each for each in host.inbox(host.writer) if each["topic"] == "publication-failed")
    assert told["content"]["content_id"] == late["content_id"]
    host.close()


def test_what_was_scheduled_is_judged_once_more_at_its_time() -> None:
    """METH-029: who may not PUBLISH by then publishes nothing, is told why, and may again later."""
    host = Transacting()
    rights = host.core.services.rights
    first, second = (
        host.done("PUBLISH", channel="knowledge", content={"n": n}, schedule_at=_in(host, 100 * n)) for n in (1, 2)
    )
    rights.configure([Grant(agent_id=host.writer.agent_id, allow="QUERY *", until=None)])
    assert host.ask("PUBLISH", channel="knowledge", content=1).reason == "grant-required"
    host.advance(101)
    rights.configure([])
    assert host.ask("FETCH", host.desk, resource_id=first["resource_id"]).status == 404
    (told,) = (each for each in host.inbox(host.writer) if each["topic"] == "publication-failed")
    assert told["content"]["content_id"] == first["content_id"]
    assert "may no longer publish: The operator of this host" in told["content"]["why"]
    host.advance(101)
    item = host.done("FETCH", host.desk, resource_id=second["resource_id"])
    assert item["created_at"] == item["last_modified"] == item["owners"][0]["since"]
    host.close()


def _in(host: Transacting, seconds: float) -> str:
    from agtphost.vocabulary import times

    return times.stamp(host.seconds() + seconds)


def test_a_feed_is_connected_until_its_time(host: Transacting) -> None:
    """The draft's use case: a handle with the channel's data; not twice, and it ends by CANCEL or ttl (METH-035)."""
    pair = {"source": "telemetry", "destination": "observability"}
    handle = host.done("CONNECT", **pair, channel_type="polling", ttl=60, config={"every": 5})
    assert (handle["channel"], handle["state"]) == ({"topic": "sensors/1"}, "open")
    again = host.ask("CONNECT", **pair)
    assert (again.status, again.document["connection_id"]) == (409, handle["connection_id"])
    host.advance(61)
    second = host.done("CONNECT", **pair)["connection_id"]
    assert host.ask("CANCEL", host.desk, target_id=second).status == 404
    assert host.done("CANCEL", target_id=second)["kind"] == "connection"
    assert host.ask("CANCEL", target_id=second).status == 409


def test_a_room_is_cancelled_and_its_attendees_hear_of_it(host: Transacting) -> None:
    """The draft's use case: refund as asked, NOTIFY to the others, 409 twice (METH-024, METH-065)."""
    data = {"room": "12", "amount": "80.00 EUR", "attendees": [host.archive.agent_id, "desk", "who"]}
    entered = host.done("REGISTER", entity_type="rooms", data=data)
    booking = f"rooms/{entered['entity_id']}"
    assert host.ask("CANCEL", host.archive, target_id=booking).status == 404
    receipt = host.done("CANCEL", target_id=booking, reason={"code": "ill"}, refund_policy="full", notify_parties=True)
    assert receipt["refund"] == {"policy": "full", "due": "80.00 EUR", "status": "due"}
    assert receipt["notified"] == [host.archive.agent_id, host.desk.agent_id]
    (told,) = (each for each in host.inbox(host.archive) if each["topic"] == "cancelled")
    assert (told["content"]["target_id"], told["content"]["reason"]) == (booking, {"code": "ill"})
    assert host.ask("CANCEL", target_id=booking).reason == "already-cancelled"
    assert host.done("FETCH", resource_id=booking)


def test_a_subscription_and_a_question_are_taken_back(host: Transacting) -> None:
    """MONITOR's subscriptions as by NOTIFY ``monitor_cancel``; twice is 409, although nothing is left (METH-024)."""
    given = {"target": host.desk.agent_id, "events": "lifecycle", "callback": "inbox"}
    subscription = host.done("MONITOR", **given)["subscription_id"]
    assert host.ask("CANCEL", host.desk, target_id=subscription).status == 404
    assert host.done("CANCEL", target_id=subscription)["kind"] == "monitor"
    assert host.ask("CANCEL", target_id=subscription).reason == "already-cancelled"
    assert host.done("QUERY", path="/monitors")["count"] == 0


def test_a_call_that_waits_for_a_person_is_taken_back() -> None:
    """Nobody can approve it then, and the call stays unmade (METH-024)."""
    host, made = Transacting(), []
    host.endpoint("REMOVE", "/shelf", lambda context: made.append(1) or {}, approval="required")
    asked = host.ask("REMOVE", path="/shelf")
    assert asked.status == 202
    approval = asked.document["approval_id"]
    assert host.ask("CANCEL", host.desk, target_id=approval).status == 404
    assert host.done("CANCEL", target_id=approval)["kind"] == "approval"
    assert host.ask("CANCEL", target_id=approval).status == 409
    assert (host.ask("REMOVE", path="/shelf").status, made) == (403, [])
    host.close()
