"""CHECK: how something is, component by component (methods v01 section 8.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.methods.standard.parts import Parts
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason

UP, DOWN = "up", "down"


@implementer(IBuiltInHandler)
class Check:
    """Answers CHECK."""

    kind = "built_in"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handle(self, context: BuiltInContext) -> Any:
        target = str(context.input["target"])
        components = self._agent(context, target)
        if components is None:
            raise Refusal(
                Reason.NOTHING_TO_CHECK,
                details={"parameter": "target"},
            )
        status = UP if all(each["status"] == UP for each in components) else DOWN
        return {"target": target, "status": status, "components": components}

    def _agent(self, context: BuiltInContext, target: str) -> list[Mapping[str, Any]] | None:
        parts = self._parts
        agent: Agent | None = parts.directory.by_id(target) if is_agent_id(target) else parts.directory.by_name(target)
        if agent is None or not parts.visibility.documents_of(context, agent):
            return None
        state = parts.states(agent)
        status = DOWN if state.stopped else UP
        return [{"component": "agent", "name": agent.name, "status": status, "state": state.status.value}]


def handlers(parts: Parts) -> Mapping[str, IBuiltInHandler]:
    """The built-in of CHECK."""
    return {"CHECK": Check(parts)}
