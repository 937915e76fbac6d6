"""
What each method that composes others, or goes on by itself, costs its caller, and what it has the host store.

Each row makes requests of one kind on a host whose store is a file, lets everything run that they have ordered, and
counts the calls that were charged. The file grows by at most 8,000 octets for each of them, and at least so many
calls were charged as were made. ``much-stored-for-one`` and ``many-calls-in-one`` attack a host by the same rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from agtphost.adapters.a2a.front_tasks import LONGEST
from agtphost.dispatch.call_budget import charge_record
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.limits import Allowances, RateGate
from agtphost.identity import delegation
from agtphost.identity.peer import Peer, Withdrawable
from agtphost.vocabulary import times
from agtphost.wire.events import Request
from tests.audit.drafting import sqlite_store
from tests.dispatch.test_call_budget import RECIPE
from tests.methods.standard.orchestration.hosts import CHANGES, Workshop
from tests.methods.standard.orchestration.mortal import MortalStore
from tests.programmes import length
from tests.rows import each_row

PER_CALL = 8_000
"""Octets of the store's file that one charged call may cost."""

GROUP = 12
LONG = "x" * 15_000


class Counting(Allowances):
    """Allowances that never end, and count what was charged."""

    charged = 0

    def take(self, who: object, now: float, calls: int = 1) -> float:
        self.charged += calls
        return 0.0

    def owe(self, who: object, now: float, calls: int) -> None:
        self.charged += calls


class Composing(Workshop):
    """A host with all that composes, on a store in a file."""

    def __init__(self, folder: Path) -> None:
        (folder / "recipes.toml").write_text(RECIPE)
        members = [f"member{number}" for number in range(GROUP)]
        super().__init__(
            {
                "limits": {"requests_per_minute": 1_000_000},
                "registry": {},
                "recipes": {"file": str(folder / "recipes.toml")},
                "notify": {"groups": {"all": members}},
                "methods": {
                    "standard": "*",
                    "procedures": {"long": "long"},
                    "collection": [
                        {"name": "goods", "read": [], "write": []},
                        {"name": "jobs", "read": [], "write": [], "queue": True},
                    ],
                    "connect": [{"source": "a", "destination": "b", "channel": {"topic": "t"}}],
                },
            },
            store=sqlite_store(folder),  # type: ignore[arg-type]
        )
        self.mortal = MortalStore()
        self.made = 0
        self.endpoint("BOOK", "/inner", self._inner, {"text": "string"}, semantic=CHANGES)
        self.endpoint("QUERY", "/failing", self._fails, {"text": "string"})
        self.endpoint("QUERY", "/tall/{count}", self._tall)
        self.members = [self.agent(name, hosted=True) for name in members]
        self.desk = self.agent("desk", hosted=True)
        for gate in self.core.admission.gates:
            if isinstance(gate, RateGate):
                self.counting = {kind: Counting(1, 60.0) for kind in gate._agents}
                gate._agents.update(self.counting)

    def _inner(self, context: Any) -> Any:
        self.made += 1
        return {"done": True}

    def _fails(self, context: Any) -> Any:
        self.made += 1
        raise RuntimeError("it fails")

    async def _tall(self, context: Any) -> Any:
        self.made += 1
        count = int(context.input["count"])
        if count:
            await context.invoke("QUERY", f"/tall/{count - 1}", {})
        return {"left": count}

    @property
    def charged(self) -> int:
        """Calls that were charged until now."""
        return sum(each.charged for each in self.counting.values())

    @property
    def octets(self) -> int:
        """Octets of the store's file, with its log."""
        execute = self.store._connection.execute  # type: ignore[attr-defined]
        pages, free = (int(execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count"))
        return (pages - free) * int(execute("PRAGMA page_size").fetchone()[0])


def inner(text: str = "x", **more: Any) -> dict[str, Any]:
    """A step that counts its calls."""
    return {"method": "BOOK", "path": "/inner", "parameters": {"text": text}, **more}


def later(host: Composing, seconds: float) -> str:
    """A moment to come, as a parameter has it."""
    return times.stamp(host.core.services.seconds() + seconds)


Make = Callable[[Composing, int], Any]


class Way(NamedTuple):
    """How calls come about."""

    make: Make
    repeats: int = 12
    """How often it is done; in the ordinary run half as often."""

    wait: float = 0.0
    """Seconds that pass after each."""


def card(host: Composing, number: int) -> Any:
    """A batch of inputs of a hosted agent's card."""
    told = host.ask("EXECUTE", {"action": "none", "parameters": {}}, "/cards/agent:desk").document["operations"]
    action = next(each for each in told if "inner" in each)
    return host.ask("EXECUTE", {"action": action, "batch": [{"text": "x"}] * 20}, "/cards/agent:desk")


def retry(host: Composing, number: int, **more: Any) -> Any:
    """A call that fails, and is made again."""
    host.ask("QUERY", {"text": LONG[:12_000]}, "/failing", task_id=f"t{number}")
    for _ in range(3):
        host.ask("RETRY", {"original_task_id": f"t{number}", **more})
        host.turn(more.get("delay", 0))


def queue(host: Composing, number: int) -> Any:
    """Work that is submitted, pulled and confirmed, with a notice to whoever submitted it."""
    host.ask("SUBMIT", {"target": "jobs", "payload": {"n": number}, "callback": host.caller.agent_id})
    for item in host.result("PULL", {"source": "jobs"})["items"]:
        host.ask("CONFIRM", {"target_id": item["item_id"], "status": "accepted"})


def monitor_escalations(host: Composing, number: int) -> Any:
    """Fifty subscriptions that each hear of every escalation."""
    if not number:
        given = {"target": "own", "events": ["workflow", "escalation", "approval"], "callback": "inbox"}
        for _ in range(50):
            host.result("MONITOR", given)
    host.ask("ESCALATE", {"task_id": f"t{number}", "reason": "scope_limit", "context": {}})
    host.turn(1)


def alarm(host: Composing, number: int) -> Any:
    """An alert that goes to a group eight times."""
    given = {"recipient": "operator", "message": {"text": LONG}, "severity": "high", "escalation_path": ["all"] * 8}
    host.ask("ALERT", {**given, "acknowledge_by": later(host, 5)})
    for _ in range(10):
        host.turn(5)


def schedule_content(host: Composing, number: int) -> Any:
    """Content that is published later."""
    host.ask("PUBLISH", {"channel": "goods", "content": {"n": number}, "schedule_at": later(host, 5)})
    host.turn(6)


def open_connection(host: Composing, number: int) -> Any:
    """A connection that is opened and cancelled."""
    opened = host.result("CONNECT", {"source": "a", "destination": "b", "config": {"text": "x" * 3_000}})
    host.ask("CANCEL", {"target_id": opened["connection_id"]})


def suspend_task(host: Composing, number: int) -> Any:
    """A task that is stopped with a checkpoint, and goes on."""
    name = f"task-{number}"
    stopped = host.result("SUSPEND", {"task_id": name, "checkpoint": {"s": LONG}})
    host.ask("RESUME", {"workflow_id": name, "resumption_nonce": stopped["resumption_nonce"]})


def delegate_task(host: Composing, number: int, **more: Any) -> Any:
    """A task that is handed to another agent."""
    task, scope = {"method": "QUERY", "path": "/tall/0", "parameters": {}}, ["documents:query"]
    token = delegation.issue(
        host.caller.key,
        issuer=host.caller.agent_id,
        delegator=host.caller.agent_id,
        delegatee=host.desk.agent_id,
        scope=scope,
        task_id=f"t{number}",
        now=time.time(),
    )
    given = {
        "target_agent_id": host.desk.agent_id,
        "task": task,
        "authority_scope": scope[0],
        "delegation_token": token,
    }
    answer = host.ask("DELEGATE", {**given, **more}, task_id=f"t{number}")
    host.turn()
    return answer


LEFT_OUT = [inner(when="=`false`")] * 20
WAYS: Mapping[str, Way] = {
    "BATCH": Way(lambda host, n: host.ask("BATCH", {"calls": [inner()] * 20})),
    "CHAIN": Way(lambda host, n: host.ask("CHAIN", {"steps": [inner()] * 20})),
    "CHAIN in the background": Way(lambda host, n: host.ask("CHAIN", {"steps": [inner()] * 20, "background": True})),
    "CHAIN of long steps": Way(
        lambda host, n: host.ask("CHAIN", {"steps": [inner("x" * 1_900)] * 8, "background": True})
    ),
    "CHAIN of one step": Way(lambda host, n: host.ask("CHAIN", {"steps": [inner()], "background": True}), repeats=40),
    "CHAIN of steps that are left out": Way(
        lambda host, n: host.ask(
            "CHAIN", {"steps": [inner(), *LEFT_OUT], "context_propagation": True, "background": True}
        )
    ),
    "CHAIN every minute": Way(
        lambda host, n: host.ask("CHAIN", {"steps": [inner()] * 3, "every": 60}) if not n else None, 30, wait=61
    ),
    "RUN": Way(lambda host, n: host.ask("RUN", {"procedure_id": "long"})),
    "a card's batch": Way(card),
    "a function that calls": Way(lambda host, n: host.ask("QUERY", {}, "/tall/10")),
    "RETRY": Way(retry),
    "RETRY later": Way(lambda host, n: retry(host, n, delay=2)),
    "ROUTE": Way(
        lambda host, n: host.ask("ROUTE", {"payload": {"a": LONG}, "criteria": {"text": "x"}, "fallback": "desk"})
    ),
    "SUBMIT, PULL and CONFIRM": Way(queue, repeats=30),
    "CONNECT": Way(open_connection, repeats=30),
    "DELEGATE": Way(delegate_task, repeats=20),
    "DELEGATE in the background": Way(
        lambda host, n: delegate_task(host, n, asynchronous=True, callback=host.caller.agent_id), repeats=20
    ),
    "MONITOR": Way(monitor_escalations, repeats=30),
    "ALERT": Way(alarm, repeats=2),
    "PUBLISH later": Way(schedule_content, repeats=30),
    "NOTIFY": Way(lambda host, n: host.ask("NOTIFY", {"recipient": "all", "content": {"text": LONG}}), repeats=5),
    "BROADCAST": Way(
        lambda host, n: host.ask(
            "BROADCAST", {"audience": [each.agent_id for each in host.members], "content": {"n": n}}
        )
    ),
    "REPORT": Way(
        lambda host, n: host.ask(
            "REPORT", {"report_type": "x", "scope": {"rows": [{"a": LONG}] * 3}, "recipient": "all", "format": "json"}
        ),
        repeats=3,
    ),
    "SUSPEND and RESUME": Way(suspend_task, repeats=30),
    "ESCALATE": Way(
        lambda host, n: host.ask("ESCALATE", {"task_id": f"t{n}", "reason": "scope_limit", "context": {"text": LONG}}),
        repeats=20,
    ),
}
"""Every way in which one request makes calls, or has the host store something after its answer."""

CALLING = ("BATCH", "CHAIN", "RUN", "RETRY", "DELEGATE", "a card", "a function")
"""Beginnings of the rows that make calls."""


@pytest.mark.programme
@each_row("name", sorted(WAYS))
def test_what_is_made_and_stored_is_charged(name: str, tmp_path_factory: Any) -> None:
    """No call is made for nothing, and each charged call pays for 8,000 octets of the store's file."""
    host, way = Composing(tmp_path_factory.mktemp("composing")), WAYS[name]
    host.ask("QUERY", {}, "/tall/0")
    host.made = 0
    charged, octets = host.charged, host.octets
    statuses = set()
    for number in range(length((way.repeats + 3) // 4, way.repeats)):
        answer = way.make(host, number)
        statuses.add(getattr(answer, "status", 200))
        host.turn(way.wait)
    spent, grown, made = host.charged - charged, host.octets - octets, host.made + len(host.done)
    host.close()
    assert statuses <= {200, 202, 207}, statuses
    if name.startswith(CALLING):
        assert made, "nothing was called"
    assert made <= spent, f"{made} calls for {spent}"
    assert grown <= PER_CALL * spent, f"{grown / spent:.0f} octets for each of {spent} calls"


class Owed:
    """Counts what is owed."""

    calls = 0

    def charge(self, exchange: Exchange, method: str, calls: int, octets: int = 0) -> None:
        """Nothing is refused here."""

    def owe(self, exchange: Exchange, calls: int) -> None:
        self.calls += calls


@each_row("keeps, paid", [(0, 0), (LONGEST, 10), (30_000, 5)])
def test_what_a_front_keeps_of_an_answer_is_charged(keeps: int, paid: int) -> None:
    """A task of the A2A front has the whole answer in it: the call that it is of pays for that, too."""
    link, owed = Withdrawable(client="c", keeps=keeps), Owed()
    peer = Peer(address="127.0.0.1", transport="http", http={"surface": "a2a"}, link=link)
    exchange = Exchange(Request(method="QUERY", path="/x"), peer, 0.0)
    sealed: Any = SimpleNamespace(jws="x" * 2_000)
    draft: Any = SimpleNamespace(reservation=None)
    outcome: Any = SimpleNamespace(body=b"x" * 60_000)
    charge_record(owed, exchange, draft, sealed, outcome)
    assert owed.calls == pytest.approx(paid, abs=1)
