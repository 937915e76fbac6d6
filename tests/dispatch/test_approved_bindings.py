"""Every kind of binding goes through the one gate: recipes with their steps, functions that call, tools, plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from agtphost.adapters.operator_adapter import OperatorAdapter
from agtphost.contract.binding import Binding, Resolution
from agtphost.handlers.composition import Composition
from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IPayloadAdapter
from agtphost.testing.reactor import MemoryReactor
from tests.contract.recipes import sound
from tests.dispatch.approval_hosts import ApprovalHost
from tests.methods.floor_hosts import CALLER, OPERATOR, body_of, endpoint
from tests.methods.hosts import MCP, Toolbox

RECIPE = """
[[recipe]]
name = "clear-up"
version = "1.0"
description = "Tells, and removes."
output = {}

[[recipe.step]]
method = "ECHO"
path = "/text"
input = { text = "removing" }

[[recipe.step]]
method = "REMOVE"
path = "/step"
input = { path = "=input.path" }
"""

TAKEN = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


class Bound:
    """A host with ``REMOVE /step``, which needs an approval, and something in front of it."""

    def __init__(self, *, covered: bool = True, **options: Any) -> None:
        self.steps: list[Mapping[str, Any]] = []

        def step(context: EndpointContext) -> Any:
            self.steps.append(dict(context.input))
            return {}

        async def function(context: EndpointContext) -> Any:
            await context.invoke("REMOVE", "/step", {"path": context.input["path"]})
            return {"removed": True}

        inner = endpoint("REMOVE", "/step", "", step, taken=TAKEN, approval=True)
        inner = replace(inner, definition="d" * 64 if covered else "")
        (recipe,) = sound(RECIPE)
        composed = Binding(
            method="REMOVE",
            path="/all",
            handler=Composition(recipe, MemoryReactor()),
            tier="B",
            errors=frozenset({"composition_failed"}),
            approval=True,
            definition="e" * 64,
        )
        called = endpoint("REMOVE", "/called", "", function, taken=TAKEN, impact="irreversible")
        self.host = ApprovalHost(bindings=(inner, composed, called), **options)

    def approve(self, answer: Any) -> str:
        found = body_of(answer)
        assert (answer.status, found["reason"]) == (202, "approval-required"), found
        assert self.host.decide(found["approval_id"]).status == 200
        return str(found["approval_id"])


def test_a_recipe_is_approved_with_its_steps() -> None:
    """One approval, before the first step; the step's record says which, and by itself the step waits."""
    bound = Bound()
    given = {"path": "/tmp/a"}
    approval_id = bound.approve(bound.host.ask("REMOVE", "/all", given))
    assert not bound.steps
    assert not [d for d in bound.host.ledger.drafts if d.payload.get("method") == "ECHO"]
    done = bound.host.ask("REMOVE", "/all", given)
    assert done.status == 200, done.body
    assert bound.steps == [given]
    (step,) = [d.payload for d in bound.host.ledger.drafts if d.payload.get("path") == "/step"]
    assert step["extra"]["approval"] == {"id": approval_id, "step": True}
    assert bound.host.ask("REMOVE", "/step", given).status == 202
    assert bound.host.ask("REMOVE", "/all", given).status == 202
    assert bound.steps == [given]


def test_what_the_recipes_definition_does_not_cover_needs_its_own() -> None:
    """A step that the recipe's approval is not bound to, such as a tool: it waits, and is not run."""
    bound = Bound(covered=False)
    given = {"path": "/tmp/a"}
    bound.approve(bound.host.ask("REMOVE", "/all", given))
    failed = body_of(bound.host.ask("REMOVE", "/all", given))
    assert (failed["status"], failed["reason"]) == (422, "composition_failed")
    assert (failed["details"]["step"], failed["details"]["reason"]) == (2, "approval-required")
    assert not bound.steps


def test_what_a_function_calls_needs_its_own() -> None:
    """The call inside is refused, not taken for done; its caller is told which approval it waits for."""
    bound = Bound()
    given = {"path": "/tmp/a"}
    answer = bound.host.ask("REMOVE", "/called", given)
    found = body_of(answer)
    assert (answer.status, found["reason"]) == (202, "approval-required")
    assert not bound.steps
    assert bound.host.decide(found["approval_id"]).status == 200
    done = bound.host.ask("REMOVE", "/called", given)
    assert done.status == 200, done.body
    assert bound.steps == [given]


def tool(**more: Any) -> tuple[Binding, list[Any]]:
    """A tool of an adapter, and what it was called with."""
    ran: list[Any] = []
    made = endpoint("EXECUTE", "/mcp/files", "", lambda context: ran.append(dict(context.input)) or {}, taken=TAKEN)
    return replace(made, name="files.remove", approval=True, **more), ran


def execute_tool(host: ApprovalHost, **arguments: Any) -> Any:
    payload = {"tool": "files.remove", "arguments": {"path": "/tmp/a", **arguments}}
    return host.ask("EXECUTE", "/", {"action": "mcp.tools.call", "payload_type": MCP, "payload": payload})


def test_a_tool_is_approved_by_its_definition() -> None:
    """Once its server lists another definition, what was approved is not it any more."""
    made, ran = tool(details={"definition_digest": "1" * 64})
    toolbox = Toolbox(made)
    host = ApprovalHost(adapter=toolbox)
    first = body_of(execute_tool(host))
    assert host.decide(first["approval_id"]).status == 200
    (shown,) = host.result("QUERY", "/approvals", by=OPERATOR)["approvals"]
    assert (shown["tool"], shown["definition_digest"]) == ("files.remove", "1" * 64)
    toolbox.bound = (replace(made, details={"definition_digest": "2" * 64}),)
    drifted = execute_tool(host)
    assert drifted.status == 202
    assert body_of(drifted)["approval_id"] != first["approval_id"]
    assert not ran
    toolbox.bound = (made,)
    assert execute_tool(host).status == 200
    assert ran == [{"path": "/tmp/a"}]


def test_a_tool_whose_server_has_not_listed_it_is_asked_for_first() -> None:
    """Nobody approves what is not known: the host finds out, and holds the call as what it is then."""
    listed, ran = tool(details={"definition_digest": "1" * 64})
    asked: list[Deferred[None]] = []

    def find_out() -> Any:
        asked.append(Deferred())
        return asked[-1]

    toolbox = Toolbox(replace(listed, details={}, unknown=find_out))
    host = ApprovalHost(adapter=toolbox)
    body = {
        "action": "mcp.tools.call",
        "payload_type": MCP,
        "payload": {"tool": "files.remove", "arguments": {"path": "/tmp/a"}},
    }
    answer = host.start_as(CALLER, "EXECUTE", "/", body)
    (asking,) = asked
    assert not answer.called
    toolbox.bound = (listed,)
    asking.callback(None)
    host.clock.settle()
    assert (answer.result.status, body_of(answer.result)["reason"]) == (202, "approval-required")
    (shown,) = host.result("QUERY", "/approvals", by=OPERATOR)["approvals"]
    assert shown["definition_digest"] == "1" * 64
    assert not ran


def test_a_tool_that_stays_unknown_is_refused() -> None:
    made, ran = tool(details={}, unknown=lambda: succeed(None))
    host = ApprovalHost(adapter=Toolbox(made))
    answer = execute_tool(host)
    assert (answer.status, body_of(answer)["reason"]) == (503, "tools-not-listed")
    assert not ran


def test_what_a_caller_says_besides_is_bound_too() -> None:
    """``_meta`` and answers to what a tool asked: another one is another call."""
    made, ran = tool(details={"definition_digest": "1" * 64})
    toolbox = Toolbox(made)
    toolbox.beside = {"_meta": {"depth": 1}}
    host = ApprovalHost(adapter=toolbox)
    first = body_of(execute_tool(host))
    host.decide(first["approval_id"])
    toolbox.beside = {"_meta": {"depth": 2}}
    assert body_of(execute_tool(host))["approval_id"] != first["approval_id"]
    assert not ran


@implementer(IPayloadAdapter)
class Plugin:
    """An adapter of the operator's own package, whose tool says nothing of approvals."""

    name = "own"
    payload_types = frozenset({"application/vnd.own+json"})

    def __init__(self, binding: Binding) -> None:
        self.binding = binding

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        return Resolution(binding=self.binding, input=payload)

    def tools(self) -> list[Binding]:
        return [self.binding]

    def hosted_protocols(self) -> list[Mapping[str, object]]:
        return []


@pytest.mark.parametrize(
    ("details", "expected"),
    [({}, True), ({"semantic": {"impact": "irreversible"}}, True), ({"semantic": {"impact": "reversible"}}, False)],
)
def test_a_plugins_tool_is_held_to_the_same_rule(details: dict[str, Any], expected: bool) -> None:
    """``[approvals] irreversible``: what says nothing of its impact counts as irreversible; its word covers nothing."""
    made = endpoint("EXECUTE", "/own", "", impact="irreversible", definition="f" * 64)
    made = replace(made, details=details)
    bound = OperatorAdapter(Plugin(made), irreversible=True).resolve("x", {}, None).binding
    assert (bound.approval, bound.definition) == (expected, "")
    assert not OperatorAdapter(Plugin(made)).resolve("x", {}, None).binding.approval


def test_a_missing_scope_of_a_plugins_action_is_455() -> None:
    """AGTP-211: the scope of an action is refused by 455, also of an action that a plugin carries."""
    made = endpoint("EXECUTE", "/own", "", required_scopes=("own:use",))
    bound = OperatorAdapter(Plugin(made)).resolve("x", {}, None).binding
    assert (bound.required_scopes, bound.scope_status) == (("own:use",), 455)
