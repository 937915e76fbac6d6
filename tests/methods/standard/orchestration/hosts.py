"""A host in memory with every standard method, and endpoints that note what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.handlers.context import EndpointError
from agtphost.testing.host import MemoryHost
from agtphost.testing.identities import TestAgent
from tests.methods.standard.orchestration.mortal import MortalStore

CHANGES = {
    "intent": "Books a stay.",
    "outcome": "The stay is booked.",
    "capability": "transaction",
    "impact": "reversible",
    "is_idempotent": False,
}
SCOPES = ("documents:query", "activation:run", "stays:book")

RECIPES = """
[[recipe]]
name = "quality"
version = "1"
description = "Looks for teas, and says how good they are."
output = { good = "=found.teas", of = "=input.dataset" }

[[recipe.step]]
method = "QUERY"
path = "/teas"
input = { kind = "=input.dataset" }
capture = "found"
"""


class Workshop(MemoryHost):
    """
    ``QUERY /teas`` reads, ``BOOK /stays`` changes, ``BOOK /guarded`` needs a scope, ``BOOK /failing`` fails, and
    ``BOOK /waiting`` waits until :attr:`waiting` is fired.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        store: MortalStore | None = None,
        standard: Any = "*",
        done: list[tuple[str, Any]] | None = None,
    ) -> None:
        super().__init__({"methods": {"standard": standard}, **(settings or {})}, store=store)
        self.mortal = store or MortalStore()
        self.done: list[tuple[str, Any]] = [] if done is None else done
        self.waiting: list[Deferred[Any]] = []
        self.failures = 0
        self.failure = "upstream_error"
        self.endpoint("QUERY", "/teas", self._teas, {"kind": "string"})
        self.endpoint("QUERY", "/teas/{kind}", self._teas)
        self.endpoint("BOOK", "/stays", self._booked, {"room": "string"}, semantic=CHANGES)
        guarded = {"semantic": CHANGES, "required_scopes": ["stays:book"]}
        self.endpoint("BOOK", "/guarded", self._booked, {"room": "string"}, **guarded)
        self.endpoint("BOOK", "/failing", self._failing, {"room": "string"}, semantic=CHANGES)
        self.endpoint("QUERY", "/flaky", self._flaky, errors=["upstream_error", "upstream_timeout"])
        self.broken = 0
        self.endpoint("QUERY", "/breaking", self._breaking)
        self.endpoint("BOOK", "/waiting", self._waits, {"room": "string"}, semantic=CHANGES)
        self.caller: TestAgent = self.agent("planner", scopes=SCOPES)

    def _teas(self, context: Any) -> Any:
        self.done.append(("teas", context.input["kind"]))
        return {"teas": [f"{context.input['kind']} tea", "mint"], "kind": context.input["kind"]}

    def _booked(self, context: Any) -> Any:
        self._note("stay", context.input["room"])
        return {"booked": context.input["room"]}

    def _failing(self, context: Any) -> Any:
        self.done.append(("failing", context.input["room"]))
        raise RuntimeError("it fails")

    def _flaky(self, context: Any) -> Any:
        self.done.append(("flaky", len(self.done)))
        if self.failures:
            self.failures -= 1
            raise EndpointError(self.failure)
        return {"done": True}

    def _breaking(self, context: Any) -> Any:
        if self.broken:
            self.broken -= 1
            raise RuntimeError("it is broken")
        return {"whole": True}

    def _waits(self, context: Any) -> Any:
        self.done.append(("waiting", context.input["room"]))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def _note(self, kind: str, what: Any) -> None:
        """What a dead process does nobody sees."""
        if not self.mortal.dead:
            self.done.append((kind, what))

    def turn(self, seconds: float = 0.0) -> None:
        """Let what is due happen."""
        self.clock.advance(seconds)
        for _ in range(20):
            self.clock.advance(0)

    def ask(self, method: str, given: Mapping[str, Any], path: str = "/", **more: Any) -> Any:
        """One call of the planner's; its answer."""
        more.setdefault("caller", self.caller)
        return self.call(method, path, given, **more)

    def result(self, method: str, given: Mapping[str, Any], path: str = "/", **more: Any) -> Any:
        """The result of one, which has to succeed."""
        answer = self.ask(method, given, path, **more)
        assert 200 <= answer.status < 300 and answer.status != 262, answer.document
        return answer.document["result"]

    def workflow(self, workflow_id: str) -> Any:
        """What INSPECT shows."""
        return self.result("INSPECT", {"target": "workflow", "workflow_id": workflow_id})

    def rooms(self) -> list[Any]:
        """What was booked, and waited for."""
        return [what for kind, what in self.done if kind in ("stay", "waiting", "failing")]


def book(room: str, **more: Any) -> dict[str, Any]:
    """A step that changes something."""
    return {"method": "BOOK", "path": "/stays", "parameters": {"room": room}, **more}


def teas(kind: str = "green", **more: Any) -> dict[str, Any]:
    """A step that reads."""
    return {"method": "QUERY", "path": "/teas", "parameters": {"kind": kind}, **more}


def wait(room: str, **more: Any) -> dict[str, Any]:
    """A step that waits."""
    return {"method": "BOOK", "path": "/waiting", "parameters": {"room": room}, **more}
