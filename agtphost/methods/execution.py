"""
EXECUTE: the carrier of framework payloads (core v08 sections 7.2.8 and 8).

``parameters.action`` names the operation and ``payload_type`` the framework;
without a framework it is an action of the operator's own, an EXECUTE endpoint
that declares ``action`` and takes what ``parameters.parameters`` holds.

The floor binding of EXECUTE never runs: the gate :class:`~agtphost.dispatch.gates.action.ActionGate`
replaces
it with the binding of the action, so that the action's own scopes, assurance
and schema are what the later gates check, before any payload handler runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason

FLOOR = Assurance.HEADER
"""What EXECUTE itself asks of a caller, before its action asks for more."""


def callable_tools(adapters: Iterable[IPayloadAdapter], context: BuiltInContext) -> list[Binding]:
    """
    Return the tools that the caller of ``context`` could call now, which every list of tools shows.

    For thousands that takes a while: they are :func:`list_offered_tools`, and looked at off the reactor.
    """
    return list(filter(context.admits, list_offered_tools(adapters, context)))


def list_offered_tools(adapters: Iterable[IPayloadAdapter], context: BuiltInContext) -> list[Binding]:
    """Return every tool if the caller's identity suffices to call any; its authority decides which of them."""
    return [tool for adapter in adapters for tool in adapter.tools()] if may_execute(context) else []


def may_execute(context: BuiltInContext) -> bool:
    """Return whether the caller, as lists take it, is known well enough to call any tool."""
    known = context.assurance if context.invocation is None else context.invocation.exchange.for_lists.assurance
    return bool(known >= FLOOR)


def arguments_of(tool: Binding) -> Mapping[str, Any]:
    """Return the JSON Schema of a tool's arguments: as its server wrote it, or what they are checked against."""
    listed: Mapping[str, Any] | None = tool.details.get("input_schema")
    if listed is None:
        listed = tool.input_schema.schema if tool.input_schema is not None else {"type": "object"}
    return listed


def called_by(tool: Binding) -> dict[str, Any]:
    """Return what lists say of how a tool is called: see :meth:`agtphost.contract.carried_call.CarriedCall.to_json`."""
    return {} if tool.call is None else tool.call.to_json()


@implementer(IBuiltInHandler)
class Carrier:
    """Marks the bindings that the gate of actions resolves further."""

    kind = "built_in"

    def handle(self, context: BuiltInContext) -> Any:
        """Refuse an EXECUTE that still has the floor binding named no known action."""
        raise Refusal(
            Reason.UNKNOWN_ACTION,
            "The request names no action that this host carries.",
            remedy="DISCOVER /methods and DISCOVER /tools list what can be executed.",
        )


def bindings(carrier: Carrier, floor: Binding) -> tuple[Binding, ...]:
    """EXECUTE on ``/`` and on ``/mcp/{server}``, which names one of the hosted MCP servers."""
    return (
        replace(floor, path="/", handler=carrier),
        replace(floor, path="/mcp/{server}", handler=carrier),
    )
