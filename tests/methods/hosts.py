"""A host in memory for tests of single methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import succeed
from zope.interface import implementer

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import CarriedCall
from agtphost.errors import Refusal
from agtphost.iagtp import IPayloadAdapter, IRecordStore
from agtphost.identity.agents import Agent
from agtphost.stores import MemoryStore, OffReactorRecords
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status
from tests.identity.issued import BARE, CALLER, DESK, SIGNING
from tests.memory import OpenHost

MCP = "application/vnd.mcp.tools+json"


@implementer(IPayloadAdapter)
class Toolbox:
    """An adapter whose tools are given as bindings."""

    name = "mcp"
    payload_types = frozenset({MCP})

    def __init__(self, *tools: Binding) -> None:
        self.bound = tools
        self._with_calls: dict[int, tuple[Binding, Binding]] = {}
        self.resolved: list[tuple[str, Any, str | None]] = []
        self.state = "ready"
        self.beside: Mapping[str, Any] = {}
        """What each call has besides its input."""

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        self.resolved.append((action, payload, server))
        for tool in self.bound:
            if action == "mcp.tools.call" and isinstance(payload, dict) and payload.get("tool") == tool.name:
                return Resolution(binding=tool, input=payload.get("arguments") or {}, beside=self.beside)
        raise Refusal(ForeignReason("tool-unknown", Status.UNPROCESSABLE), "No such tool.")

    def tools(self) -> Iterable[Binding]:
        return [self._called(tool) for tool in self.bound]

    def _called(self, tool: Binding) -> Binding:
        """The tool with the EXECUTE that calls it: the same object each time, as an adapter's is."""
        if tool.call is not None:
            return tool
        known = self._with_calls.get(id(tool))
        if known is None or known[0] is not tool:
            call = CarriedCall(
                action="mcp.tools.call", payload_type=MCP, constants={"tool": tool.name}, member="arguments"
            )
            known = self._with_calls[id(tool)] = tool, replace(tool, call=call)
        return known[1]

    def call_of(self, binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        call = self._called(binding).call
        assert call is not None
        return call.parameters(arguments)

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        return []

    def list_offered(self) -> Sequence[object]:
        return []

    def definition(self, server: str, name: str) -> Any:
        return None

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        return [{"protocol": "mcp", "name": "files", "state": self.state, "tools": len(self.bound)}]


def reading(store: MemoryStore) -> IRecordStore:
    """The reading side of a store in memory, without a thread."""
    records: IRecordStore = OffReactorRecords(
        store.reader(), lambda function, *arguments: succeed(function(*arguments))
    )
    return records


class MethodHost(OpenHost):
    """
    A host with the hosted agents ``desk`` and ``bare`` and a caller.

    :param settings: as in ``host.toml``.
    :param endpoints: the operator's.
    :param options: see :class:`tests.memory.OpenHost`.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        agents: Sequence[Agent] = (DESK, BARE, CALLER),
        endpoints: Sequence[Binding] = (),
        **options: Any,
    ) -> None:
        given = {"host": {"server_id": "agtp.test"}, **(settings or {})}
        super().__init__(given, agents=agents, bindings=endpoints, **options)
        self.key = SIGNING
