"""
``twistd`` with a deliberate fault, so that the rig can show that it notices.

``python faulty_host.py FAULT twistd ARGUMENTS...``; the faults are the functions below.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from twisted.scripts.twistd import run

from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.gate_cache import GateChain
from agtphost.dispatch.gates.approval import ApprovalGate
from agtphost.dispatch.gates.identity import CallerGate, ConnectionGate
from agtphost.dispatch.rights import Rights
from agtphost.http.clients import HttpClients

refuse = Dispatcher.refuse


def make_standing() -> None:
    """Whoever sends garbage holds up everybody for 150 ms."""

    async def standing(self: Dispatcher, *words: Any) -> Any:
        time.sleep(0.15)  # noqa: ASYNC251 - that is the fault
        return await refuse(self, *words)

    Dispatcher.refuse = standing  # type: ignore[method-assign, assignment]


def make_remembering() -> None:
    """Nothing of what is refused is forgotten, and more is kept of it than was sent."""
    kept = []

    async def remembering(self: Dispatcher, *words: Any) -> Any:
        kept.append(bytearray(b"x" * 8 * 1024 * 1024))
        return await refuse(self, *words)

    Dispatcher.refuse = remembering  # type: ignore[method-assign, assignment]


def make_scribbling() -> None:
    """What is refused is written down at length."""

    scribble = open("state/scribble", "ab", buffering=0)  # noqa: SIM115 - as long as the host lives

    async def scribbling(self: Dispatcher, *words: Any) -> Any:
        scribble.write(b"x" * 8 * 1024 * 1024)
        return await refuse(self, *words)

    Dispatcher.refuse = scribbling  # type: ignore[method-assign, assignment]


def make_failing() -> None:
    """After something was refused, the next request of anybody is lost."""
    dispatch, owed = Dispatcher.dispatch, []

    async def failing(self: Dispatcher, request: Any, peer: Any, interim: Any = None) -> Any:
        if owed and request.path == "/text":
            owed.clear()
            request = type(request)(method="QUERY", path="/lost", line=b"QUERY /lost")
        return await dispatch(self, request, peer, interim)

    async def owing(self: Dispatcher, *words: Any) -> Any:
        owed.append(True)
        return await refuse(self, *words)

    Dispatcher.dispatch, Dispatcher.refuse = failing, owing  # type: ignore[method-assign, assignment]


def make_unconditional() -> None:
    """Gates never ask again whether a caller is the agent that it was, and may still call."""
    for gate in (ConnectionGate, CallerGate):
        gate.conditions = lambda self, exchange: ()  # type: ignore[method-assign]


def make_stale() -> None:
    """The gates of the first configuration stay, with all that they have kept."""
    first: list[GateChain] = []
    create = GateChain.__init__

    def find(cls: type[GateChain], *given: Any, **named: Any) -> GateChain:
        return first[0] if first else object.__new__(cls)

    def reuse(self: GateChain, *given: Any, **named: Any) -> None:
        if not first:
            create(self, *given, **named)
            first.append(self)

    GateChain.__new__ = find  # type: ignore[method-assign, assignment]
    GateChain.__init__ = reuse  # type: ignore[method-assign]


def make_unrevoked() -> None:
    """The same, and which certificates were revoked is not asked again."""
    make_stale()
    ConnectionGate.conditions = lambda self, exchange: ()  # type: ignore[method-assign]


def make_trusting() -> None:
    """The tokens of the first configuration stay, at each surface."""
    first: dict[str, Any] = {}
    create = HttpClients.__init__

    def reuse(self: HttpClients, surface: str, **named: Any) -> None:
        create(self, surface, **named)
        self._known = first.setdefault(surface, self._known)

    HttpClients.__init__ = reuse  # type: ignore[method-assign]


def make_approving() -> None:
    """What was approved once is not held again."""
    ApprovalGate.conditions = lambda self, exchange: ()  # type: ignore[method-assign]


def make_lasting() -> None:
    """Neither grants nor approvals end."""
    find, state = Rights.narrowing_of, Approvals.state

    def keep(self: Rights, agent_id: str) -> Any:
        kept = self._narrowed.get(agent_id)
        return find(self, agent_id) if kept is None else kept[1]

    def stay(self: Approvals, item: Any) -> str:
        found = state(self, item)
        return "approved" if found == "expired" and item.value["decision"] is not None else found

    Rights.narrowing_of, Approvals.state = keep, stay  # type: ignore[method-assign]


FAULTS = {
    "standing": make_standing,
    "remembering": make_remembering,
    "scribbling": make_scribbling,
    "failing": make_failing,
    "unconditional": make_unconditional,
    "stale": make_stale,
    "unrevoked": make_unrevoked,
    "trusting": make_trusting,
    "approving": make_approving,
    "lasting": make_lasting,
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.argv = sys.argv[2:]
    run()  # type: ignore[no-untyped-call]
