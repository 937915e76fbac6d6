"""What can be called here, and what INSPECT tells of: filled while the host is built, then read by everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agtphost.contract.binding import Binding
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.table import EndpointTable, Match
from agtphost.host.bindings import methods_of, units_of
from agtphost.methods.inspection.inspect import Target


class Registry:
    """
    The bindings of a host.

    Features are made before everything that can be called is known, and many
    of them tell of it: they are given the registry, and ask it once a request
    comes. Until :meth:`freeze` there is nothing to be told.

    :param policy: which methods are admitted at all.
    """

    def __init__(self, policy: MethodPolicy) -> None:
        self._policy = policy
        self._targets: dict[str, Target] = {}
        self._built_ins: tuple[Binding, ...] = ()
        self._endpoints: tuple[Binding, ...] = ()
        self._table: EndpointTable | None = None

    # Filled

    def tell(self, targets: Mapping[str, Target]) -> None:
        """Further targets of INSPECT; each decides by itself who may ask."""
        self._targets.update(targets)

    def freeze(self, built_ins: Iterable[Binding], endpoints: Iterable[Binding]) -> EndpointTable:
        """
        Everything is known now.

        :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
        """
        self._built_ins, self._endpoints = tuple(built_ins), tuple(endpoints)
        self._table = EndpointTable(self.all())
        return self._table

    def clear(self) -> None:
        """
        Nothing is called here any more.

        What was here and what asked for it held each other: it goes with its last call, and not some time later.
        """
        self._built_ins, self._endpoints, self._table = (), (), None
        self._targets = {}

    # Read

    @property
    def targets(self) -> Mapping[str, Target]:
        """Of INSPECT, by name; may still grow."""
        return self._targets

    def built_ins(self) -> Sequence[Binding]:
        """The host's own, but for those that nobody provides."""
        return tuple(binding for binding in self._built_ins if not binding.absent)

    def all(self) -> Sequence[Binding]:
        """The host's own, and the operator's."""
        return (*self._built_ins, *self._endpoints)

    def admitted(self) -> list[Binding]:
        """Those whose method the policy does not shut out: what lists show."""
        return [binding for binding in self.all() if not binding.absent and self._policy.admits(binding.method)]

    def methods(self) -> Sequence[str]:
        """Every admitted method that something is bound to, in the order of first appearance."""
        return methods_of(self.admitted())

    def units(self) -> frozenset[str]:
        """Units in which something here tells its cost: those that a Budget-Limit is held to."""
        return units_of(self.admitted())

    def match(self, method: str, path: str) -> Match | None:
        """What a method on a path is bound to."""
        assert self._table is not None, "asked before everything is known"
        return self._table.match(method, path)
