"""``QUERY /workflows``, and INSPECT of one workflow: for those whose it is, and those who look after them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.methods.continuation import Continuations
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.vocabulary.reasons import Reason

PATH: Final = "/workflows"
TARGET: Final = "workflow"


@implementer(IBuiltInHandler)
class WorkflowReading:
    """Lists the caller's workflows, and shows one."""

    kind = "built_in"

    def __init__(self, held: StateTable, authorization: Authorization, continuations: Continuations) -> None:
        self._held = held
        self._authorization = authorization
        self._continuations = continuations

    def handle(self, context: BuiltInContext) -> Answer:
        """Return the caller's own workflows, oldest first."""
        self._authorization.actor(context)
        state = parameters.choice(context.input, "state", (*workflow_items.STATES, "all"), "all")
        limit = parameters.count(context.input, "limit", 50, 100)
        listed = [
            item
            for item in self._held.items_of(workflow_items.WORKFLOW, context.owner or "-")
            if state in ("all", item.brief["state"])
        ]
        listed.sort(key=_place)
        part = self._continuations.part(context, listed, limit, _place)
        shown = [
            {name: each for name, each in workflow_items.workflow_to_json(item.value).items() if name != "steps"}
            for item in part.items
        ]
        return Answer(result={"workflows": shown, "count": len(listed)}, headers=part.headers)

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Answer INSPECT of one workflow with the outcome of every step that was begun, by ``workflow_id``.

        :raises agtphost.errors.Refusal: 404 where the caller has no such workflow.
        """
        self._authorization.actor(context)
        item = self._held.get(workflow_items.WORKFLOW, parameters.identifier(context.input, "workflow_id"))
        if item is None or not self._may_read(context, item):
            raise not_found(Reason.WORKFLOW_UNKNOWN)
        value = item.value
        steps = workflow_items.steps_of(self._held, item.key, len(value["definition"]["steps"]))
        return workflow_items.workflow_to_json(value, (each.value for each in steps.values()))

    def _may_read(self, context: BuiltInContext, item: StateItem) -> bool:
        own = bool(context.owner) and item.owner == context.owner
        return own or self._authorization.manages(context, item.value["agent_id"], OperatorAction.READ)


def _place(item: StateItem) -> list[str]:
    return [item.brief["created_at"], item.key]
