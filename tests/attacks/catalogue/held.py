"""What the host keeps because it is asked to: state items, caches, stored answers and the operator's inbox."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import agent_of, said, turns
from tests.system.raw_link import Answer, RawLink, client_context, request

SOURCE = "127.0.3.1"
BURST = 50
"""Requests that are sent before the answers are read."""

Make = Callable[[int], bytes]


def flood(target: Target, seconds: float, make: Make, most: int, agent: str = "demo") -> dict[tuple[int, str], int]:
    """So many requests of one agent with its certificate; how often each answer came."""
    counts: dict[tuple[int, str], int] = {}
    with RawLink(target, context=client_context(target, agent=agent), source=SOURCE) as link:
        for turn in turns(seconds, most // BURST):
            for number in range(BURST):
                link.send(make(turn * BURST + number))
            for _ in range(BURST):
                answer = said(link)
                assert answer is not None, f"the host closed the connection after {counts}"
                assert answer.status < 500, (answer.status, answer.reason)
                place = answer.status, answer.reason or ""
                counts[place] = counts.get(place, 0) + 1
    return counts


def kept(target: Target, query: str) -> int:
    """A number that the store tells."""
    store = next(target.state.glob("*.sqlite3"), None) or next(target.state.rglob("*.db"))
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        return int(database.execute(query).fetchone()[0] or 0)


def held(target: Target, kind: str) -> int:
    """How many items of a kind are in the store."""
    assert kind.replace("-", "").isalpha()
    return kept(target, f"SELECT count(*) FROM held WHERE kind = '{kind}'")


def inboxes(target: Target, seconds: float) -> None:
    """One agent's notifications to another, long ones: its share of the inbox, and no more."""
    recipient = agent_of(target, "other")
    long = {"text": "n" * 15_000}
    message = {"recipient": recipient, "content": long}
    counts = flood(target, seconds, lambda n: request("NOTIFY", "/", {**message, "topic": str(n)}), 1_000)
    assert 0 < counts.get((202, ""), 0) <= 100, counts
    assert held(target, "notification") <= 2_000


def sessions(target: Target, seconds: float) -> None:
    """A new Session-ID and a new Task-ID with every request."""

    def make(number: int) -> bytes:
        return request("ECHO", "/text", {"text": "x"}, Session_ID=f"s-{number:0100}", Task_ID=f"t-{number}")

    flood(target, seconds, make, 10_000)


def suspensions(target: Target, seconds: float) -> None:
    """Tasks that are suspended, with checkpoints as long as may be: 100 at a time, others are refused."""
    point = {"state": "c" * 15_000}
    given = {"checkpoint": point}
    counts = flood(target, seconds, lambda n: request("SUSPEND", "/", {"task_id": f"held-{n}", **given}), 600)
    assert 0 < counts.get((200, ""), 0) <= 100, counts
    assert held(target, "suspension") <= 200


def negotiations(target: Target, seconds: float) -> None:
    """Proposals without an end: negotiations, attempts and contracts stay few."""
    body = {"endpoint": {"method": "BOOK", "path": "/a"}, "parameters": {}}
    counts = flood(target, seconds, lambda n: request("PROPOSE", "/", {**body, "n": n}, Allow_RCNS="true"), 1_000)
    assert counts, "nothing was proposed"
    for kind, most in (("negotiation", 32 * 4), ("rcns-attempt", 200), ("contract", 64 * 4), ("proposal", 64 * 4)):
        assert held(target, kind) <= most, kind


def keys(target: Target, seconds: float) -> None:
    """A new Idempotency-Key with every call: the quota ends it, with a refusal of its own."""
    counts = flood(target, seconds, lambda n: request("EXECUTE", "/", TOOL, Idempotency_Key=f"key-{n}"), 2_000)
    answered = sum(counts.values())
    assert counts.get((200, ""), 0), counts
    if answered > KEYS:
        assert counts.get((429, "idempotency-quota"), 0) >= answered - KEYS, counts
    assert kept(target, "SELECT max(keys) FROM keyed") <= KEYS


KEYS = 100
TOOL = {
    "action": "mcp.tools.call",
    "payload_type": "application/vnd.mcp.tools+json",
    "payload": {"tool": "files.list_files", "arguments": {}},
}


def few_keys(folder: Path) -> None:
    """A quota that an attack of some seconds can reach."""
    amend(folder, "limits", f"keyed_requests_per_agent = {KEYS}")


def claims(target: Target, seconds: float) -> None:
    """Another Authority-Scope with every request, as long as a header may be: what was worked out is forgotten."""

    def make(number: int) -> bytes:
        scope = ",".join(f"n{number}:p{part}" for part in range(500))
        return request("ECHO", "/text", {"text": "x"}, Authority_Scope=scope)

    flood(target, seconds, make, 5_000)


def inbox_of_the_operator(target: Target, seconds: float) -> None:
    """One owner's agent fills the operator's inbox; another owner's message and its escalation still arrive."""
    message = {"recipient": "operator", "content": {"text": "noise" * 100}}
    both = [{**message, "urgency": urgency} for urgency in ("informational", "critical")]
    counts = flood(target, seconds / 2, lambda n: request("NOTIFY", "/", both[n % 2]), 1_000)
    assert 0 < counts.get((202, ""), 0) <= 200, counts
    with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as link:
        for urgency in ("informational", "critical"):
            link.send(request("NOTIFY", "/", {**message, "urgency": urgency}))
            answer: Answer | None = said(link)
            assert answer is not None and answer.status == 202, (urgency, answer and json.dumps(answer.json))


def approvals(target: Target, seconds: float) -> None:
    """Calls that a person has to approve, a new one each time: 100 wait, none runs, and another agent's still waits."""
    name = "n" * 200

    def make(number: int) -> bytes:
        payload = {"tool": "files.delete_note", "arguments": {"name": f"{name}{number}"}}
        return request("EXECUTE", "/", {**TOOL, "payload": payload})

    counts = flood(target, seconds / 2, make, 2_000)
    assert 0 < counts.pop((202, "approval-required"), 0) <= OPEN_APPROVALS, counts
    assert set(counts) <= {(429, "too-many-approvals")}, counts
    assert held(target, "approval") <= OPEN_APPROVALS
    with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as link:
        link.send(make(0))
        answer = said(link)
        assert answer is not None and (answer.status, answer.reason) == (202, "approval-required"), answer
        assert answer.json()["approval_id"]
    # The flooder's own first call still waits, and is no further one.
    again = flood(target, seconds / 2, lambda _: make(0), BURST)
    assert set(again) == {(202, "approval-required")}, again
    assert held(target, "approval") <= OPEN_APPROVALS + 1


OPEN_APPROVALS = 100


def needs_approval(folder: Path) -> None:
    """A person approves every deletion of a note."""
    amend(folder, "mcp.server.tools.delete_note", 'approval = "required"')


def _attack(name: str, says: str, run: Callable[[Target, float], None], **more: object) -> Attack:
    return Attack(name=name, who="agent", says=says, run=run, alone=True, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack("full-inbox", "Long notifications to another agent: 100 unread of one sender.", inboxes, memory=48 * MIB),
    _attack("many-sessions", "A new session and task each time: 200 of an agent are remembered.", sessions),
    _attack("many-suspensions", "Suspended tasks with long checkpoints: 100 of an agent.", suspensions),
    _attack("many-negotiations", "Proposals without an end: what they leave stays few.", negotiations),
    _attack("many-keys", "A new Idempotency-Key each time: the quota ends it.", keys, configure=few_keys),
    _attack("many-claims", "Another long Authority-Scope each time: nothing of them stays.", claims, memory=48 * MIB),
    _attack(
        "many-approvals",
        "Calls that a person has to approve, without an end: 100 of an agent wait, and those of others too.",
        approvals,
        configure=needs_approval,
    ),
    _attack("noisy-owner", "One owner's messages to the operator: others still arrive.", inbox_of_the_operator),
)
