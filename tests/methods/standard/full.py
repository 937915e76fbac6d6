"""A host whose collections are full, on a counted reactor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agtphost.stores.rows import ItemRow
from agtphost.testing import TestAgent
from agtphost.vocabulary import jsontext
from tests.methods.standard.turns import TurnHost, row
from tests.programmes import length
from tests.test_parser_bounds import limit

MANY = length(3_000, 50_000)
"""Items of each of three collections: together, they may have 200,000."""

AGENTS = length(50, 900)

WAITING = length(100, 1_000)
"""Workflows that are to go on, and as many that have a time; subscriptions; five times as many publications."""

SOON = 60.0
STAMP = "2026-01-31T00:00:00.000000Z"

ITEM = 65_536
"""Octets of the data of one item."""

SHAPE: Mapping[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "pattern": "^[^\\\\u0000]*$"},
        "parts": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 9}, {"required": ["n"]}]},
        },
    },
}
"""What one of the collections asks of its items."""

RECIPE = """
[[recipe]]
name = "copies"
version = "1"
description = "Says much, often."
output = {{ all = [{captures}] }}
"""

STEP = """
[[recipe.step]]
method = "EVALUATE"
path = "/same-again"
input = {{ value = "=input.value" }}
capture = "found{number}"
"""

CHOICE = """
[[recipe]]
name = "choice"
version = "1"
description = "Chooses of much."
output = { dear = "=found.items[?n > `19000`].t", all = "=found.items" }

[[recipe.step]]
method = "QUERY"
path = "/much"
capture = "found"

[[recipe.step]]
method = "EVALUATE"
path = "/same-again"
when = "found.items[?t == `x19999`]"
input = { value = "=found.items[?n < `500`].t" }
"""
"""Another, whose expressions see much."""

STEPS = 32
"""Of a recipe."""


def recipes(folder: Path) -> str:
    """A file with a recipe of as many steps as there may be, each of which hands on all that it was given."""
    captures = ", ".join(f'"=found{number}"' for number in range(STEPS))
    steps = "".join(STEP.format(number=number) for number in range(STEPS))
    file = folder / "recipes.toml"
    file.write_text(RECIPE.format(captures=captures) + steps + CHOICE, encoding="utf-8")
    return str(file)


SCOPES = (
    "activation:run",
    "authorization:grant",
    "payments:purchase",
    *(f"area{n}:{'long' * 18}" for n in range(16)),
)
"""Of whoever calls: the last ones come to as many characters as a grant may name."""


OPEN: Mapping[str, Any] = {"read": [], "write": []}
"""Of a collection that every agent reads and writes."""


def settings(folder: Path) -> Mapping[str, Any]:
    """The configuration of the full host."""
    remotes = [
        {"name": name, "pull": f"QUERY /{name}", "push": "NOTIFY /far"} for name in ("far", "vast", "nothing", "same")
    ]
    return {
        "recipes": {"file": recipes(folder)},
        "notify": {"groups": {"everybody": [f"hosted{n}" for n in range(min(AGENTS, 200))]}},
        "methods": {
            "standard": "*",
            "procedures": {"copies": "copies", "choice": "choice"},
            "pdf": "EVALUATE /pdf",
            "formulas": {"gross": {"op": "multiply", "args": [{"var": "net"}, {"var": "tax"}]}},
            "send": [{"channel": "email", "through": "NOTIFY /mail"}],
            "connect": [{"source": "clerk", "destination": "other", "channel": {"topic": "t" * 4_000}}],
            "collection": [
                {"name": "goods", **OPEN, "max_items": 100_000},
                {"name": "mirror", **OPEN, "max_items": 100_000, "remote": remotes},
                {"name": "jobs", **OPEN, "queue": True, "max_items": 100_000},
                {"name": "board", **OPEN},
                {"name": "shelf", **OPEN, "schema": SHAPE},
                {"name": "rows", **OPEN, "max_items": 10_000},
                {"name": "lists", **OPEN},
                {"name": "vastly", **OPEN},
                {"name": "told", **OPEN},
                {"name": "tasks", **OPEN, "queue": True},
            ],
        },
    }


def most() -> float:
    """Seconds of a turn: 20 ms, on a machine as fast as the one where the bounds were chosen."""
    return limit() * 0.4


def item(collection: str, number: int | str, owner: TestAgent, data: Any, **more: Any) -> ItemRow:
    """One of a collection."""
    item_id = number if isinstance(number, str) else f"i{number:06}"
    value = {
        "collection": collection,
        "id": item_id,
        "version": 1,
        "owner": owner.agent_id,
        "owners": [{"agent_id": owner.agent_id, "since": STAMP}],
        "created_at": STAMP,
        "updated_at": STAMP,
        "data": data,
        **more,
    }
    return row("collection-item", f"{collection}/{item_id}", owner.agent.agent_id, value)


class Full(TurnHost):
    """A host whose collections are full, and that has much to go on with."""

    resumed = 0.0
    """Seconds of the longest turn in which it did."""

    def __init__(self, folder: Path) -> None:
        super().__init__(settings(folder))
        self.clerk, self.other, self.writer, self.second = (
            self.agent(name, scopes=SCOPES) for name in ("clerk", "other", "writer", "second")
        )
        hidden = {"priority": 5, "submitted_by": self.clerk.agent_id, "hidden_until": time.time() + 3_600}
        self.keep(
            made
            for n in range(MANY)
            for made in (
                item("goods", n, self.clerk, {"n": n, "name": f"thing {n}", "price": n % 97}),
                item("jobs", n, self.clerk, {"n": n}, work={**hidden, "came": n + 1}),
                item("relations", n, self.other, {"source": "x", "target": "y", "relationship": "near"}),
            )
        )
        self.keep(waiting(self))
        self.endpoint("QUERY", "/far", lambda context: {"items": self.far})
        self.endpoint("NOTIFY", "/far", lambda context: {}, {"items": {}})
        self.endpoint("QUERY", "/long", self._long)
        many = {"items": [{"n": n, "t": f"x{n}"} for n in range(20_000)]}
        self.answer: Mapping[str, Any] = {}
        self.endpoint("QUERY", "/much", lambda context: many)
        for n in range(500):
            self.endpoint("QUERY", f"/things/t{n}", lambda context: {})
        for n in range(AGENTS):
            self.agent(f"hosted{n}", hosted=True, scopes=SCOPES)
        self.far = [{"id": f"far{n:04}", "data": {"text": "y" * 1_000}} for n in range(500)]
        self.broken = True
        self.given: list[str] = []
        """Whom something was granted."""

        self.keep(item("rows", n, self.clerk, {"n": n, "text": f"a row of {n}"}) for n in range(MANY // 5 - 1))
        self.keep(item("vastly", n, self.clerk, {"n": n, "text": "w" * 6_000}) for n in range(length(50, 500)))
        self.keep(item("told", n, self.clerk, {"n": n, "t": "t"}) for n in range(length(100, 900)))
        self.further()

    def put(self, kept: ItemRow) -> None:
        """An item, while it runs, as another process puts one."""
        self.store._held[kept.kind, kept.key] = kept
        self.core.services.evidence.held.apply([kept])

    def further(self) -> None:
        """Endpoints that take and give whatever there is."""
        vast = [{"id": f"vast{n:04}", "data": {"text": "y" * 8_000}} for n in range(500)]
        changes = {"semantic": {"impact": "reversible", "is_idempotent": False}}
        self.endpoint("QUERY", "/vast", lambda context: {"items": vast})
        self.endpoint("QUERY", "/nothing", lambda context: {"items": []})
        self.endpoint("QUERY", "/same", lambda context: {"items": self.same})
        self.same: list[dict[str, Any]] = []
        self.endpoint("EVALUATE", "/same-again", lambda context: {"value": context.input["value"]}, {"value": {}})
        self.endpoint("NOTIFY", "/mail", lambda context: {"sent": 1, **self.answer}, MAIL)
        self.endpoint("EVALUATE", "/pdf", lambda context: {"document": "p" * 60_000, **self.answer}, {"html": "string"})
        self.endpoint("NORMALIZE", "/address", lambda context: {"values": [], **self.answer}, {"data": {}})
        self.endpoint("EVALUATE", "/dear", lambda context: {}, {"rows": {}}, cost="tokens=5", output_schema=ANSWER)
        self.endpoint("BOOK", "/approved", lambda context: {}, {"value": {}}, approval="required", **changes)
        self.endpoint("QUERY", "/breaking", self._breaking, {"value": {}})
        self.endpoint("BOOK", "/stay", lambda context: {"value": context.input["value"]}, {"value": {}}, **changes)

    def clear(self) -> None:
        """What the writer has entered is gone: it may have some thousands."""
        held, owner = self.core.services.evidence.held, self.writer.agent.agent_id
        gone = [
            ItemRow(each.kind, each.key, bytes.fromhex(owner), 0, None, None)
            for each in held.items_of("collection-item", owner)
        ]
        for each in gone:
            self.store._held.pop((each.kind, each.key), None)
        held.apply(gone)

    @staticmethod
    def _long(context: Any) -> Any:
        until = time.thread_time() + 2.5 * most()
        while time.thread_time() < until:
            pass
        return {}

    def _breaking(self, context: Any) -> Any:
        if self.broken:
            raise RuntimeError("it is broken")
        return {"value": context.input["value"]}

    def done(self, method: str, given: Mapping[str, Any], by: TestAgent | None = None, path: str = "/") -> Any:
        """The result of a call that has to succeed."""
        answer, _ = self.longest(method, path, given, caller=by or self.writer)
        assert answer.status < 300 and answer.status != 262, answer.document
        return answer.result


MAIL: Mapping[str, Any] = {"recipient": "string", "channel": "string", "content": {}, "template_id": "string"}
ANSWER: Mapping[str, Any] = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "object"}}}}


def waiting(host: Full) -> Iterator[ItemRow]:
    """What an earlier process left to be done."""
    owners = [host.agent(f"owner{n}", scopes=("activation:run",)) for n in range(20)]
    steps = [{"method": "QUERY", "path": "/far", "parameters": {}} for _ in range(50)]
    soon = time.time() + SOON
    for n in range(WAITING):
        owner = owners[n % len(owners)]
        held_by, agent_id = owner.agent.agent_id, owner.agent_id
        common = {
            "agent_id": agent_id,
            "task_id": "t",
            "definition": {"steps": steps},
            "on_failure": "abort",
            "authority": None,
            "created_at": STAMP,
        }
        later = {"next": soon, "next_at": STAMP, "every": None, "left": 1}
        for kind, more in (("running", {}), ("scheduled", {"schedule": later})):
            value = {"workflow_id": f"wf-{kind}{n}", "kind": "chain", "state": kind, **common, **more}
            yield row("workflow", value["workflow_id"], held_by, value)
        monitor = {
            "subscription_id": f"mon-{n}",
            "agent_id": agent_id,
            "owner": held_by,
            "events": ["workflow", "metric"],
            "target": "own",
            "about": "own",
            "agents": [],
            "threshold": None,
            "metric": "unread_notifications",
            "interval": 5.0,
            "created_at": STAMP,
            "told": 0,
            "missed": 0,
            "seen": {},
        }
        yield row("monitor", monitor["subscription_id"], held_by, monitor)
        for m in range(5):
            entry = jsontext.decode(item("board", 5 * n + m, owner, {"n": n}).value or b"")
            value = {"state": "scheduled", "at": soon, "publisher": agent_id, "item": {**entry, "format": ""}}
            yield row("publication", f"pub-{n}-{m}", held_by, value)
