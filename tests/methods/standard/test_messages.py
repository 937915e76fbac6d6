"""ALERT, BROADCAST, REPLY, SEND and REPORT: methods v01 section 7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.methods.oversight import confirmation
from agtphost.methods.standard.record_scan import RecordScan
from agtphost.stores import record_look
from agtphost.testing import MemoryHost
from agtphost.testing.identities import key_of
from agtphost.vocabulary import jsontext, times
from tests.methods.standard.transacting_hosts import SETTINGS, Transacting
from tests.rows import each_row


@pytest.fixture(scope="module")
def host() -> Iterator[Transacting]:
    made = Transacting()
    made.endpoint("QUERY", "/shelves", lambda context: {"shelves": []})
    yield made
    made.close()


def within(host: Transacting, seconds: float) -> str:
    return times.stamp(host.seconds() + seconds)


def events(host: Transacting, kind: str) -> list[dict[str, Any]]:
    """Signed events of the host's chain."""
    from agtphost.identity import envelope

    found = (dict(envelope.parse_unverified(each.format, each.signed)) for each in host.records())
    return [each for each in found if each.get("event_type") == kind]


LATENCY = {"metric": "db.latency", "value": 912, "threshold": 250, "recommended": "fail over"}


def test_an_alert_is_acknowledged() -> None:
    """The draft's use case: critical, with context, to a group; whoever confirms stops the clock (METH-037)."""
    host = Transacting()
    alert = host.done(
        "ALERT",
        recipient="on-call",
        message=LATENCY,
        severity="critical",
        acknowledge_by=within(host, 60),
        escalation_path=host.archive.agent_id,
    )
    assert (alert["delivered"], alert["state"]) == (2, "waiting")
    (notice,) = host.inbox(host.desk)
    assert (notice["urgency"], notice["content"]["message"]) == ("critical", LATENCY)
    assert host.ask("CONFIRM", host.archive, target_id=alert["alert_id"], status="accepted").status == 404
    confirmed = host.done("CONFIRM", host.desk, target_id=alert["alert_id"], status="accepted")
    assert confirmed["target"] == "alert"
    (told,) = host.inbox(host.writer)
    assert (told["topic"], told["content"]["acknowledged_by"]) == ("alert-acknowledged", host.desk.agent_id)
    host.advance(120)
    assert host.inbox(host.archive) == []
    assert events(host, "alert-escalated") == []
    host.close()


def test_an_alert_that_nobody_acknowledges_goes_up_its_path_over_a_crash() -> None:
    """Each of the path in its turn, then the sender: also what fell due while the host was down (METH-063)."""
    host = Transacting()
    given = {"recipient": host.archive.agent_id, "message": "disk full", "severity": "high"}
    alert = host.done(
        "ALERT", **given, acknowledge_by=within(host, 60), escalation_path=["desk", host.stranger.agent_id]
    )
    host.advance(30)
    assert host.inbox(host.desk) == []
    host = host.again()
    host.clock.advance(40)
    assert host.inbox(host.stranger) == []
    host.advance(0.5)
    (first,) = host.inbox(host.desk)
    assert (first["content"]["escalated_from"], first["content"]["alert_id"]) == (
        host.archive.agent_id,
        alert["alert_id"],
    )
    host.advance(61)
    assert len(host.inbox(host.stranger)) == 1
    assert host.inbox(host.writer) == []
    host.advance(61)
    (told,) = host.inbox(host.writer)
    assert (told["topic"], told["content"]["state"]) == ("alert-unacknowledged", "unacknowledged")
    assert [each["escalated_to"] for each in events(host, "alert-escalated")] == ["desk", host.stranger.agent_id]
    host.advance(600)
    assert len(host.inbox(host.desk)) == len(host.inbox(host.stranger)) == 1
    # Late is not too late, and nothing comes of a second time.
    host.done("CONFIRM", host.stranger, target_id=alert["alert_id"], status="accepted")
    assert [each["topic"] for each in host.inbox(host.writer)] == ["alert-unacknowledged", "alert-acknowledged"]
    host.close()


def test_an_acknowledgement_that_is_not_tracked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a host whose CONFIRM knows of notifications alone escalates what was acknowledged."""
    monkeypatch.setattr(confirmation.Confirmation, "also", lambda self, further, **more: None)
    host = Transacting()
    given = {"recipient": host.archive.agent_id, "message": 1, "severity": "high", "escalation_path": "desk"}
    alert = host.done("ALERT", **given, acknowledge_by=within(host, 60))
    host.done("CONFIRM", host.archive, target_id=alert["notification_ids"][0], status="accepted")
    host.advance(61)
    assert len(host.inbox(host.desk)) == 1
    host.close()


def test_an_alert_is_cancelled(host: Transacting) -> None:
    """By its sender, once; then nobody is told further."""
    given = {"recipient": host.archive.agent_id, "message": 1, "severity": "warning", "escalation_path": "desk"}
    alert_id = host.done("ALERT", **given, acknowledge_by=within(host, 60))["alert_id"]
    assert host.ask("CANCEL", host.desk, target_id=alert_id).status == 404
    assert host.done("CANCEL", target_id=alert_id, notify_parties=True)["notified"] == [host.archive.agent_id]
    assert host.ask("CANCEL", target_id=alert_id).status == 409
    host.advance(61)
    assert [each for each in host.inbox(host.desk) if each["topic"] == "alert"] == []


def test_a_maintenance_window_reaches_a_zone_a_group_and_a_list() -> None:
    """The draft's use case: everybody once, with a count; none after expiry, not even of what was sent (METH-038)."""
    host = Transacting()
    zone = host.desk.agent.governance_zone
    sent = host.done("BROADCAST", audience=zone, content={"window": "Sunday"}, expiry=within(host, 60))
    assert (sent["delivered"], sent["undelivered"], sent["status"]) == (3, [], "sent")
    for reader in (host.archive, host.stranger, host.desk):
        (notice,) = host.inbox(reader)
        assert notice["content"] == {"message_id": sent["message_id"], "content": {"window": "Sunday"}}
    host.advance(61)
    assert host.inbox(host.desk) == []
    late = host.done("BROADCAST", audience=[zone, "on-call"], content=1, expiry=within(host, -60))
    assert (late["delivered"], late["status"]) == (0, "expired")
    assert host.inbox(host.desk) == []
    both = host.done("BROADCAST", audience=["on-call", "desk", host.archive.agent_id], content=2)
    assert both["delivered"] == 3
    mailed = host.done("BROADCAST", audience=["a@b.test", "nobody@b.test"], content="x", channel="email")
    assert (mailed["delivered"], mailed["undelivered"]) == (1, ["nobody@b.test"])
    assert host.ask("BROADCAST", audience=["a"], content="x", channel="sms").reason == "provider-missing"
    host.close()


def test_a_broadcast_reaches_the_known_zones_and_names_the_unknown_ones() -> None:
    """The draft's three zones, of which the host knows one: its agents have the message, the others are named."""
    host = Transacting()
    zone = host.desk.agent.governance_zone
    sent = host.done("BROADCAST", audience=["zone:north", zone, "zone:south", "on-call"], content="Sunday")
    assert (sent["unknown"], sent["status"]) == (["zone:north", "zone:south"], "sent")
    assert sent["delivered"] == 4, "three agents of the zone, and the person on call"
    assert len(host.inbox(host.desk)) == 1
    late = host.done("BROADCAST", audience=["zone:north", zone], content=1, expiry=within(host, -60))
    assert (late["delivered"], late["unknown"]) == (0, ["zone:north"])
    none = host.ask("BROADCAST", audience=["zone:north", "nobody"], content="Sunday")
    assert (none.status, none.document["parameter"]) == (422, "audience")
    host.close()


def test_a_reply_is_in_the_thread_of_what_was_asked(host: Transacting) -> None:
    """The draft's use case: an escalation is answered, a notification, a QUERY's task; nothing else (METH-039)."""
    judge = host.agent("judge", scopes=("escalation:confirm",))
    given = {"task_id": "task-9", "reason": "scope_limit", "context": {"ask": "May I?"}}
    escalation = host.done("ESCALATE", **given)["escalation_id"]
    reply = host.done("REPLY", judge, in_reply_to=escalation, content={"decision": "yes"}, urgency="critical")
    (got,) = (each for each in host.inbox(host.writer) if each["topic"] == "reply")
    assert (got["content"]["thread"], got["content"]["content"]) == (escalation, {"decision": "yes"})
    # The answer to the answer is of the same thread.
    back = host.done("REPLY", in_reply_to=reply["reply_id"], content="Thanks.")
    assert (back["thread"], back["recipient"]) == (escalation, judge.agent_id)
    assert host.ask("REPLY", host.stranger, in_reply_to=escalation, content=1).status == 404
    assert host.ask("REPLY", host.stranger, in_reply_to=reply["reply_id"], content=1).status == 404
    host.call("QUERY", "/agents/desk/shelves", {}, caller=host.writer, task_id="ask-1")
    answer = host.done("REPLY", host.desk, in_reply_to="ask-1", content="Shelf 3.")
    assert (answer["of"], answer["recipient"]) == ("query", host.writer.agent_id)
    assert host.ask("REPLY", host.writer, in_reply_to="ask-1", content=1).status == 404
    assert host.ask("REPLY", host.desk, in_reply_to="nothing", content=1).status == 404


def test_people_reply_whose_key_is_an_operators() -> None:
    """The draft's human in the loop is no agent: the operator's inbox is answered by its certificate (METH-039)."""
    person = MemoryHost().identities.of_key(key_of("operator"))
    host = Transacting(settings={**SETTINGS, "audit": {"operators": [person.fingerprint]}})
    sent = host.done("NOTIFY", recipient="operator", content="May I?")
    reply = host.call("REPLY", "/", {"in_reply_to": sent["notification_id"], "content": "You may."}, caller=person)
    assert (reply.status, host.inbox(host.writer)[0]["content"]["content"]) == (200, "You may.")
    nobody = host.call("REPLY", "/", {"in_reply_to": sent["notification_id"], "content": "No."})
    assert nobody.status == 401
    host.close()


def test_a_confirmation_is_mailed(host: Transacting) -> None:
    """
    The draft's use case: through the endpoint that the operator has configured, with the template; webhooks by name
    (METH-040).
    """
    sent = host.done("SEND", recipient="guest@b.test", channel="email", content={"room": 12}, template_id="booked")
    assert sent["confirmation"]["queued_as"].endswith("@mail.test>")
    assert host.sent[-1] == {
        "recipient": "guest@b.test",
        "channel": "email",
        "content": {"room": 12},
        "template_id": "booked",
    }
    assert host.done("SEND", recipient="ops", channel="webhook", content="x")["channel"] == "webhook"
    before = len(host.sent)
    for recipient, status in (("https://evil.test/", 422), ("evil", 404)):
        assert host.ask("SEND", recipient=recipient, channel="webhook", content=1).status == status
    assert host.ask("SEND", recipient="1", channel="push", content=1).reason == "provider-missing"
    assert host.ask("SEND", recipient="nobody@b.test", channel="email", content=1).status >= 400
    assert len(host.sent) == before


EVIL = '<script>alert(1)</script> | [x](javascript:y) & "q"'


def test_a_report_is_in_the_inbox_of_whoever_is_to_have_it(host: Transacting) -> None:
    """The draft's use case: of a collection, of one's own records; nothing in a row is more than text (METH-041)."""
    host.done("REGISTER", entity_type="rooms", data={"name": EVIL, "sold": 3})
    for form in ("json", "markdown", "html"):
        made = host.done("REPORT", report_type="weekly-sales", scope="rooms", recipient="desk", format=form)
        document = host.inbox(host.desk)[-1]["content"]
        assert (document["document_id"], document["format"], made["delivered"]) == (made["document_id"], form, 1)
        text = document["document"]
        if form == "json":
            assert any(row.get("name") == EVIL for row in jsontext.decode(text.encode())["rows"])
        else:
            assert "<script" not in text
            assert "[x](javascript" not in text or form == "html"
    own = host.done("REPORT", report_type="activity", scope={"records": {"method": "REPORT"}}, recipient="desk")
    assert own["rows"] >= 3
    others = host.done("REPORT", host.desk, report_type="a", scope={"records": {"method": "REPORT"}}, recipient="desk")
    assert others["rows"] == 0
    assert host.ask("REPORT", report_type="a", scope="rooms", recipient="desk", format="pdf").reason == (
        "provider-missing"
    )
    # Of what the caller may not read there is no report.
    denied = host.ask("REPORT", host.stranger, report_type="a", scope="contracts", recipient="desk")
    assert denied.status == 404


def test_own_records_are_found_behind_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-002, METH-039, METH-041: a look into the store passes so many, and ends with others' calls alone."""
    for name, value in (("WINDOW", 4), ("LOOKED_INSIDE", 4), ("LOOK_SECONDS", 0.0)):
        monkeypatch.setattr(record_look, name, value)
    host = Transacting()
    host.endpoint("QUERY", "/shelves", lambda context: {"shelves": []})
    began = within(host, 0)
    host.call("QUERY", "/agents/desk/shelves", {}, caller=host.writer, task_id="ask-2")
    host.advance(5)
    for _ in range(12):
        host.ask("CHECK", host.archive, target="host")
    asked: dict[str, Any] = {"report_type": "a", "recipient": "desk", "format": "json"}
    for scope in ({"records": {}}, {"records": {}, "from": began}):
        assert host.done("REPORT", **asked, scope=scope)["rows"] >= 1, scope
    assert host.done("REPORT", **asked, scope={"records": {}, "from": within(host, -2)})["rows"] == 2
    assert host.done("SEARCH", query={"method": "QUERY"}, scope="records")["total"] == 1
    assert host.done("REPLY", host.desk, in_reply_to="ask-2", content=1)["of"] == "query"
    # What nobody looks at is not said not to be.
    monkeypatch.setattr(RecordScan, "further", _in_vain)
    late = host.ask("REPORT", **asked, scope={"records": {}})
    assert (late.status, late.document["parameter"]) == (
        422,
        "scope",
    ) and "more records than a report can read" in late.explanation
    host.close()


async def _in_vain(back: RecordScan) -> Any:
    back._looks = 0
    return ()


def test_a_pdf_is_made_by_what_the_operator_names() -> None:
    """``[methods] pdf``: it gets the HTML (METH-041)."""
    host = Transacting(settings={**SETTINGS, "methods": {**SETTINGS["methods"], "pdf": "TRANSFORM /pdf"}})
    host.endpoint(
        "TRANSFORM", "/pdf", lambda context: {"document": f"PDF:{len(context.input['html'])}"}, {"html": "string"}
    )
    host.done("REPORT", report_type="weekly", scope="rooms", recipient="desk", format="pdf")
    assert host.inbox(host.desk)[-1]["content"]["document"].startswith("PDF:")
    host.close()


def test_an_endpoint_that_makes_no_pdf_is_named_by_its_key() -> None:
    """The endpoint is there: the remedy is to check it, and not to bind one to REPORT."""
    host = Transacting(settings={**SETTINGS, "methods": {**SETTINGS["methods"], "pdf": "TRANSFORM /pdf"}})
    host.endpoint("TRANSFORM", "/pdf", lambda context: {"document": 1}, {"html": "string"})
    answer = host.ask("REPORT", report_type="weekly", scope="rooms", recipient="desk", format="pdf")
    assert answer.reason == "provider-missing" and "[methods] pdf" in answer.document["remedy"]
    host.close()


PAST, FAR = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
GOOD = {
    "ALERT": {"recipient": "desk", "message": 1, "severity": "high"},
    "BROADCAST": {"audience": "on-call", "content": 1},
    "REPLY": {"in_reply_to": "x", "content": 1},
    "SEND": {"recipient": "a@b.test", "channel": "email", "content": 1},
    "REPORT": {"report_type": "a", "scope": "rooms", "recipient": "desk"},
}


@each_row(
    ("method", "name", "value"),
    [
        ("ALERT", "recipient", "a b"),
        ("ALERT", "message", None),
        ("ALERT", "message", "x" * 17_000),
        ("ALERT", "severity", "low"),
        ("ALERT", "acknowledge_by", PAST),
        ("ALERT", "acknowledge_by", FAR),
        ("ALERT", "acknowledge_by", "soon"),
        ("ALERT", "escalation_path", "desk"),
        ("ALERT", "escalation_path", ["nobody"]),
        ("ALERT", "escalation_path", ["desk"] * 9),
        ("ALERT", "escalation_path", [1]),
        ("BROADCAST", "audience", []),
        ("BROADCAST", "audience", "nobody"),
        ("BROADCAST", "audience", "zone:nowhere"),
        ("BROADCAST", "audience", ["desk"] * 201),
        ("BROADCAST", "audience", ["a b"]),
        ("BROADCAST", "content", None),
        ("BROADCAST", "content", "x" * 17_000),
        ("BROADCAST", "channel", "pigeon"),
        ("BROADCAST", "expiry", "soon"),
        ("BROADCAST", "expiry", "9999-12-31T23:59:59-14:00"),
        ("REPLY", "in_reply_to", ""),
        ("REPLY", "content", None),
        ("REPLY", "content", "x" * 17_000),
        ("REPLY", "urgency", "now"),
        ("SEND", "recipient", ""),
        ("SEND", "recipient", "a@b.test,c@d.test"),
        ("SEND", "recipient", "a@b.test\nBcc: x"),
        ("SEND", "recipient", "a" * 400),
        ("SEND", "channel", "agtp"),
        ("SEND", "content", None),
        ("SEND", "template_id", 1),
        ("REPORT", "report_type", "a b"),
        ("REPORT", "scope", 1),
        ("REPORT", "scope", {}),
        ("REPORT", "scope", {"collection": "rooms", "records": {}}),
        ("REPORT", "scope", {"collection": "rooms", "from": "soon"}),
        ("REPORT", "scope", {"records": {"chain": "x"}}),
        ("REPORT", "format", "docx"),
    ],
)
def test_bad_parameters_are_422(host: Transacting, method: str, name: str, value: Any) -> None:
    """Each names its parameter, and nothing is sent."""
    before = len(host.sent)
    answer = host.ask(method, **{**GOOD[method], name: value})
    said = str(answer.document)
    assert (answer.status, name in said or "acknowledge_by" in said, len(host.sent)) == (422, True, before), said


@each_row(("method", "name"), [("ALERT", "recipient"), ("REPORT", "recipient"), ("REPORT", "scope")])
def test_who_or_what_is_not_there_is_404(host: Transacting, method: str, name: str) -> None:
    """A recipient or a collection that nobody knows."""
    assert host.ask(method, **{**GOOD[method], name: "nobody"}).status == 404
