"""A host with collections, queues and channels, and those who use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agtphost.stores import MemoryStore
from agtphost.testing import Answer, MemoryHost, TestAgent
from agtphost.testing.ledger import PromptCollector

SETTINGS: Mapping[str, Any] = {
    "methods": {
        "standard": "*",
        "collection": [
            {"name": "orders", "read": [], "write": ["orders:write"], "queue": True, "max_items": 50, "max_share": 1.0},
            {"name": "contracts", "read": ["contracts:read"], "write": ["contracts:write"]},
            {
                "name": "knowledge",
                "read": ["knowledge:read"],
                "write": ["knowledge:write"],
                "max_items": 3,
                "max_share": 1.0,
            },
            {"name": "rooms", "read": [], "write": []},
        ],
        "send": [
            {"channel": "email", "through": "NOTIFY /providers/email"},
            {"channel": "webhook", "through": "NOTIFY /providers/hook", "recipients": ["ops"]},
        ],
        "connect": [
            {
                "source": "telemetry",
                "destination": "observability",
                "types": ["stream", "polling"],
                "scopes": ["orders:write"],
                "most_ttl": 3600,
                "channel": {"topic": "sensors/1"},
            }
        ],
    },
    "notify": {"groups": {"on-call": ["desk", "operator"]}},
}

WRITER = ("orders:write", "contracts:read", "contracts:write", "knowledge:read", "knowledge:write")


def at_once(
    monkeypatch: pytest.MonkeyPatch, host: MemoryHost, method: str, given: Mapping[str, Any], by: TestAgent
) -> list[int]:
    """The statuses of five calls, none of whose records is durable before the last of them has begun."""
    waiting: list[PromptCollector] = []
    with monkeypatch.context() as slow:
        slow.setattr(PromptCollector, "_next_turn", lambda self: waiting.append(self))
        answers = [host.begin(method, "/", given, caller=by, connection=host.connect(by)) for _ in range(5)]
        host.clock.settle()
    assert waiting, "the control: something waits"
    waiting[0]._next_turn()
    host.clock.settle()
    statuses: list[int] = []
    for answer in answers:
        answer.addCallback(lambda found: statuses.append(found.status))
    return sorted(statuses)


class Transacting(MemoryHost):
    """That host; ``sent`` is what its providers delivered."""

    def __init__(self, store: MemoryStore | None = None, settings: Mapping[str, Any] = SETTINGS) -> None:
        super().__init__(settings, store=store)
        self.sent: list[Mapping[str, Any]] = []
        takes: dict[str, Any] = {"recipient": "string", "channel": "string", "content": {}, "template_id": "string"}
        for place in ("email", "hook"):
            self.endpoint("NOTIFY", f"/providers/{place}", self._provide, takes)
        self.writer = self.agent("writer", scopes=WRITER)
        self.archive = self.agent("archive", scopes=("contracts:read", "orders:write"))
        self.stranger = self.agent("stranger", scopes=("weather:read",))
        self.desk = self.agent("desk", hosted=True, scopes=("orders:write", "knowledge:read"))

    def _provide(self, context: Any) -> Mapping[str, Any]:
        if context.input["recipient"].startswith("nobody@"):
            raise ValueError("no such mailbox")
        self.sent.append(dict(context.input))
        return {"queued_as": f"<{len(self.sent)}@mail.test>"}

    def ask(self, method: str, by: TestAgent | None = None, path: str = "/", **given: Any) -> Answer:
        return self.call(method, path, given, caller=by or self.writer)

    def done(self, method: str, by: TestAgent | None = None, path: str = "/", **given: Any) -> Any:
        """The result of a call, which has to succeed."""
        answer = self.ask(method, by, path, **given)
        assert 200 <= answer.status < 300 and answer.status != 262, answer.document
        return answer.result

    def inbox(self, by: TestAgent) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.done("QUERY", by, "/notifications")["notifications"]
        return found

    def again(self) -> Transacting:
        """The same after a crash: nothing is closed, and another host reads the store."""
        made = Transacting(self.store)
        made.clock.advance(self.clock.seconds())
        return made
