"""What is kept per agent, filled by one agent and by many: who comes after them can still do its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from agtphost.identity import delegation
from agtphost.identity.certificates import Authority
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import AgentDescription, issue_agent, registrar_url
from agtphost.vocabulary.quotas import ITEM_KINDS
from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.held import TOOL, flood, held, kept
from tests.attacks.site import amend
from tests.attacks.strikes import fewer
from tests.system.raw_link import request

CROWD = 12
"""Agents, each of an owner of its own."""

MOST = 500
"""Requests of one agent."""

Ask = Callable[[Target, str, int], bytes]
"""The n-th request of an agent, by its name."""


def names() -> list[str]:
    return [f"crowd{number}" for number in range(CROWD)]


def crowd(folder: Path) -> None:
    """Issue them."""
    issue(folder, names())


def issue(folder: Path, agents: Sequence[str]) -> None:
    """Make agents, each of an owner of its own: what ``agtp agent new`` does, without a process for each."""
    state = folder / "state"
    registrar, authority = SigningKey.load(state / "registrar.key"), Authority.load(state / "ca.pem", state / "ca.key")
    for name in agents:
        described = AgentDescription(name=name, scopes=("*:*",), owner_id=f"owner-{name}", principal=f"Owner of {name}")
        issue_agent(
            state / "agents" / name,
            described,
            registrar,
            issuer=registrar_url("localhost"),
            authority=authority,
            now=datetime.now(UTC),
        )


def filled(target: Target, seconds: float, ask: Ask, who: list[str], wanted: int) -> dict[str, dict[str, int]]:
    """
    Each agent in turn sends what it can; then ``other``, who sent nothing before, is answered as the first one was.

    :return: how often each answer came, by agent.
    """
    answers: dict[str, dict[str, int]] = {}
    for name in who:
        counts = flood(target, seconds / len(who), lambda n, name=name: ask(target, name, n), MOST, agent=name)
        answers[name] = {f"{status} {reason}".strip(): times for (status, reason), times in counts.items()}
    assert answers[who[0]].get(str(wanted)), f"the attack filled nothing: {answers}"
    late = flood(target, 5.0, lambda n: ask(target, "other", n), 50, agent="other")
    assert late.get((wanted, "")), f"who comes after the crowd is refused: {late}"
    return answers


def _fill(ask: Ask, kind: str, wanted: int, *, many: bool) -> Callable[[Target, float], None]:
    def run(target: Target, seconds: float) -> None:
        crowd = names()[: fewer(CROWD, seconds)]
        answers = filled(target, seconds, ask, crowd if many else ["demo"], wanted)
        holding = ITEM_KINDS.get(kind)
        if holding is not None:
            there = held(target, kind)
            assert 0 < there <= holding.in_all, (kind, there, answers)
            most = kept(
                target, f"SELECT max(n) FROM (SELECT count(*) AS n FROM held WHERE kind = '{kind}' GROUP BY owner)"
            )
            assert most <= holding.per_owner, (kind, most, answers)

    return run


def note(target: Target, name: str, number: int) -> bytes:
    """Long notifications to one inbox; ``other`` writes to ``demo``."""
    recipient = _agent(target, "demo" if name == "other" else "other")
    return request("NOTIFY", "/", {"recipient": recipient, "content": {"text": "n" * 15_000}, "topic": f"{number}"})


def session(target: Target, name: str, number: int) -> bytes:
    return request("ECHO", "/text", {"text": "x"}, Session_ID=f"{name}-{number:0100}", Task_ID=f"t-{number}")


def key(target: Target, name: str, number: int) -> bytes:
    return request("EXECUTE", "/", TOOL, Idempotency_Key=f"{name}-{number}")


def contract(target: Target, name: str, number: int) -> bytes:
    proposal = json.loads((target.config.parent / "proposals" / "catalogue.json").read_text())
    return request("PROPOSE", "/", {"endpoint": proposal, "requested_duration": "1h"})


@cache
def _signing(path: Path) -> SigningKey:
    return SigningKey.load(path)


@cache
def _identified(document: Path) -> str:
    return str(json.loads(document.read_text())["agent_id"])


def _agent(target: Target, name: str) -> str:
    return _identified(target.state / "agents" / name / "document.json")


def _delegated(target: Target, name: str, number: int, **more: object) -> bytes:
    own, task = _agent(target, name), f"{name}-{number}"
    helper = _identified(target.config.parent / "agents" / "assistant" / "document.json")
    token = delegation.issue(
        _signing(target.state / "agents" / name / "agent.key"),
        issuer=own,
        delegator=own,
        delegatee=helper,
        scope=["documents:query"],
        task_id=task,
        now=time.time(),
    )
    body = {
        "target_agent_id": helper,
        "task": {"method": "ECHO", "path": "/text", "parameters": {"text": uuid.uuid4().hex}},
        "authority_scope": "documents:query",
        "delegation_token": token,
        **more,
    }
    return request("DELEGATE", "/", body, Task_ID=task)


def hop(target: Target, name: str, number: int) -> bytes:
    return _delegated(target, name, number)


def task(target: Target, name: str, number: int) -> bytes:
    return _delegated(target, name, number, asynchronous=True)


IN_ALL = 300


def few_keys(folder: Path) -> None:
    """Caps that an attack of some seconds reaches."""
    crowd(folder)
    amend(folder, "limits", f"keyed_requests_per_agent = 90\nkeyed_requests_in_all = {IN_ALL}")


def keys(target: Target, seconds: float) -> None:
    """The cap of all is never passed, and who comes late gets a share of it."""
    answers = filled(target, seconds, key, names()[: fewer(CROWD, seconds, least=8)], 200)
    assert any("429 idempotency-quota" in each for each in answers.values()), answers
    there = kept(target, "SELECT keys FROM keyed WHERE owner = X''")
    assert there == kept(target, "SELECT count(*) FROM reservation") <= IN_ALL, (there, answers)


_KINDS: tuple[tuple[str, Ask, str, int, str], ...] = (
    ("inboxes", note, "notification", 202, "Long notifications"),
    ("sessions", session, "", 200, "A new session and task each time"),
    ("contracts", contract, "contract", 263, "Proposals that are approved"),
    ("hops", hop, "delegation", 200, "A new delegation token each time"),
    ("delegated-tasks", task, "delegated-task", 202, "Delegations that outlive their request"),
)


def _attacks() -> Iterator[Attack]:
    for name, ask, kind, wanted, says in _KINDS:
        for many in (False, True):
            if not many and name in ("inboxes", "sessions"):
                continue  # ``full-inbox`` and ``many-sessions`` are these.
            yield Attack(
                name=f"crowded-{name}" if many else f"filled-{name}",
                who="agent",
                says=f"{says}, by {f'{CROWD} agents' if many else 'one agent'}: the next one can still do its own.",
                run=_fill(ask, kind, wanted, many=many),
                configure=crowd if many else None,
                alone=True,
            )
    yield Attack(
        name="crowded-keys",
        who="agent",
        says=f"A new Idempotency-Key each time, by {CROWD} agents: the cap of all holds, and the next one has a share.",
        run=keys,
        configure=few_keys,
        alone=True,
    )


ATTACKS = tuple(_attacks())
