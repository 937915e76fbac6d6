"""REPLY finds the message of a Task-ID, and goes to whoever sent it (methods v01 section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agtphost.methods.standard.messages import replies
from agtphost.testing import Answer, TestAgent
from agtphost.testing.identities import key_of
from tests.identity.issued import of_key
from tests.methods.standard.transacting_hosts import SETTINGS, Transacting
from tests.rows import each_row

CFO = of_key(key_of("chief financial officer"))
ADDRESSED: Mapping[str, Any] = {
    **SETTINGS,
    "notify": {"people": {"usr-cfo": CFO.fingerprint}, "groups": {"board": ["usr-cfo", "desk", "operator"]}},
}
ASK: Mapping[str, Any] = {"task_id": "task-0880", "reason": "scope_limit", "context": {"resource": "c"}}


@pytest.fixture
def host() -> Iterator[Transacting]:
    made = Transacting(settings=ADDRESSED)
    yield made
    made.close()


def sent(host: Transacting, method: str, task: str, by: TestAgent | None = None, **given: Any) -> Any:
    answer = host.call(method, "/", given, caller=by or host.writer, task_id=task)
    assert answer.status < 300, answer.document
    return answer.result


def reply(host: Transacting, by: Any, to: str) -> Answer:
    return host.call("REPLY", "/", {"in_reply_to": to, "content": "Yes."}, caller=by)


MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "NOTIFY": {"content": {"q": 1}},
    "ALERT": {"message": 1, "severity": "high"},
    "REPORT": {"report_type": "a", "scope": "rooms", "format": "json"},
}


@each_row("method", list(MESSAGES))
@each_row("recipient", ["desk", "usr-cfo", "board"])
def test_a_message_is_answered_by_its_task_id(method: str, recipient: str) -> None:
    """METH-070: the inbox shows the Task-ID, and REPLY to it is delivered to the sender, in the thread."""
    host = Transacting(settings=ADDRESSED)
    sent(host, method, "task-7", recipient=recipient, **MESSAGES[method])
    reader = host.desk if recipient == "desk" else CFO
    (notice,) = host.call("QUERY", "/notifications", {}, caller=reader).result["notifications"]
    assert notice["task_id"] == "task-7"
    answer = reply(host, reader, "task-7")
    assert answer.status == 200, answer.document
    assert (answer.result["of"], answer.result["thread"]) == ("notification", notice["notification_id"])
    (told,) = host.inbox(host.writer)
    assert (told["content"]["content"], told["content"]["in_reply_to"]) == ("Yes.", "task-7")
    host.close()


def test_a_broadcast_is_answered_by_its_task_id(host: Transacting) -> None:
    """METH-070: as other messages, by any agent of the audience."""
    sent(host, "BROADCAST", "task-8", audience="desk", content="Sunday")
    assert reply(host, host.desk, "task-8").status == 200
    assert [each["topic"] for each in host.inbox(host.writer)] == ["reply"]


@each_row("recipient", ["usr-cfo", "board"])
@each_row("named", ["task-0881", "task-0880", "escalation_id"])
def test_a_person_answers_an_escalation(recipient: str, named: str) -> None:
    """AGTP-334, METH-070: by the message's Task-ID, by the task that it stopped, and by its identifier; both ways."""
    host = Transacting(settings=ADDRESSED)
    made = sent(host, "ESCALATE", "task-0881", recipient=recipient, **ASK)
    answer = reply(host, CFO, made.get(named, named))
    assert answer.status == 200, answer.document
    assert (answer.result["of"], answer.result["thread"]) == ("escalation", made["escalation_id"])
    (told,) = host.inbox(host.writer)
    assert told["sender"] == f"key:{CFO.fingerprint}"
    back = reply(host, host.writer, made["escalation_id"])
    assert (back.status, back.result["recipient"]) == (200, recipient)
    read = host.call("QUERY", "/notifications", {}, caller=CFO).result["notifications"]
    assert [each["thread"] for each in read] == [made["escalation_id"]]
    host.close()


def test_a_reply_by_who_was_not_asked_is_404(host: Transacting) -> None:
    """METH-070: foreign and missing Task-IDs answer alike; a name in a header makes nobody a person."""
    sent(host, "NOTIFY", "task-7", recipient="usr-cfo", content=1)
    made = sent(host, "ESCALATE", "task-0881", recipient="usr-cfo", **ASK)
    other = of_key(key_of("another person"))
    for target in ("task-7", "task-0881", "task-0880", made["escalation_id"], "task-none"):
        refused = reply(host, host.stranger, target)
        assert (refused.status, refused.reason) == (404, "target-unknown")
        assert reply(host, other, target).status == 401
        headers = {"Agent-ID": CFO.fingerprint}
        given = {"in_reply_to": target, "content": 1}
        assert host.call("REPLY", "/", given, caller=None, headers=headers).status in (401, 404)


def test_a_task_id_that_another_took_is_refused(host: Transacting) -> None:
    """METH-070: who sends under another's Task-ID gets no reply that was meant for the other; it is 409 and named."""
    first = sent(host, "NOTIFY", "task-7", recipient="usr-cfo", content=1)["notification_id"]
    second = sent(host, "NOTIFY", "task-7", host.archive, recipient="usr-cfo", content=2)["notification_id"]
    refused = reply(host, CFO, "task-7")
    assert (refused.status, refused.reason) == (409, "target-ambiguous")
    assert set(refused.document["messages"]) == {first, second}
    assert reply(host, CFO, first).status == 200
    assert host.inbox(host.archive) == []
    sent(host, "ESCALATE", "task-0881", recipient="usr-cfo", **ASK)
    sent(host, "NOTIFY", "task-0881", host.stranger, recipient="usr-cfo", content="answer me")
    assert reply(host, CFO, "task-0881").status == 409
    assert host.inbox(host.stranger) == []


def test_many_escalations_of_others_answer_a_reply_as_none(host: Transacting, monkeypatch: pytest.MonkeyPatch) -> None:
    """METH-070: a caller who may see none of the escalations does not learn that a task has many."""
    monkeypatch.setattr(replies, "MOST_UNDER_TASK", 1)
    for agent in (host.writer, host.archive):
        sent(host, "ESCALATE", "task-0881", agent, recipient="usr-cfo", **ASK)
    foreign, missing = (reply(host, host.stranger, task) for task in ("task-0880", "task-0889"))
    assert (foreign.status, foreign.reason) == (missing.status, missing.reason) == (404, "target-unknown")
    seen = reply(host, CFO, "task-0880")
    assert (seen.status, seen.reason) == (409, "target-ambiguous")


def test_a_task_id_cannot_stand_for_an_identifier(host: Transacting) -> None:
    """METH-070: the identifiers of the host count before Task-IDs, which callers choose."""
    made = sent(host, "ESCALATE", "task-0881", recipient="usr-cfo", **ASK)["escalation_id"]
    sent(host, "NOTIFY", made, host.stranger, recipient="usr-cfo", content="answer me")
    assert reply(host, CFO, made).result["recipient"] == host.writer.agent_id
    assert host.inbox(host.stranger) == []


def test_of_several_messages_of_a_sender_the_newest_is_answered(host: Transacting) -> None:
    """METH-070: one sender's messages under one Task-ID are one conversation."""
    sent(host, "NOTIFY", "task-7", recipient="desk", content=1)
    host.advance(2)
    newest = sent(host, "NOTIFY", "task-7", recipient="desk", content=2)["notification_id"]
    assert reply(host, host.desk, "task-7").result["thread"] == newest


def test_a_reply_to_a_group_that_is_gone_reaches_the_operator() -> None:
    """A configuration that knows the recipient no longer leaves the escalation with the operator."""
    host = Transacting(settings=ADDRESSED)
    made = sent(host, "ESCALATE", "task-0881", recipient="board", **ASK)["escalation_id"]
    after = Transacting(host.store)
    after.clock.advance(host.clock.seconds())
    assert after.call("QUERY", "/escalations", {}, caller=CFO).result["count"] == 0
    assert reply(after, after.writer, made).result["recipient"] == "operator"
    after.close()
