"""CHECK: how something is, component by component (methods v01 section 8.9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason

UP, IDLE, DEGRADED, DOWN = "up", "idle", "degraded", "down"
RANK: Final = (UP, IDLE, DEGRADED, DOWN)
"""From best to worst: the whole is as its worst component, and ``idle`` is as good as up: it starts with a call."""

STATES: Final[Mapping[str, str]] = {
    "up": UP,
    "idle": IDLE,
    "starting": DEGRADED,
    "backoff": DOWN,
    "failed": DOWN,
    "stopped": DOWN,
}
"""What an upstream's states are here."""

LEASES: Final[Mapping[str, str]] = {"live": UP, "late": DEGRADED, "lost": DOWN}
"""What the states of a card are."""

LATE = 60.0
"""Seconds for which a checkpoint may wait for a witness that is in order."""

HOST, STORE, WITNESS, CARD = "host", "store", "witness", "card:"
CARRIERS: Final = ("mcp_server", "a2a_agent", "acp_server")
"""Members of a tool's record that name its upstream."""

Component = Mapping[str, Any]


def _one(component: str, name: str, status: str, **more: Any) -> Component:
    return {"component": component, "name": name, "status": status, **more}


@implementer(IBuiltInHandler)
class Check:
    """The handler of CHECK, for things that the caller may call or see."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the CHECK call.

        :raises Refusal: 404 for what is nothing here, or nothing for the caller.
        """
        target = str(context.input["target"])
        deep = parameters.choice(context.input, "depth", ("shallow", "deep"), "shallow") == "deep"
        components = list(self._own(target, deep=deep))
        if not components and target.startswith(CARD):
            components = [await self._card(context, target.removeprefix(CARD))]
        components = components or [*self._upstream(context, target), *self._agent(context, target, deep=deep)]
        if not components:
            raise Refusal(Reason.NOTHING_TO_CHECK, details={"parameter": "target"})
        worst = max(components, key=lambda each: RANK.index(each["status"]))
        return {
            "target": target,
            "depth": "deep" if deep else "shallow",
            "status": UP if worst["status"] in (UP, IDLE) else worst["status"],
            "components": components,
        }

    def _own(self, target: str, *, deep: bool) -> Iterator[Component]:
        """Yield the host, the store or the witnesses, as ``target`` names them; a deep check of the host has all."""
        parts = self._parts
        if target in (HOST, parts.server_id) or parts.address.local_path(target) == "/":
            yield _one(HOST, parts.server_id, UP)
            if deep:
                yield from self._store()
                yield from self._witness_components()
        elif target == STORE:
            yield from self._store()
        elif target == WITNESS:
            yield from self._witness_components()

    def _store(self) -> Iterator[Component]:
        ledger = self._parts.ledger
        yield _one(STORE, STORE, DOWN if not ledger.healthy else DEGRADED if ledger.low else UP)

    def _witness_components(self) -> Iterator[Component]:
        for name, waits in self._parts.witnesses().items():
            yield _one(WITNESS, name, UP if waits < LATE else DOWN, waits_seconds=round(waits, 3))

    def _upstream(self, context: BuiltInContext, target: str) -> list[Component]:
        """Check a tool by ``server.tool``, or a server by name, if the caller may call something of it."""
        tools = [tool for adapter in self._parts.adapters for tool in adapter.tools()]
        tool = next((each for each in tools if each.name == target and context.admits(each)), None)
        if tool is not None:
            server = _server_of(tool)
            return [_one("tool", tool.name, UP), *([self._server(server)] if server else ())]
        servers = {_server_of(each) for each in tools if context.admits(each)} - {""}
        if target in servers:
            return [self._server(target)]
        if target not in self._unheard(tools):
            return []
        idle = (self._report(target) or {}).get("state") == "idle"
        return [_one("server", target, IDLE) if idle else self._server(target)]

    def _unheard(self, tools: Iterable[Binding]) -> list[str]:
        """
        Return servers that have not listed their tools, as they do not run, so who may call these is unknown.

        That one is down is what CHECK is asked for (methods v01 section 8.9).
        """
        heard = {_server_of(each) for each in tools}
        waiting = (each for each in self._parts.upstreams() if each.get("state") not in (None, "up"))
        return [name for each in waiting if (name := str(each.get("name"))) not in heard]

    def _report(self, name: str) -> Mapping[str, Any] | None:
        return next((each for each in self._parts.upstreams() if each.get("name") == name), None)

    def _server(self, name: str) -> Component:
        report = self._report(name)
        state = "failed" if report is None else str(report.get("state"))
        return _one("server", name, STATES.get(state, DOWN), state=state)

    async def _card(self, context: BuiltInContext, card_id: str) -> Component:
        """Check a card of the registry, as ``QUERY /cards/{id}`` shows it to the caller."""
        if self._parts.find("FIND", "/cards") is None or not card_id.isascii() or "/" in card_id or not card_id:
            raise Refusal(Reason.NOTHING_TO_CHECK, details={"parameter": "target"})
        try:
            entry = await context.invoke("QUERY", f"/cards/{card_id}", {"form": "entry"})
        except Refusal as refusal:
            if refusal.status in (404, 400, 422):
                raise Refusal(Reason.NOTHING_TO_CHECK, details={"parameter": "target"}) from None
            raise
        state = str(entry.get("state", "live"))
        return _one("card", card_id, LEASES.get(state, DOWN), state=state)

    def _agent(self, context: BuiltInContext, target: str, *, deep: bool) -> Sequence[Component]:
        """Check an agent by Agent-ID, label or ``/agents/NAME``; a deep check includes its servers."""
        parts = self._parts
        name = (parts.address.local_path(target) or target).removeprefix("/agents/")
        agent: Agent | None = parts.directory.by_id(name) if is_agent_id(name) else parts.directory.by_name(name)
        if agent is None or not parts.visibility.documents_of(context, agent):
            return ()
        if not agent.hosted and not parts.visibility.is_own(context, agent):
            return ()
        state = parts.states(agent)
        status = DOWN if state.is_stopped else DEGRADED if state.status.value == "deprecated" else UP
        found = [_one("agent", agent.name, status, agent_id=agent.agent_id, state=state.status.value)]
        if deep:
            found += self._dependencies(context, agent)
        return found

    def _dependencies(self, context: BuiltInContext, agent: Agent) -> Iterator[Component]:
        """Yield what the agent needs here: the store, and servers whose tools it offers to the caller."""
        yield from self._store()
        tools = [tool for adapter in self._parts.adapters for tool in adapter.tools()]
        offered = (tool for tool in tools if not tool.agents or agent.agent_id in tool.agents)
        down = {name for name in self._unheard(tools) if (self._report(name) or {}).get("state") != "idle"}
        for name in sorted({_server_of(tool) for tool in offered if context.admits(tool)} - {""} | down):
            yield self._server(name)


def _server_of(tool: Binding) -> str:
    return str(next((tool.extra[member] for member in CARRIERS if member in tool.extra), ""))


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the built-in of CHECK, by method."""
    return {"CHECK": Check(parts)}
