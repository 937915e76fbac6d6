"""Escalations that are addressed to people, and Task-IDs that others use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agtphost.testing.identities import key_of
from tests.attacks.attack import Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import each_alone
from tests.system.raw_link import Answer, RawLink, client_context, request

CFO = key_of("usr-cfo").public.fingerprint
SOURCE = "127.0.3.1"


def with_people(folder: Path) -> None:
    """A person whom agents escalate to, and REPLY."""
    amend(folder, "notify.people", f'usr-cfo = "{CFO}"')
    amend(folder, "methods", 'standard = ["REPLY"]')


def decisions_of_others(target: Target, seconds: float) -> None:
    """By the person's name and key in headers, by Task-ID, by identifier: nothing is seen, answered or decided."""
    task = f"task-{os.urandom(4).hex()}"
    given = {"task_id": task, "reason": "scope_limit", "context": {"secret": f"canary-{task}"}}
    with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as link:
        made = link.ask("ESCALATE", "/", {**given, "recipient": "usr-cfo"}, Task_ID=f"{task}-m")
        assert made.status == 202, made
        known = _result(made)["escalation_id"]
        names: list[dict[str, str]] = [{}, {"Agent_ID": CFO}, {"Agent_ID": "usr-cfo"}, {"Agent_ID": f"key:{CFO}"}]
        messages = [
            message
            for fields in names
            for name in (known, task, f"{task}-m")
            for message in (
                request("CONFIRM", "/", {"target_id": name, "status": "accepted"}, **fields),
                request("REPLY", "/", {"in_reply_to": name, "content": "go on"}, **fields),
                request("QUERY", "/escalations", {"task_id": name}, **fields),
            )
        ]
        unknown = ("no-such-person", "notify:usr-cfo", CFO, f"key:{CFO}")
        messages += [request("ESCALATE", "/", {**given, "recipient": name}) for name in unknown]

        def judge(message: bytes, answer: Answer | None) -> None:
            if answer is None:
                return
            assert f"canary-{task}".encode() not in answer.body, (message[:200], answer)
            if b" QUERY " in message and answer.status == 200:
                assert _result(answer)["count"] == 0, (message[:200], answer)
            else:
                assert answer.status in (400, 401, 404, 422, 429), (message[:200], answer)

        each_alone(target, seconds / 2, messages, judge)
        each_alone(target, seconds / 2, messages, judge, agent="demo")
        (entry,) = _result(link.ask("QUERY", "/escalations", {"escalation_id": known}))["escalations"]
        assert entry["status"] == "pending", entry


def _result(answer: Answer) -> Any:
    return json.loads(answer.body)["result"]


ATTACKS = (
    Attack(
        name="decisions-of-others",
        who="agent",
        says="What is escalated to a person is looked at, answered or decided by nobody else, whatever name they use.",
        run=decisions_of_others,
        configure=with_people,
    ),
)
