"""
The endpoint table: which binding a method and path select (AGTP-API section 5.4).

Literal paths take one look-up. Templates are in a trie whose nodes branch by literal segment and by parameter; a path
visits only the nodes that match it, for any number of endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType

from agtphost.contract.binding import Binding
from agtphost.vocabulary.paths import Template, decode, parse_template

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A binding, with the parameters of the path."""

    binding: Binding
    path_parameters: Mapping[str, str]
    """Percent-decoded values of the template's parameters, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConflict:
    """Two endpoints that could answer the same request."""

    first: int
    """Index of the earlier endpoint in the given sequence."""

    second: int
    explanation: str
    """A sentence about both endpoints."""


class AmbiguousEndpoints(ValueError):
    """
    Two endpoints could answer the same request (AGTP-API section 5.4); a configuration error.

    :param conflicts: one for each endpoint that clashes with an earlier one.
    """

    def __init__(self, conflicts: Sequence[EndpointConflict]) -> None:
        super().__init__("; ".join(conflict.explanation for conflict in conflicts))
        self.conflicts = tuple(conflicts)


@dataclass(slots=True)
class _Node:
    """A node of the trie: where a template's segments lead so far."""

    literals: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    ends: dict[str, tuple[int, Binding, tuple[tuple[int, str], ...]]] = field(default_factory=dict)
    """By method: number of parameters, binding, and (segment index, name) of each parameter."""


class EndpointTable:
    """
    All bindings, by method and path.

    :param bindings: bindings in registration order.
    :raises AmbiguousEndpoints: two bindings could answer the same request.
    """

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self.bindings: tuple[Binding, ...] = tuple(bindings)
        self._literals: dict[tuple[str, str], Match] = {}
        self._methods: dict[str, list[str]] = {}
        self._root = _Node()
        templates = [parse_template(binding.path) for binding in self.bindings]
        clashes = conflicts(
            [(binding.method, template) for binding, template in zip(self.bindings, templates, strict=True)]
        )
        if clashes:
            raise AmbiguousEndpoints(clashes)
        for binding, template in zip(self.bindings, templates, strict=True):
            self._add(binding, template)

    def _add(self, binding: Binding, template: Template) -> None:
        if not template.parameters:
            key = binding.method, binding.path
            self._literals[key] = Match(binding=binding, path_parameters=_NO_PARAMETERS)
            self._methods.setdefault(binding.path, []).append(binding.method)
            return
        node = self._root
        positions: list[int] = []
        for index, segment in enumerate(template.segments):
            if segment is None:
                positions.append(index)
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        named = tuple(zip(positions, template.parameters, strict=True))
        node.ends[binding.method] = len(named), binding, named

    def match(self, method: str, path: str) -> Match | None:
        """
        Return the binding of ``method`` on ``path``: a literal one, otherwise the template with the fewest parameters.

        :param path: a path that follows the grammar, still percent-encoded.
        """
        found = self._literals.get((method, path))
        if found is not None:
            return found
        segments = path[1:].split("/")
        best = self._best_end(method, segments)
        if best is None:
            return None
        values = {
            name: decode(segments[index]) if "%" in segments[index] else segments[index] for index, name in best[2]
        }
        return Match(binding=best[1], path_parameters=values)

    def _best_end(
        self, method: str, segments: Sequence[str]
    ) -> tuple[int, Binding, tuple[tuple[int, str], ...]] | None:
        """Return the end of the template with the fewest parameters: their number, its binding, their places."""
        best: tuple[int, Binding, tuple[tuple[int, str], ...]] | None = None
        for node in self._matching_nodes(segments):
            end = node.ends.get(method)
            if end is not None and (best is None or end[0] < best[0]):
                best = end
        return best

    def methods_at(self, path: str) -> tuple[str, ...]:
        """Return the methods bound on ``path``, sorted; empty if the path is unknown."""
        found = set(self._methods.get(path, ()))
        for node in self._matching_nodes(path[1:].split("/")):
            found.update(node.ends)
        return tuple(sorted(found))

    def bindings_at(self, path: str) -> list[Binding]:
        """
        Return what is bound on ``path``, as :meth:`match` finds it; those of one template in registration order.

        :param path: any path; one whose values no call may have is bound like another.
        """
        segments = path[1:].split("/")
        methods = dict.fromkeys(self._methods.get(path, ()))
        for node in self._matching_nodes(segments):
            methods.update(dict.fromkeys(node.ends))
        found = []
        for method in methods:
            literal = self._literals.get((method, path))
            end = None if literal is not None else self._best_end(method, segments)
            if literal is not None:
                found.append(literal.binding)
            elif end is not None:
                found.append(end[1])
        return found

    def _matching_nodes(self, segments: Sequence[str]) -> list[_Node]:
        """Return the trie's nodes that all of ``segments`` lead to."""
        reached = [self._root]
        for segment in segments:
            further = []
            for node in reached:
                literal = node.literals.get(segment)
                if literal is not None:
                    further.append(literal)
                if node.parameter is not None and segment:
                    further.append(node.parameter)
            if not further:
                return further
            reached = further
        return reached


def conflicts(endpoints: Sequence[tuple[str, Template]]) -> list[EndpointConflict]:
    """
    Return the endpoints that clash with an earlier one.

    Two clash if they have the same method and path, or if one request matches both templates and neither has fewer
    parameters.

    :param endpoints: methods and templates, in registration order.
    :return: at most one conflict for each endpoint, in their order.
    """
    groups: dict[tuple[str, int, int], dict[tuple[int, ...], list[int]]] = {}
    for index, (method, template) in enumerate(endpoints):
        literal_at = tuple(at for at, segment in enumerate(template.segments) if segment is not None)
        group = groups.setdefault((method, len(template.segments), len(template.parameters)), {})
        group.setdefault(literal_at, []).append(index)
    found: dict[int, int] = {}
    for shapes in groups.values():
        for literal_at, members in shapes.items():
            _clashes(endpoints, literal_at, members, members, found)
        for one, other in combinations(shapes, 2):
            shared = tuple(at for at in one if at in other)
            # Compare both ways round, so that no clash is left without the endpoints found here.
            _clashes(endpoints, shared, shapes[one], shapes[other], found)
            _clashes(endpoints, shared, shapes[other], shapes[one], found)
    return [_conflict(endpoints, first, second) for second, first in sorted(found.items())]


def _clashes(
    endpoints: Sequence[tuple[str, Template]],
    positions: tuple[int, ...],
    ones: Sequence[int],
    others: Sequence[int],
    found: dict[int, int],
) -> None:
    """Note which of ``others`` equals one of ``ones`` at ``positions``, in one pass over each."""
    earliest: dict[tuple[str | None, ...], int] = {}
    for index in ones:
        earliest.setdefault(_at(endpoints[index][1], positions), index)
    for index in others:
        partner = earliest.get(_at(endpoints[index][1], positions), index)
        if partner != index:
            first, second = sorted((partner, index))
            found[second] = min(first, found.get(second, first))


def _at(template: Template, positions: tuple[int, ...]) -> tuple[str | None, ...]:
    return tuple(template.segments[position] for position in positions)


def _conflict(endpoints: Sequence[tuple[str, Template]], first: int, second: int) -> EndpointConflict:
    method, one = endpoints[first]
    _, other = endpoints[second]
    if one.path == other.path:
        explanation = f"{method} {other.path} is registered twice"
    else:
        explanation = f"{method} {other.path} and {method} {one.path} match the same requests"
    return EndpointConflict(first=first, second=second, explanation=explanation)
