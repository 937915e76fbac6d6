"""Hold the table of what can be called and the targets of INSPECT: filled while the host is built, then read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import EndpointTable, Match
from agtphost.contract.policy import MethodPolicy
from agtphost.features import IBindingTable
from agtphost.handlers.built_in import Target
from agtphost.host.bindings import methods_of, units_of
from agtphost.iagtp import IPayloadAdapter
from agtphost.methods.inspection.inspect import OWN_TARGETS
from agtphost.methods.inspection.several import SEVERAL
from agtphost.search.engine import SearchEngine
from agtphost.vocabulary.catalog import Catalog

VITALS = "vitals"
"""The target of INSPECT that is added last, once the whole host is assembled."""

RESERVED_TARGETS = frozenset({*OWN_TARGETS, SEVERAL, VITALS})
"""Targets of the host that :attr:`BindingRegistry.targets` does not have while a configuration is built."""


@implementer(IBindingTable)
class BindingRegistry:
    """
    The bindings of a host.

    Features are built before all bindings are known, and many of them list bindings. So they get the registry and read
    it when a request comes. It is empty until :meth:`freeze`.

    :param policy: decides which methods are admitted.
    :param search: ranks what can be called by a description in words.
    """

    def __init__(self, catalog: Catalog, policy: MethodPolicy, search: SearchEngine) -> None:
        self.catalog = catalog
        self.policy = policy
        self.search = search
        self.adapters: Sequence[IPayloadAdapter] = ()
        """Payload adapters, set before features are built."""

        self.endpoints: Sequence[Binding] = ()
        """The operator's endpoints, set before features are built."""

        self._targets: dict[str, Target] = {}
        self._built_ins: tuple[Binding, ...] = ()
        self._table: EndpointTable | None = None

    # Filling

    def add_targets(self, targets: Mapping[str, Target]) -> None:
        """Add targets of INSPECT; each decides who may read it."""
        self._targets.update(targets)

    def freeze(self, built_ins: Iterable[Binding]) -> EndpointTable:
        """
        Set the host's own bindings; nothing is added later.

        :raises agtphost.contract.endpoint_table.AmbiguousEndpoints: two endpoints match one path equally well.
        """
        self._built_ins = tuple(built_ins)
        self._table = EndpointTable(self.all_bindings())
        return self._table

    def clear(self) -> None:
        """
        Drop all bindings and targets.

        They and their users refer to each other; without this the garbage collector would have to find them.
        """
        self._built_ins, self.endpoints, self.adapters, self._table = (), (), (), None
        self._targets = {}

    # Reading

    @property
    def targets(self) -> Mapping[str, Target]:
        """Return the targets of INSPECT, by name; they may still grow."""
        return self._targets

    def built_in_bindings(self) -> Sequence[Binding]:
        """Return the host's own bindings, without absent ones."""
        return tuple(binding for binding in self._built_ins if not binding.absent)

    def all_bindings(self) -> Sequence[Binding]:
        """Return the host's own bindings and the operator's."""
        return (*self._built_ins, *self.endpoints)

    def admitted_bindings(self) -> list[Binding]:
        """Return the bindings whose method the policy admits; lists show these."""
        return [binding for binding in self.all_bindings() if not binding.absent and self.policy.admits(binding.method)]

    def methods(self) -> Sequence[str]:
        """Return every admitted method that something is bound to, in the order of first appearance."""
        return methods_of(self.admitted_bindings())

    def units(self) -> frozenset[str]:
        """Return the units in which bindings state a cost; a Budget-Limit may use only these."""
        return units_of(self.admitted_bindings())

    def methods_at(self, path: str) -> Sequence[str]:
        """Return the methods bound on a path, sorted; empty if the path is unknown."""
        assert self._table is not None, "asked before everything is known"
        return self._table.methods_at(path)

    def bindings_at(self, path: str) -> Sequence[Binding]:
        """Return what is bound on a path."""
        assert self._table is not None, "asked before everything is known"
        return self._table.bindings_at(path)

    def match(self, method: str, path: str) -> Match | None:
        """Return what a method on a path is bound to."""
        assert self._table is not None, "asked before everything is known"
        return self._table.match(method, path)
