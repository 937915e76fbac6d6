"""Payload adapters of the operator's own, as the host asks them: what they name runs as an operator's code does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.semantic import Impact
from agtphost.errors import Refusal
from agtphost.handlers.built_in import IBuiltInHandler, Overstepped, checked_refusal
from agtphost.handlers.function import RegisteredFunction
from agtphost.iagtp import IPayloadAdapter

log = Logger()


@implementer(IPayloadAdapter)
class OperatorAdapter:
    """
    Asks a plugin.

    Its bindings keep what says who may call them, and lose what is the host's to say: further members of the record,
    header fields, and a handler that sees more than an operator's code.

    :param adapter: provides :class:`agtphost.iagtp.IPayloadAdapter`.
    :param irreversible: whether a person approves each call of what is irreversible; what says nothing is.
    """

    def __init__(self, adapter: IPayloadAdapter, *, irreversible: bool = False) -> None:
        self._irreversible = irreversible
        self.name = str(adapter.name)
        self.payload_types = frozenset(adapter.payload_types)
        self._adapter = adapter

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """What an EXECUTE names; see :class:`agtphost.iagtp.IPayloadAdapter`."""
        try:
            found = self._adapter.resolve(action, payload, server)
        except Refusal as refusal:
            checked_refusal(refusal)
            raise
        return Resolution(binding=self._own(found.binding), input=found.input)

    def tools(self) -> Iterable[Binding]:
        """Its tools; none while it cannot tell them, so that it takes no list of the host along."""
        try:
            return [self._own(tool) for tool in self._adapter.tools()]
        except Exception:
            log.failure("the payload adapter {name} cannot tell its tools", name=self.name)
            return []

    def hosted(self) -> Sequence[Mapping[str, object]]:
        """Its entries of the manifest; likewise."""
        try:
            return list(self._adapter.hosted())
        except Exception:
            log.failure("the payload adapter {name} cannot tell what it hosts", name=self.name)
            return []

    def _own(self, binding: Binding) -> Binding:
        if IBuiltInHandler.providedBy(binding.handler):
            raise Overstepped(f"the payload adapter {self.name} named a handler of the host's own")
        impact = (binding.details.get("semantic") or {}).get("impact", Impact.IRREVERSIBLE.value)
        grave = self._irreversible and binding.state_changing and impact == Impact.IRREVERSIBLE.value
        return replace(
            binding,
            method="EXECUTE",
            handler=RegisteredFunction(binding.handler.handle),
            tier="B",
            server_level=False,
            vital=False,
            approval=binding.approval or grave,
            # Nobody but the host says that the approval of something else is for it as well.
            definition="",
            headers=(),
            extra={"payload_adapter": self.name},
        )
