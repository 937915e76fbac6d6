"""
Inboxes that are full, groups of many and escalations by the thousand: no message and no list holds the reactor.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest

from agtphost.host.root import tune_collector
from agtphost.methods.oversight import escalation
from agtphost.methods.oversight.notification import MOST
from agtphost.stores.rows import ItemRow
from agtphost.testing import Answer
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import TurnHost, row
from tests.programmes import length
from tests.rows import each_row

MEMBERS, MAILS = 25, length(110, 1_800)
"""Inboxes of a group, and what is in each: all together, notifications are 50,000."""

ESCALATIONS = length(1_000, 150_000)
LARGE = length(100, MOST)
"""Members of a group whose inboxes are empty."""

LONG = "Mail a.b@example.com by 2026-03-01, it is 12.50 EUR. " * 300


class Mailing(TurnHost):
    """A host with all that."""

    def __init__(self) -> None:
        names, others = [f"m{n}" for n in range(MEMBERS)], [f"k{n}" for n in range(LARGE)]
        keys = {name: f"{n:064x}" for n, name in enumerate(others, 1)}
        crowd = [f"c{n}" for n in range(MOST + 1)]
        people = {**keys, **{name: f"{n:064x}" for n, name in enumerate(crowd, 10_000)}}
        groups = {"few": names, "many": others, "crowd": crowd}
        super().__init__({"methods": {"standard": "*"}, "notify": {"people": people, "groups": groups}})
        self.clerk = self.agent("clerk", scopes=("activation:run",))
        self.sender = self.agent("sender", scopes=("activation:run",))
        self.members = [self.agent(name, hosted=True) for name in names]
        self.numbers = count()
        self.keep(self._notes())
        self.keep(self._escalations())

    def _notes(self) -> Iterator[ItemRow]:
        ends = int((time.time() + 36_000) * 1_000)
        for number in range(MEMBERS * MAILS + 400):
            at, mail = divmod(number, MAILS)
            reader = self.members[at] if at < MEMBERS else self.clerk
            value = {
                "notification_id": f"ntf-{number}",
                "recipient": reader.agent.agent_id,
                "sender": (self.sender if at < MEMBERS else self.members[0]).agent.agent_id,
                "topic": "t",
                "content": {"text": "x" if at < MEMBERS else LONG[:15_000]},
                "urgency": "informational",
                "delivery_guarantee": "exactly_once",
                "expiry": None,
                "sent_at": f"2026-01-31T00:{number // 60 % 60:02}:{number % 60:02}.000000Z",
                "status": "acknowledged" if at < MEMBERS and mail >= 99 else "held",
            }
            yield row("notification", f"ntf-{number}", reader.agent.agent_id, value, ends)

    def _escalations(self) -> Iterator[ItemRow]:
        for number in range(ESCALATIONS):
            owner = self.members[number % MEMBERS].agent.agent_id
            value = {
                "escalation_id": f"esc-{number}",
                "escalated_by": owner,
                "owner_id": "owner",
                "task_id": f"t{number}",
                "reason": "ethical_flag",
                "priority": "normal",
                "context": {"text": "x" * 200},
                "deadline": None,
                "session_id": None,
                "recipient": self.clerk.agent.agent_id,
                "routed_to": "clerk",
                "status": "pending",
                "flood": False,
                "queued": True,
                "created_at": f"2026-01-31T00:00:00.{number:06}Z",
                "decision": None,
            }
            yield row("escalation", f"esc-{number}", owner, value)

    def best(self, method: str, path: str, given: Mapping[str, Any], caller: Any) -> tuple[Answer, float]:
        """The best of six, where the first is too long."""
        found = []
        for _ in range(6):
            answer, seconds = self.longest(method, path, given, caller=caller)
            found.append(seconds)
            if seconds < most():
                break
        return answer, min(found)


@pytest.fixture(scope="module")
def host() -> Iterator[Mailing]:
    thresholds = gc.get_threshold()
    made = Mailing()
    assert made.core.services.evidence.held.count("escalation") == ESCALATIONS
    tune_collector()
    yield made
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    made.close()


ASKED: dict[str, tuple[str, str, Mapping[str, Any], str, int]] = {
    "an inbox of long ones": ("QUERY", "/notifications", {"limit": 500}, "clerk", 400),
    "the first of it": ("QUERY", "/notifications", {}, "clerk", 400),
    "what was sent": ("QUERY", "/notifications", {"box": "sent"}, "sender", MEMBERS * MAILS),
    "what is to be decided": ("QUERY", "/escalations", {"limit": 200}, "clerk", ESCALATIONS),
    "a message to full inboxes": ("ALERT", "/", {"recipient": "few", "message": LONG[:15_000]}, "clerk", MEMBERS),
    "one for all of them": (
        "BROADCAST",
        "/",
        {"audience": "few", "content": {"text": LONG[:15_000]}},
        "clerk",
        MEMBERS,
    ),
    "a report": ("REPORT", "/", {"report_type": "usage", "scope": "records", "recipient": "few"}, "clerk", MEMBERS),
    "an alert for many": ("ALERT", "/", {"recipient": "many", "message": LONG[:15_000]}, "clerk", LARGE),
    "a notification for many": (
        "NOTIFY",
        "/",
        {"recipient": "many", "topic": "t", "content": LONG[:15_000]},
        "clerk",
        LARGE,
    ),
}


@measured
@pytest.mark.programme
@each_row("name", ASKED)
def test_no_message_and_no_list_holds_the_reactor(host: Mailing, name: str) -> None:
    """What is looked at is not read, and what is much is done in another thread, or in turns."""
    method, path, given, who, expected = ASKED[name]
    if method == "ALERT":
        given = {**given, "severity": "warning"}
    answer, seconds = host.best(method, path, given, getattr(host, who))
    print(f"{name} {answer.status} {seconds * 1000:.1f} ms")
    assert answer.status < 300, answer.document
    result = answer.result
    told = result.get("count", result.get("delivered", len(result.get("notifications", ()))))
    assert told == expected
    assert seconds < most()


@measured
def test_a_list_that_is_made_at_once_is_too_long(host: Mailing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control, with work that takes as long for a thousand as it does for ten thousand."""
    place = escalation._place

    def longer(item: Any) -> Any:
        until = time.thread_time() + 0.000_05
        while time.thread_time() < until:
            pass
        return place(item)

    monkeypatch.setattr(escalation, "_place", longer)
    answer, seconds = host.best("QUERY", "/escalations", {}, host.clerk)
    assert answer.result["count"] == ESCALATIONS and seconds < most()
    monkeypatch.setattr(escalation, "is_little", lambda held, kind: True)
    answer, seconds = host.best("QUERY", "/escalations", {}, host.clerk)
    assert answer.result["count"] == ESCALATIONS
    assert seconds > most()


def test_a_group_is_no_larger_than_a_message_may_be(host: Mailing) -> None:
    """Whichever method is to reach it; and however many it has, the answer can be read."""
    for method, given in (
        ("NOTIFY", {"topic": "t", "content": {}}),
        ("ALERT", {"message": "m", "severity": "high"}),
        ("REPORT", {"report_type": "usage", "scope": "records"}),
    ):
        answer, _ = host.longest(method, "/", {**given, "recipient": "crowd"}, caller=host.clerk)
        assert answer.status == 422 and "1000 members" in answer.explanation, answer.document
