"""Payload adapters of the operator's own packages, restricted to the rights of an operator's code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import CarriedCall, ToolAddress, upstream_of
from agtphost.contract.semantic import Impact
from agtphost.errors import Refusal
from agtphost.handlers.built_in import IBuiltInHandler, Overstepped, require_plain_refusal
from agtphost.handlers.function import RegisteredFunction
from agtphost.iagtp import IPayloadAdapter, IToolAddresses
from agtphost.upstream.offered_tools import OfferedTool
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary.display_names import UNLISTED
from agtphost.vocabulary.given_values import copy_given
from agtphost.vocabulary.status import Status

log = Logger()

MOST_REPORTED = 1_000
"""Tools that are reported as not listed, each once; further ones are not reported."""

CARRIED_PATH = re.compile(r"/(?:mcp|a2a|acp)/[^/{}]+")
"""Paths of EXECUTE that name an upstream, besides ``/``."""


UNKNOWN = "agtphost-no-such-action"


class UncallableTool(Exception):
    """The error for a tool that cannot be called as it would be listed; the text says why and what to change."""


def _sample(tool: Binding) -> dict[str, str]:
    """Return arguments whose values occur nowhere else, so that they are found again in a payload."""
    schema = tool.input_schema.schema if tool.input_schema is not None else {}
    properties = schema.get("properties")
    names = properties if isinstance(properties, Mapping) and properties else ("sample",)
    return {name: f"agtphost sample of {name}" for name in names}


def _find_arguments(given: Any, sample: Mapping[str, Any], payload_types: frozenset[str]) -> CarriedCall:
    """
    Find where a payload has the arguments.

    :param given: what ``call_of`` returned for the arguments ``sample``, whose values occur nowhere else.
    :raises UncallableTool: it is malformed, or the arguments are not found in it.
    """
    if not isinstance(given, Mapping):
        raise UncallableTool(f"call_of returned {type(given).__name__}; it returns action, payload_type and payload")
    action, kind, payload = (given.get(name) for name in ("action", "payload_type", "payload"))
    if not isinstance(action, str) or not action:
        raise UncallableTool(f'call_of returned the action {action!r}; it is a text, such as "shelf.lists.sort"')
    if kind not in payload_types:
        raise UncallableTool(
            f"call_of returned the payload_type {kind!r}; choose one of: {', '.join(sorted(payload_types))}"
        )
    if isinstance(payload, Mapping):
        if all(payload.get(name) == value for name, value in sample.items()):
            constants = {name: value for name, value in payload.items() if name not in sample}
            return CarriedCall(action=action, payload_type=kind, constants=constants)
        for member, value in payload.items():
            if value == sample:
                constants = {name: other for name, other in payload.items() if name != member}
                return CarriedCall(action=action, payload_type=kind, constants=constants, member=str(member))
    raise UncallableTool(
        "call_of returned a payload in which the arguments are not found; return them as the payload, or as one member "
        "of it"
    )


@implementer(IPayloadAdapter, IToolAddresses)
class OperatorAdapter:
    """
    A wrapper of a plugin's payload adapter.

    Its bindings keep who may call them, and lose what only the host may set: further members of the record, header
    fields, and a handler that sees more than an operator's code.

    :param adapter: provides :class:`agtphost.iagtp.IPayloadAdapter`.
    :param irreversible: whether a person approves each irreversible call; a tool that declares nothing is irreversible.
    """

    def __init__(self, adapter: IPayloadAdapter, *, irreversible: bool = False) -> None:
        self._irreversible = irreversible
        self.name = str(adapter.name)
        self.payload_types = frozenset(adapter.payload_types)
        self._adapter = adapter
        self._listed: dict[int, tuple[Binding, Binding | None]] = {}
        self._places: dict[tuple[str, str], Binding] = {}
        self._reported: set[str] = set()
        self._actions: frozenset[str] = frozenset()

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """Find what an EXECUTE names; see :class:`agtphost.iagtp.IPayloadAdapter`."""
        try:
            found = self._adapter.resolve(action, copy_given({"payload": payload})["payload"], server)
        except Refusal as refusal:
            require_plain_refusal(refusal)
            raise
        binding = self._restrict(found.binding)
        if action not in self._actions:
            # An adapter may take any text as an action.
            binding = replace(binding, extra={**binding.extra, UNLISTED: True})
        return replace(found, binding=binding)

    def tools(self) -> Iterable[Binding]:
        """
        Return its tools, each with the EXECUTE that calls it; none while the adapter fails.

        A tool without a known call is not listed, since it could not be called as listed. A binding that the adapter
        returns again is the same object here too, by which lists notice changes.
        """
        try:
            given = list(self._adapter.tools())
        except Exception:
            log.failure("the payload adapter {name} failed to list its tools", name=self.name)
            return []
        # The adapter's binding is kept with its wrapper, so that its id() is not used again.
        known = self._listed
        self._listed = {id(tool): known.get(id(tool)) or (tool, self._list_tool(tool)) for tool in given}
        listed = [own for _, own in self._listed.values() if own is not None]
        self._places = {upstream_of(own.name, own.path): own for own in reversed(listed)}
        self._actions = frozenset(own.call.action for own in listed if own.call is not None)
        return listed

    def list_offered(self) -> Iterator[OfferedTool]:
        """Return every tool that is listed, for operators: the plugin itself is the server, and it runs."""
        for tool in self.tools():
            upstream, name = upstream_of(tool.name, tool.path)
            yield OfferedTool(
                protocol=self.name,
                upstream=upstream,
                name=name,
                upstream_state=UpstreamState.UP.value,
                description=tool.description,
                binding=tool,
            )

    def address_of(self, upstream: str, tool: str) -> ToolAddress | None:
        """Return where a tool that the plugin lists is called; see :class:`agtphost.iagtp.IToolAddresses`."""
        if (upstream, tool) not in self._places:
            self.tools()
        found = self._places.get((upstream, tool))
        return None if found is None or found.call is None else ToolAddress(path=found.path, call=found.call)

    def call_of(self, binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the EXECUTE payload of a tool; see :class:`agtphost.iagtp.IPayloadAdapter`."""
        assert binding.call is not None
        return binding.call.parameters(arguments)

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        """Return its entries of the manifest; the former method name ``hosted`` works too."""
        told: Any = getattr(self._adapter, "hosted_protocols", None) or getattr(self._adapter, "hosted", None)
        if told is None:
            return []
        try:
            return list(told())
        except Exception:
            log.failure("the payload adapter {name} failed to list what it hosts", name=self.name)
            return []

    def _list_tool(self, tool: Binding) -> Binding | None:
        """Return a tool as it is listed; None, and a log line, where it could not be called as listed."""
        try:
            own = self._restrict(tool)
            call = self._call(tool)
            self._check_path(tool)
            self._check_resolved(tool, call)
        except UncallableTool as error:
            self._report(tool, str(error))
            return None
        except Exception as error:
            log.failure("the payload adapter {name} failed to list its tools", name=self.name)
            self._report(tool, f"{type(error).__name__}: {error}")
            return None
        return replace(own, call=call)

    def _report(self, tool: Binding, why: str) -> None:
        said = f"{tool.name}: {why}"
        if said in self._reported or len(self._reported) >= MOST_REPORTED:
            return
        self._reported.add(said)
        log.warn(
            "the payload adapter {name}: its tool {tool} is not listed: {why}",
            name=self.name,
            tool=tool.name,
            why=why,
        )

    def _call(self, tool: Binding) -> CarriedCall:
        """
        Find out how a tool is called: by ``call_of``, or by ``details`` of adapters that were written before it.

        :raises UncallableTool: the adapter gives no call in a form that lists can show.
        """
        of: Any = getattr(self._adapter, "call_of", None)
        if of is None:
            only = next(iter(self.payload_types)) if len(self.payload_types) == 1 else ""
            action, kind = tool.details.get("action"), tool.details.get("payload_type", only)
            if not isinstance(action, str) or not action or kind not in self.payload_types:
                raise UncallableTool(
                    "nothing says which action calls it; give the adapter a method call_of(binding, arguments) that "
                    'returns {"action": ..., "payload_type": ..., "payload": arguments}'
                )
            return CarriedCall(action=action, payload_type=kind)
        sample = _sample(tool)
        try:
            given = of(tool, dict(sample))
        except Exception as error:
            raise UncallableTool(
                f"call_of raised {type(error).__name__}: {error}; it takes any arguments, and puts them into the "
                "payload as they are"
            ) from error
        return _find_arguments(given, sample, self.payload_types)

    def _check_resolved(self, tool: Binding, call: CarriedCall) -> None:
        """
        Check that the adapter resolves its own call.

        A refusal of the sample's arguments does not mean that the action is wrong. It counts only if an unknown action
        is refused in the same way.
        """
        payload = call.parameters(_sample(tool))["payload"]
        server = tool.path.rpartition("/")[2] or None
        try:
            found = self._adapter.resolve(call.action, payload, server)
        except Refusal as refusal:
            if self._try_resolve(f"{call.action}.{UNKNOWN}", payload, server) == (refusal.status, refusal.reason):
                raise UncallableTool(
                    f"resolve refuses the action {call.action!r} as it refuses unknown ones ({refusal}); name the "
                    "action that resolve takes in call_of, or in details"
                ) from refusal
        except Exception as error:
            # It failed with the sample, which does not mean that it fails with real arguments.
            log.debug("the payload adapter {name} cannot resolve a sample: {why}", name=self.name, why=repr(error))
        else:
            if found.binding.name != tool.name:
                raise UncallableTool(
                    f"resolve takes the action {call.action!r} for {found.binding.name}; name another action or "
                    "payload in call_of"
                )

    def _try_resolve(self, action: str, payload: Any, server: str | None) -> tuple[int, str] | None:
        try:
            self._adapter.resolve(action, payload, server)
        except Refusal as refusal:
            return refusal.status, refusal.reason
        except Exception:
            return None
        return None

    @staticmethod
    def _check_path(tool: Binding) -> None:
        if tool.path != "/" and CARRIED_PATH.fullmatch(tool.path) is None:
            raise UncallableTool(f'no EXECUTE has the path {tool.path}; write path="/" in its Binding')

    def _restrict(self, binding: Binding) -> Binding:
        if IBuiltInHandler.providedBy(binding.handler):
            raise Overstepped(f"the payload adapter {self.name} named a handler of the host's own")
        impact = (binding.details.get("semantic") or {}).get("impact", Impact.IRREVERSIBLE.value)
        grave = self._irreversible and binding.state_changing and impact == Impact.IRREVERSIBLE.value
        return replace(
            binding,
            method="EXECUTE",
            # Core v08 section 7.2.8: a missing scope of an action is 455 (AGTP-211).
            scope_status=Status.SCOPE_VIOLATION,
            handler=RegisteredFunction(binding.handler.handle),
            tier="B",
            server_level=False,
            vital=False,
            listing=False,
            approval=binding.approval or grave,
            # Only the host can let an approval cover something else.
            definition="",
            headers=(),
            extra={"payload_adapter": self.name},
        )
