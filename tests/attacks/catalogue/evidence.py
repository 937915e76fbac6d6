"""Records, logs and secrets."""

from __future__ import annotations

import os
import re

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import each_alone, said, turns
from tests.system.raw_link import Answer, RawLink, client_context, request

TRICKS = ["\x1b[2J\x1b]0;owned\x07", "{log_format!r}", "%s%n", "\u202egnp.exe", "x\u2028y", '"}\n{"level": "critical"']
"""What a terminal, a formatter or a reader of JSON lines would obey."""


def anything(message: bytes, answer: Answer | None) -> None:
    """No surprise."""
    status = None if answer is None else answer.status
    assert status is None or status < 500 or status in (501, 503, 551), (message[:200], answer)


def log_lines(target: Target, seconds: float) -> None:
    """In bodies, paths and headers: the log has none of it as it came, and no line that a caller wrote."""
    before = len(target.log)
    bodies = [request("ECHO", "/text", {"text": trick, trick[:20]: 1}) for trick in TRICKS]
    heads = [f"AGTP/1.0 ECHO /{trick}\r\nUser-Agent: {trick}\r\n\r\n".encode() for trick in TRICKS]
    tasks = [request("ECHO", "/text", {"text": "x"}, Authorization="Bearer {0}{log_level}") for _ in range(2)]
    each_alone(target, seconds / 2, bodies + heads + tasks, anything)
    each_alone(target, seconds / 2, bodies + heads + tasks, anything, agent="demo")
    for line in target.log[before:]:
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", line) is None, repr(line)[:300]
        assert not line.startswith('{"level": "critical"'), line[:300]


def secrets(target: Target, seconds: float) -> None:
    """Credentials of callers are in no file of the host's, and in no line of its log."""
    canary = f"canary{os.urandom(8).hex()}"
    messages = [
        request("ECHO", "/text", {"text": "x"}, Authorization=f"Bearer {canary}"),
        request("QUERY", "/nothing", Authorization=f"Basic {canary}"),
        request("DELEGATE", "/", {"delegation_token": canary, "target_agent_id": "x"}, Task_ID="t"),
        request("ECHO", "/nothing", {"text": "x"}, Proxy_Authorization=canary, Cookie=canary),
    ]
    each_alone(target, seconds, messages, anything, agent="demo")
    assert not [line for line in target.log if canary in line], "a credential is in the log"
    for file in target.state.rglob("*"):
        if file.is_file():
            assert canary.encode() not in file.read_bytes(), f"a credential is in {file.name}"


def inspections(target: Target, seconds: float) -> None:
    """Strangers and agents read chains, page after page, as large as they may be."""
    for agent in (None, "demo"):
        context = client_context(target, identified=agent is not None)
        with RawLink(target, context=context, source="127.0.3.1") as link:
            for _ in turns(seconds / 2, most=500):
                link.send(request("INSPECT", "/", {"target": "chain", "chain": "host", "limit": 1000}))
                answer = said(link)
                if answer is None:
                    break
                assert answer.status in (200, 401, 403, 422, 429), answer
                assert len(answer.body) <= 4 * MIB, f"an answer of {len(answer.body)} octets"


def unknown_records(target: Target, seconds: float) -> None:
    """Audit-IDs that nobody has, and texts that are none."""
    ids = [os.urandom(32).hex(), "0" * 64, "x", "../../signing.key", "A" * 5000, "' OR 1=1 --"]
    messages = [request("INSPECT", "/", {"target": "audit", "audit_id": each}) for each in ids]
    messages += [request("INSPECT", "/", {"target": each, "agent_id": "0" * 64}) for each in ids]

    def judge(message: bytes, answer: Answer | None) -> None:
        assert answer is None or answer.status in (401, 403, 404, 410, 422, 429, 400), (message, answer)

    each_alone(target, seconds / 2, messages, judge)
    each_alone(target, seconds / 2, messages, judge, agent="demo")


def operators_inbox(target: Target, seconds: float) -> None:
    """One agent tells and asks the operator as fast as it can."""
    with RawLink(target, context=client_context(target), source="127.0.3.1") as link:
        for turn in turns(seconds, most=20):
            burst = [
                request("ESCALATE", "/", {"reason": "x" * 200, "context": {"turn": turn}}, Task_ID=f"t{turn}-{each}")
                if each % 2
                else request("NOTIFY", "/", {"recipient": "operator", "content": {"text": "y" * 500}})
                for each in range(40)
            ]
            link.send(b"".join(burst))
            for message in burst:
                anything(message, said(link))


def _attack(name: str, who: str, says: str, run: object, **more: object) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack("log-injection", "stranger", "Escapes, braces and line ends: none reaches the log.", log_lines),
    _attack("secrets-in-evidence", "agent", "Credentials: in no file and no line of the log.", secrets),
    _attack("large-inspections", "stranger", "Chains read page by page, as large as may be.", inspections),
    _attack("unknown-records", "stranger", "Audit-IDs that nobody has, and texts that are none.", unknown_records),
    _attack("operator-flood", "agent", "ESCALATE and NOTIFY as fast as one agent can.", operators_inbox),
)
