"""One request that makes thousands of calls or stores megabytes, and one agent that takes what all share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.crowds import issue
from tests.attacks.catalogue.held import SOURCE, kept
from tests.attacks.site import amend
from tests.attacks.strikes import said
from tests.system.raw_link import Answer, RawLink, client_context, request

PER_MINUTE = 60
OCTETS_PER_CALL = 8_000
"""Octets of the store's file that one charged call may cost."""

Parameters = Mapping[str, Any]

AGENTS: Mapping[str, Sequence[str]] = {
    attack: [f"{attack}{number}" for number in range(count)]
    for attack, count in (("lists", 7), ("stored", 14), ("filling", 7), ("holding", 5))
}
"""Agents of each attack: whoever has used up its rate is of no use to the next one."""


COLLECTIONS = """
[[methods.collection]]
name = "goods"
read = []
write = []
max_items = 10000

[[methods.collection]]
name = "crowded"
read = []
write = []
max_items = 200

[[methods.collection]]
name = "jobs"
read = []
write = []
queue = true
max_items = 400
"""


def sharing(folder: Path) -> None:
    """Few requests a minute, all standard methods, collections and a queue, and agents of owners of their own."""
    issue(folder, [name for each in AGENTS.values() for name in each])
    amend(folder, "limits", f"requests_per_minute = {PER_MINUTE}")
    file = folder / "host.toml"
    members = json.dumps([_agent_id(folder / "state", name) for name in AGENTS["stored"]])
    with file.open("a") as config:
        config.write(f'\n[methods]\nstandard = "*"\nprocedures = {{ stay = "reading-stay" }}\n{COLLECTIONS}')
        config.write(f"\n[registry]\n\n[notify.groups]\neverybody = {members}\n")


def _agent_id(state: Path, name: str) -> str:
    return str(json.loads((state / "agents" / name / "document.json").read_text())["agent_id"])


class Caller:
    """One agent on one connection."""

    def __init__(self, target: Target, name: str) -> None:
        self._link = RawLink(target, context=client_context(target, agent=name), source=SOURCE)

    def ask(self, method: str, path: str = "/", given: Parameters | None = None, **headers: str) -> Answer:
        self._link.send(request(method, path, given, **headers))
        answer = said(self._link)
        assert answer is not None, f"the host closed the connection after {method} {path}"
        assert answer.status < 500, (answer.status, answer.reason)
        return answer

    def __enter__(self) -> Caller:
        self._link.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()


def records(target: Target) -> int:
    """Return how many answers are on record; events of the host that sign changes of state are no calls."""
    return kept(target, "SELECT count(*) FROM record WHERE kind = 0")


def octets(target: Target) -> int:
    """Of the store's file, with what is still in its log."""
    store = next(target.state.glob("*.sqlite3"), None) or next(target.state.rglob("*.db"))
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages) * int(size)


def until_refused(caller: Caller, make: Callable[[int], tuple[Any, ...]], most: int) -> tuple[int, int]:
    """
    Send requests until one is 429.

    :return: how many were sent, and how many of them were answered otherwise.
    """
    for number in range(most):
        method, path, given, *more = make(number)
        if caller.ask(method, path, given, **(more[0] if more else {})).status == 429:
            return number + 1, number
    return most, most


# One request that is many calls

CARD = "/cards/agent:assistant"
ECHO: Parameters = {"method": "ECHO", "path": "/text", "parameters": {"text": "x"}}
CARD_CALL: Parameters = {
    "method": "EXECUTE",
    "path": CARD,
    "parameters": {"action": "echo_text", "parameters": {"text": "x"}},
}
CARD_BATCH: Parameters = {"action": "echo_text", "batch": [{"text": "x"}] * 50}

LISTS: Mapping[str, tuple[str, str, Parameters]] = {
    "a batch of batches of a card": (
        "BATCH",
        "/",
        {"calls": [{"method": "EXECUTE", "path": CARD, "parameters": CARD_BATCH}] * 100},
    ),
    "a batch of calls of a card": ("BATCH", "/", {"calls": [CARD_CALL] * 100}),
    "a batch of a card": ("EXECUTE", CARD, CARD_BATCH),
    "a batch of a fifth as many": ("BATCH", "/", {"calls": [CARD_CALL] * 20}),
    "a batch of runs": (
        "BATCH",
        "/",
        {"calls": [{"method": "RUN", "parameters": {"procedure_id": "stay", "input": {}}}] * 20},
    ),
    "a chain of batches": (
        "CHAIN",
        "/",
        {"steps": [{"method": "EXECUTE", "path": CARD, "parameters": CARD_BATCH}] * 50},
    ),
    "a chain": ("CHAIN", "/", {"steps": [ECHO] * 50}),
}


def many_calls_in_one(target: Target, seconds: float) -> None:
    """Requests that stand for thousands: each agent makes as many calls as its rate has, those inside included."""
    made = 0
    for name, agent in zip(LISTS, AGENTS["lists"], strict=True):
        with Caller(target, agent) as caller:
            before, began = records(target), time.monotonic()
            sent, _ = until_refused(caller, lambda number, name=name: LISTS[name], PER_MINUTE + 10)
            calls = records(target) - before
        allowed = PER_MINUTE + (time.monotonic() - began) * PER_MINUTE / 60
        # The request that is refused has a record, and so has each call of a card that it calls in its turn.
        assert calls <= allowed + 2, f"{name}: {calls} calls where {allowed:.0f} are allowed, by {sent} requests"
        made = max(made, calls)
    assert made >= PER_MINUTE / 2, f"nothing was called: {made}"


# One request that stores much


def _stores(target: Target) -> Mapping[str, Callable[[int], tuple[Any, ...]]]:
    """What stores most for one request, as a search over all methods and sizes has found it."""
    proposal = json.loads((target.config.parent / "proposals" / "catalogue.json").read_text())
    fields = {"Task_ID": "t" * 128, "Session_ID": "s" * 128}

    def rows(count: int, octets: int) -> tuple[Any, ...]:
        return "IMPORT", "/", {"target": "goods", "source": [{"text": "x" * octets}] * count}

    return {
        "rows that need two pages": lambda _: rows(20, 700),
        "many short rows": lambda _: rows(50, 1),
        "as many rows as there may be": lambda _: rows(500, 1_500),
        "a long item": lambda _: ("REGISTER", "/", {"entity_type": "goods", "data": {"text": "x" * 60_000}}),
        "a short item": lambda number: ("REGISTER", "/", {"entity_type": "goods", "data": {"id": f"n{number}"}}),
        "long messages to a group": lambda _: ("NOTIFY", "/", {"recipient": "everybody", "content": "x" * 15_000}),
        "messages to a group": lambda _: ("NOTIFY", "/", {"recipient": "everybody", "content": "x"}),
        "a long path": lambda _: ("ECHO", "/" + "a" * 8_000, {"text": "x"}, fields),
        "a long chain later": lambda _: (
            "CHAIN",
            "/",
            {"every": 3_600, "steps": [{**ECHO, "parameters": {"text": "x" * 1_900}}] * 30},
        ),
        "a chain behind one's back": lambda _: (
            "CHAIN",
            "/",
            {"background": True, "steps": [{**ECHO, "parameters": {"text": "x" * 1_900}}] * 5},
        ),
        "steps that are left out": lambda _: (
            "CHAIN",
            "/",
            {"background": True, "context_propagation": True, "steps": [ECHO, *[{**ECHO, "when": "=`false`"}] * 49]},
        ),
        "a checkpoint": lambda number: ("SUSPEND", "/", {"task_id": f"t{number}", "checkpoint": {"s": "c" * 15_000}}),
        "a log entry": lambda _: ("LOG", "/", {"event_type": "a", "data": {"text": "x" * 15_000}}),
        "a proposal": lambda _: ("PROPOSE", "/", {"endpoint": proposal, "requested_duration": "1h"}),
    }


def much_stored_for_one(target: Target, seconds: float) -> None:
    """The store grows by no more for each call that was charged than it may, whatever the call is."""
    grown: dict[str, float] = {}
    for (name, make), agent in zip(_stores(target).items(), AGENTS["stored"], strict=True):
        with Caller(target, agent) as caller:
            before, began = octets(target), time.monotonic()
            until_refused(caller, make, 2 * PER_MINUTE)
            # What goes on behind an answer is part of it; a further answer comes when that is stored.
            caller.ask("ESCALATE", "/", {"task_id": "t", "reason": "resource_unavailable", "context": {}})
            calls = PER_MINUTE + 1 + (time.monotonic() - began) * PER_MINUTE / 60
            grown[name] = (octets(target) - before) / calls
    assert max(grown.values()) > 1_000, f"nothing was stored: {grown}"
    assert max(grown.values()) <= OCTETS_PER_CALL, {name: round(each) for name, each in grown.items()}


# What all share


def fill_collection(target: Target, seconds: float) -> None:
    """One agent enters what it can, then five of other owners: each finds room, and so does a seventh."""
    crowded = 200
    there = partial(kept, target, "SELECT count(*) FROM held WHERE kind = 'collection-item' AND key LIKE 'crowded/%'")
    had: list[int] = []
    for agent in AGENTS["filling"][:6]:
        before = there()
        with Caller(target, agent) as caller:
            for rows in (20, 10, 5, 2, *[1] * 3):
                for _ in range(crowded // rows):
                    source = [{"n": number} for number in range(rows)]
                    if caller.ask("IMPORT", "/", {"target": "crowded", "source": source}).status == 429:
                        break
        had.append(there() - before)
    assert had[0] <= crowded / 2, f"the first one has {had[0]} of {crowded}"
    assert min(had) >= 1, f"somebody found no room: {had}"
    with Caller(target, AGENTS["filling"][6]) as caller:
        answer = caller.ask("REGISTER", "/", {"entity_type": "crowded", "data": {"n": 1}})
    assert answer.status == 200, f"who comes after them is refused: {answer.reason} after {had}"


def hold_queue(target: Target, seconds: float) -> None:
    """One agent holds what it can of a queue for twelve hours: another one finds work, and each as much as a half."""
    # Not an attack itself: work that others have submitted.
    for agent in AGENTS["holding"][:3]:
        with Caller(target, agent) as caller:
            until_refused(caller, lambda number: ("SUBMIT", "/", {"target": "jobs", "payload": number}), PER_MINUTE)
    waiting = kept(target, "SELECT count(*) FROM held WHERE kind = 'collection-item' AND key LIKE 'jobs/%'")
    assert waiting >= 2, "nobody submitted anything"
    held: list[int] = []
    for agent in AGENTS["holding"][3:]:
        got = 0
        with Caller(target, agent) as caller:
            for _ in range(20):
                given = {"source": "jobs", "max_items": 100, "visibility_timeout": 43_200}
                answer = caller.ask("PULL", "/", given)
                if answer.status == 429:
                    break
                got += len(answer.json()["result"]["items"])
        held.append(got)
    assert held[0] <= (waiting + 1) // 2, f"the first one holds {held[0]} of {waiting}"
    assert held[1] >= 1, f"the second one finds nothing: {held} of {waiting}"


LONG = 65_000
"""Octets of a gift; the data of an item has 65,536 at most."""


def generous(folder: Path) -> None:
    """A collection of long items, a rate that does not end the attack, and two agents of owners of their own."""
    issue(folder, ["giver", "taker"])
    amend(folder, "limits", "requests_per_minute = 100000")
    with (folder / "host.toml").open("a") as config:
        config.write('\n[methods]\nstandard = "*"\n\n[[methods.collection]]\nname = "gifts"\nread = []\nwrite = []\n')


def gifts_to_one(target: Target, seconds: float) -> None:
    """One agent enters long items and hands them to another, until they are refused: that one still enters its own."""
    giver, taker = (_agent_id(target.state, name) for name in ("giver", "taker"))
    given = 0
    with Caller(target, "giver") as caller:
        for turn in range(60):
            source = [{"id": f"{turn}-{number}", "text": "x" * LONG} for number in range(15)]
            answer = caller.ask("IMPORT", "/", {"target": "gifts", "source": source})
            assert answer.status == 200, (answer.status, answer.reason)
            for each in source:
                parties = {"from_principal": giver, "to_principal": taker}
                answer = caller.ask("TRANSFER", "/", {"resource_id": f"gifts/{each['id']}", **parties})
                given += answer.status == 200
            if answer.status != 200:
                break
    assert answer.reason == "too-many-items", f"{given} gifts, and no end: {answer.status} {answer.reason}"
    with Caller(target, "taker") as caller:
        for _ in range(20):
            answer = caller.ask("REGISTER", "/", {"entity_type": "gifts", "data": {"text": "x" * LONG}})
            assert answer.status == 200, f"its quota is full of gifts: {answer.reason} after {given} gifts"


def _attack(name: str, says: str, run: Callable[[Target, float], None]) -> Attack:
    return Attack(name=name, who="agent", says=says, run=run, configure=sharing, alone=True, honest=False)


ATTACKS = (
    _attack(
        "many-calls-in-one",
        "Lists of calls, and lists of lists: each call counts for its caller.",
        many_calls_in_one,
    ),
    _attack(
        "much-stored-for-one",
        "What stores most for one request: each charged call pays for 8 kB.",
        much_stored_for_one,
    ),
    _attack(
        "filled-collection",
        "One agent fills a collection, then five more: the next one still finds room.",
        fill_collection,
    ),
    Attack(
        name="gifts-to-one",
        who="agent",
        says="One agent hands another as much as it can: the other one still enters its own.",
        run=gifts_to_one,
        configure=generous,
        alone=True,
        honest=False,
        memory=120 * 2**20,
        disk=160 * 2**20,
    ),
    _attack("held-queue", "One agent holds what it can of a queue for twelve hours: others find work.", hold_queue),
)
