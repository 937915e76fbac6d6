"""
The graph of the operator's endpoints: which of them, in which order, can answer a proposal.

One endpoint may suffice (under another method or path, or with other spellings of fields), or a pipeline in which one
answer feeds the next call. Only the last step of a pipeline may change anything, so a failure in between leaves nothing
behind. The search runs backward from the wanted output, shortest first, and its work is bounded for every proposal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.graph import SEVERITY
from agtphost.contract.semantic import Impact
from agtphost.negotiation.fields import Field, feeds, fields_of
from agtphost.negotiation.proposal import Proposal
from agtphost.vocabulary.paths import Template, parse_template

LONGEST = 4
"""Most steps of a pipeline that the search finds; the operator's recipes may have more."""

BUDGET = 2_000
"""Partial pipelines that are examined for one proposal."""

MOST_WAYS = 16
"""Equally short pipelines that are compared."""

NEAR = 0.5
"""Least similarity of two intents if the schemas match as well."""

SAME = 0.75
"""Least similarity if the proposal has no schemas or changes something: a desk is not a room."""

CLEAR = 0.85
"""A proposal is ambiguous if the second-best match reaches this share of the best."""

_WORD = re.compile(r"[a-z0-9]+", re.ASCII)
_EMPTY_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "by", "for", "from", "has", "in", "into", "is", "it", "its"}
    | {"of", "on", "or", "that", "the", "their", "to", "with"}
)

Usable = Callable[[Endpoint], bool]


def _words(*texts: str) -> frozenset[str]:
    found = (word for text in texts for word in _WORD.findall(text.lower()))
    # Plural and third person count as the same word.
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found) - _EMPTY_WORDS


def _path_words(template: Template) -> str:
    return " ".join(segment for segment in template.segments if segment)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChain:
    """Endpoints in the order of their calls, with the recipe that calls them."""

    endpoints: tuple[Endpoint, ...]
    table: Mapping[str, Any]
    """The recipe's table."""


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    endpoint: Endpoint
    template: Template
    inputs: Mapping[str, Field]
    outputs: Mapping[str, Field]
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Partial:
    """The last steps of a pipeline, with the fields that they still lack."""

    nodes: tuple[_Node, ...]
    lacking: Mapping[str, Any]
    """Schemas of the wanted fields, by plain name."""


class NoChain(Exception):
    """The graph has no answer; ``ambiguous`` holds the endpoints if several match equally well."""

    def __init__(self, explanation: str, ambiguous: Sequence[Endpoint] = ()) -> None:
        super().__init__(explanation)
        self.ambiguous = tuple(ambiguous)


class EndpointGraph:
    """
    The graph of the endpoints that synthesis may use.

    :param endpoints: the operator's endpoints.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._nodes = [_node(endpoint) for endpoint in endpoints]
        self._givers: dict[str, list[_Node]] = {}
        for node in self._nodes:
            for name in node.outputs:
                self._givers.setdefault(name, []).append(node)

    def similar(self, proposal: Proposal, usable: Usable) -> list[Endpoint]:
        """Return usable endpoints that have something in common with a proposal, most similar first."""
        wanted = _proposal_words(proposal)
        rated = [(_overlap(wanted, node.words), node.endpoint) for node in self._nodes]
        rated.sort(key=lambda entry: -entry[0])
        return [endpoint for score, endpoint in rated if score > 0 and usable(endpoint)]

    def find_chain(self, proposal: Proposal, usable: Usable, max_steps: int) -> EndpointChain:
        """
        Return the best way to answer a proposal.

        :param usable: returns whether the proposer could call an endpoint; these are tried first.
        :raises NoChain: there is none, or several match equally well.
        """
        allowed = [node for node in self._nodes if usable(node.endpoint)]
        for nodes in (allowed, self._nodes) if len(allowed) < len(self._nodes) else (allowed,):
            single = self._best([node for node in nodes if _passes(proposal, node)], proposal)
            if single is not None:
                return _recipe(proposal, (single,))
            found = self._pipeline(proposal, nodes, min(max_steps, LONGEST))
            if found is not None:
                return _recipe(proposal, found)
        raise NoChain("This host has no endpoint or chain of endpoints that returns what is proposed.")

    @staticmethod
    def _best(nodes: Sequence[_Node], proposal: Proposal) -> _Node | None:
        wanted = _proposal_words(proposal)
        rated = sorted(((_overlap(wanted, node.words), node) for node in nodes), key=lambda entry: -entry[0])
        rated = [(score, node) for score, node in rated if score >= _least(proposal, node)]
        if not rated:
            return None
        close = [node for score, node in rated if score > rated[0][0] * CLEAR]
        if len(close) > 1:
            raise NoChain("Several endpoints match the proposal equally well.", [node.endpoint for node in close])
        return rated[0][1]

    # Pipelines

    def _pipeline(self, proposal: Proposal, nodes: Sequence[_Node], longest: int) -> tuple[_Node, ...] | None:
        if not _has_schemas(proposal) or longest < 2:
            return None
        assert proposal.input_schema is not None and proposal.output_schema is not None
        given = fields_of(proposal.input_schema.schema)
        wants = fields_of(proposal.output_schema.schema)
        goal = {name: field.schema for name, field in wants.items() if field.required}
        if not goal:
            return None
        allowed = frozenset(nodes)
        ways = list(self._ways(_Partial((), goal), given, allowed, longest, proposal))
        wanted = _proposal_words(proposal)
        rated = sorted(
            ((_overlap(wanted, frozenset().union(*(n.words for n in way))), way) for way in ways),
            key=lambda entry: -entry[0],
        )
        rated = [(score, way) for score, way in rated if score >= _least(proposal, way[-1])]
        if not rated:
            return None
        if len(rated) > 1 and rated[1][0] > rated[0][0] * CLEAR:
            raise NoChain(
                "Several chains of endpoints match the proposal equally well.", [way[-1].endpoint for _, way in rated]
            )
        return rated[0][1]

    def _ways(
        self, start: _Partial, given: Mapping[str, Field], allowed: frozenset[_Node], longest: int, proposal: Proposal
    ) -> Iterator[tuple[_Node, ...]]:
        """Yield the complete pipelines of the smallest length."""
        level, looked = [start], 0
        for _ in range(longest):
            further: list[_Partial] = []
            complete: list[tuple[_Node, ...]] = []
            for partial in level:
                for node in self._candidates(partial, allowed, proposal):
                    looked += 1
                    if looked > BUDGET:
                        return
                    grown = _prepend(partial, node, given)
                    if grown.lacking:
                        further.append(grown)
                    elif len(grown.nodes) > 1 and _uses(grown.nodes, given):
                        complete.append(grown.nodes)
            if complete:
                distinct = {tuple(id(node) for node in nodes): nodes for nodes in complete}
                yield from list(distinct.values())[:MOST_WAYS]
                return
            level = further

    def _candidates(self, partial: _Partial, allowed: frozenset[_Node], proposal: Proposal) -> Iterator[_Node]:
        seen: set[int] = set()
        for name, schema in partial.lacking.items():
            for node in self._givers.get(name, ()):
                if id(node) in seen or node not in allowed or node in partial.nodes:
                    continue
                seen.add(id(node))
                output = node.outputs[name]
                if output.required and feeds(output.schema, schema) and _suits(node, proposal, last=not partial.nodes):
                    yield node


def _suits(node: _Node, proposal: Proposal, *, last: bool) -> bool:
    semantic = node.endpoint.semantic
    if not last:
        return semantic.impact is Impact.INFORMATIONAL
    return _no_graver(node.endpoint, proposal) and semantic.capability == proposal.semantic.capability


def _no_graver(endpoint: Endpoint, proposal: Proposal) -> bool:
    """Return whether an endpoint's impact is at most what the agent proposed."""
    semantic, wanted = endpoint.semantic, proposal.semantic
    if SEVERITY.index(semantic.impact) > SEVERITY.index(wanted.impact):
        return False
    return semantic.is_idempotent or not wanted.is_idempotent


def _prepend(partial: _Partial, node: _Node, given: Mapping[str, Field]) -> _Partial:
    """Return a partial pipeline with ``node`` before its steps."""
    lacking = {
        name: schema
        for name, schema in partial.lacking.items()
        if not (name in node.outputs and node.outputs[name].required and feeds(node.outputs[name].schema, schema))
    }
    for name, field in node.inputs.items():
        if field.required and not _is_fed(given, name, field):
            lacking[name] = field.schema
    return _Partial((node, *partial.nodes), lacking)


def _is_fed(given: Mapping[str, Field], name: str, field: Field) -> bool:
    offered = given.get(name)
    return offered is not None and (offered.required or not field.required) and feeds(offered.schema, field.schema)


def _uses(nodes: Iterable[_Node], given: Mapping[str, Field]) -> bool:
    """Return whether every field that the agent sends is used."""
    return all(any(_is_fed(given, name, node.inputs[name]) for node in nodes if name in node.inputs) for name in given)


def _passes(proposal: Proposal, node: _Node) -> bool:
    """Return whether one endpoint does what is proposed."""
    endpoint = node.endpoint
    if endpoint.semantic.capability != proposal.semantic.capability or not _no_graver(endpoint, proposal):
        return False
    if proposal.input_schema is None:
        # Without an input schema, only an endpoint with the same path or method can be meant.
        same = proposal.template.segments == node.template.segments or endpoint.method == proposal.method
        if not same or proposal.template.parameters != node.template.parameters:
            return False
    else:
        given = fields_of(proposal.input_schema.schema)
        if not all(_is_fed(given, name, field) for name, field in node.inputs.items() if field.required):
            return False
        if not all(
            name in node.inputs and feeds(field.schema, node.inputs[name].schema) for name, field in given.items()
        ):
            return False
    return proposal.output_schema is None or _answers(node.outputs, fields_of(proposal.output_schema.schema))


def _answers(outputs: Mapping[str, Field], wanted: Mapping[str, Field]) -> bool:
    for name, field in wanted.items():
        own = outputs.get(name)
        if own is None:
            if field.required:
                return False
        elif not feeds(own.schema, field.schema) or (field.required and not own.required):
            return False
    return True


def _least(proposal: Proposal, node: _Node) -> float:
    harmless = node.endpoint.semantic.impact is Impact.INFORMATIONAL
    return NEAR if harmless and _has_schemas(proposal) else SAME


def _has_schemas(proposal: Proposal) -> bool:
    return proposal.input_schema is not None and proposal.output_schema is not None


def _proposal_words(proposal: Proposal) -> frozenset[str]:
    return _words(proposal.semantic.intent, _path_words(proposal.template))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of the smaller set that is also in the other one."""
    return len(one & other) / (min(len(one), len(other)) or 1)


def _node(endpoint: Endpoint) -> _Node:
    template = parse_template(endpoint.path)
    return _Node(
        endpoint,
        template,
        fields_of(endpoint.input_schema.schema),
        fields_of(endpoint.output_schema.schema),
        _words(endpoint.semantic.intent, _path_words(template)),
    )


# The recipe of a way


def _member(root: str, name: str) -> str:
    """Return a JMESPath expression for one member with any name."""
    return f"={root}.{json.dumps(name)}"


def _recipe(proposal: Proposal, nodes: Sequence[_Node]) -> EndpointChain:
    known: dict[str, tuple[str, Any]] = {}
    sent = fields_of((proposal.input_schema or nodes[0].endpoint.input_schema).schema)
    for name, field in sent.items():
        known[name] = _member("input", field.name), field.schema
    steps = []
    for number, node in enumerate(nodes, 1):
        capture = f"s{number}"
        steps.append(_step(node, known, capture))
        for name, field in node.outputs.items():
            # The agent's own values are kept; a later answer replaces an earlier one.
            if name not in sent:
                known[name] = _member(capture, field.name), field.schema
    table: dict[str, Any] = {
        "name": "synthesized",
        "version": "1",
        "description": f"{proposal.method} {proposal.path}"[:256],
        "step": steps,
    }
    if proposal.output_schema is not None:
        last = nodes[-1]
        wanted = fields_of(proposal.output_schema.schema)
        table["output"] = {
            field.name: _member(f"s{len(nodes)}", last.outputs[name].name) if name in last.outputs else known[name][0]
            for name, field in wanted.items()
            if name in last.outputs or name in known
        }
    return EndpointChain(endpoints=tuple(node.endpoint for node in nodes), table=table)


def _step(node: _Node, known: Mapping[str, tuple[str, Any]], capture: str) -> dict[str, Any]:
    path_names = frozenset(node.template.parameters)
    parameters: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, field in node.inputs.items():
        if name in known and feeds(known[name][1], field.schema):
            (parameters if field.name in path_names else given)[field.name] = known[name][0]
    step: dict[str, Any] = {"method": node.endpoint.method, "path": node.endpoint.path, "capture": capture}
    if parameters:
        step["parameters"] = parameters
    if given:
        step["input"] = given
    return step
