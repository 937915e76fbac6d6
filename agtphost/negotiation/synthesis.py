"""
What can answer a proposed endpoint: the operator's recipes, then the endpoints (AGTP-API sections 10.5 to 10.7).

Whatever is found is a recipe in the end: one that the operator wrote, or one
made of the operator's endpoints. It runs as every composition does, each step
through the dispatcher as the caller, so a synthesized endpoint can do nothing
that its caller could not do step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.graph import SEVERITY, Needs
from agtphost.contract.recipes.loading import RecipeRules, read_recipe
from agtphost.contract.recipes.recipe import COMPOSITION_FAILED, Recipe, RecipeEndpoint
from agtphost.contract.schemas import CompiledSchema
from agtphost.identity.peer import Assurance
from agtphost.negotiation.fields import Field, feeds
from agtphost.negotiation.graph import EndpointGraph, Way
from agtphost.negotiation.proposal import Proposal

MOST_SUGGESTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """An endpoint that does not exist yet, and what would answer it."""

    definition: Mapping[str, Any]
    """The complete AGTP-API endpoint definition."""

    recipe: Mapping[str, Any]
    """The recipe's table as it is now: what a contract captures."""

    lineage: Mapping[str, str] | None
    """``recipe_name`` and ``recipe_version``; None where no recipe of the operator's is behind it."""

    needs: Needs
    steps: int

    @property
    def method(self) -> str:
        return str(self.definition["method"])

    @property
    def path(self) -> str:
        return str(self.definition["path"])


class Impossible(Exception):
    """
    Nothing here can answer a proposal; the message says why.

    :param counter: an endpoint definition that the host would accept, if there is one.
    :param needs: what the steps of the counter-proposal need.
    """

    def __init__(self, explanation: str, *, counter: Any = None, needs: Needs | None = None) -> None:
        super().__init__(explanation)
        self.counter = counter
        self.needs = needs


class Synthesizer:
    """
    Finds what answers a method and path.

    :param book: the operator's recipes.
    :param graph: the operator's endpoints.
    :param rules: what a captured recipe is read by.
    :param max_depth: steps of one synthesized endpoint.
    :param floor: how surely the caller of what the gate delivers must be known at least.
    """

    def __init__(
        self,
        book: RecipeBook,
        graph: EndpointGraph,
        rules: RecipeRules,
        *,
        max_depth: int,
        floor: Assurance,
    ) -> None:
        self.book = book
        self._graph = graph
        self._rules = rules
        self._max_depth = max_depth
        self._floor = floor

    # Recipes

    def offered(self) -> Iterator[tuple[Recipe, RecipeEndpoint]]:
        """Current recipes that answer an endpoint which agents may ask for."""
        for recipe in self.book.current():
            if recipe.endpoint is not None:
                yield recipe, recipe.endpoint

    def for_request(self, matches: Callable[[str, str], bool]) -> Synthesis | None:
        """
        The synthesis for a request that nothing is registered for.

        :param matches: whether an endpoint of that method and path template would take the request.
        :raises Impossible: where the recipe has more steps than this host allows.
        """
        found = [pair for pair in self.offered() if matches(pair[1].method, pair[1].path)]
        if not found:
            return None
        literal = [pair for pair in found if "{" not in pair[1].path] or found
        return self._of_recipe(*literal[0], self._floor)

    def for_proposal(self, proposal: Proposal, usable: Callable[[Endpoint], bool], floor: Assurance) -> Synthesis:
        """
        The synthesis for a proposal.

        :param usable: whether the proposer could call an endpoint; those it could are preferred.
        :param floor: how surely the endpoint's caller must be known at least.
        :raises Impossible: where there is none.
        """
        for recipe, endpoint in self.offered():
            if (endpoint.method, endpoint.path) == (proposal.method, proposal.path):
                self._require_fit(proposal, endpoint, self._needs(recipe, floor))
                return self._of_recipe(recipe, endpoint, floor)
        way = self._graph.way(proposal, usable, self._max_depth)
        return self._of_way(proposal, way, floor)

    def similar(self, proposal: Proposal, usable: Callable[[Endpoint], bool]) -> list[dict[str, Any]]:
        """Endpoints that the proposer could call and that come near, nearest first."""
        near = self._graph.similar(proposal, usable)[:MOST_SUGGESTIONS]
        return [{"method": e.method, "path": e.path, "description": e.description, "tier": "B"} for e in near]

    def restored(self, table: Mapping[str, Any]) -> Recipe:
        """
        The recipe that a contract captured.

        :raises ValueError: where this host no longer runs it; the message says why.
        """
        faults: list[str] = []
        recipe = read_recipe(table, self._rules, lambda at, message, hint: faults.append(message))
        if recipe is None or faults:
            raise ValueError("; ".join(faults[:3]) or "it is no recipe")
        return recipe

    def _needs(self, recipe: Recipe, floor: Assurance) -> Needs:
        return self.book.needs(recipe).with_(Needs(min_assurance=floor))

    def _of_recipe(self, recipe: Recipe, endpoint: RecipeEndpoint, floor: Assurance) -> Synthesis:
        self._require_depth(len(recipe.steps))
        needs = self._needs(recipe, floor)
        return Synthesis(
            definition=_definition(endpoint, needs),
            recipe=_stored(recipe.source),
            lineage={"recipe_name": recipe.name, "recipe_version": recipe.version},
            needs=needs,
            steps=len(recipe.steps),
        )

    def _require_depth(self, steps: int) -> None:
        if steps > self._max_depth:
            raise Impossible(f"What would answer it has {steps} steps; this host allows {self._max_depth}.")

    def _require_fit(self, proposal: Proposal, endpoint: RecipeEndpoint, needs: Needs) -> None:
        """The recipe must take what the agent wants to send, give what it wants to get, and do no more than it says."""
        counter = _definition(endpoint, needs)
        if SEVERITY.index(needs.impact) > SEVERITY.index(proposal.semantic.impact):
            raise Impossible(f"What answers that endpoint here is {needs.impact.value}.", counter=counter, needs=needs)
        if proposal.input_schema is not None and not _takes(endpoint.input_schema, proposal.input_schema):
            raise Impossible("The endpoint's input is another one here.", counter=counter, needs=needs)
        if proposal.output_schema is not None and not _gives(endpoint.output_schema, proposal.output_schema):
            raise Impossible("The endpoint's output is another one here.", counter=counter, needs=needs)

    # Endpoints

    def _of_way(self, proposal: Proposal, way: Way, floor: Assurance) -> Synthesis:
        needs = Needs(min_assurance=floor)
        for endpoint in way.endpoints:
            needs = needs.with_(
                Needs(
                    data_classes=frozenset(endpoint.data_classes),
                    unclassified=not endpoint.data_classes,
                    required_scopes=endpoint.required_scopes,
                    min_assurance=endpoint.min_assurance,
                    impact=endpoint.semantic.impact,
                    idempotent=endpoint.semantic.is_idempotent,
                )
            )
        proposed = RecipeEndpoint(
            method=proposal.method,
            path=proposal.path,
            description=proposal.description,
            semantic=proposal.semantic,
            input_schema=proposal.input_schema or way.endpoints[0].input_schema,
            output_schema=proposal.output_schema or way.endpoints[-1].output_schema,
            errors=tuple(dict.fromkeys((*proposal.errors, COMPOSITION_FAILED))),
        )
        return Synthesis(
            definition=_definition(proposed, needs),
            recipe=way.table,
            lineage=None,
            needs=needs,
            steps=len(way.endpoints),
        )


def _definition(endpoint: RecipeEndpoint, needs: Needs) -> dict[str, Any]:
    """The complete AGTP-API definition of an endpoint that a composition answers."""
    return {
        "method": endpoint.method,
        "path": endpoint.path,
        "description": endpoint.description,
        "tier": "C",
        "semantic": {
            **endpoint.semantic.document(),
            # What is true of the steps, not what was claimed for them.
            "impact": needs.impact.value,
            "is_idempotent": needs.idempotent,
        },
        "input_schema": dict(endpoint.input_schema.schema),
        "output_schema": dict(endpoint.output_schema.schema),
        "errors": list(endpoint.errors),
        "handler": {"type": "composition"},
        "required_scopes": list(needs.required_scopes),
        "min_assurance": needs.min_assurance.label,
        "proposed": True,
    }


def _stored(table: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's table without the endpoint it offers: the contract has its own definition."""
    return {name: value for name, value in table.items() if name != "endpoint"}


def _properties(schema: CompiledSchema) -> dict[str, Field]:
    properties = schema.schema.get("properties")
    required = schema.schema.get("required")
    wanted = required if isinstance(required, list) else []
    listed = properties.items() if isinstance(properties, Mapping) else ()
    return {name: Field(name=name, schema=inner, required=name in wanted) for name, inner in listed}


def _takes(own: CompiledSchema, proposed: CompiledSchema) -> bool:
    """Whether an endpoint of the schema ``own`` takes what follows ``proposed``."""
    mine, theirs = _properties(own), _properties(proposed)
    if not all(name in mine and feeds(field.schema, mine[name].schema) for name, field in theirs.items()):
        return False
    return all(name in theirs and theirs[name].required for name, field in mine.items() if field.required)


def _gives(own: CompiledSchema, proposed: CompiledSchema) -> bool:
    """Whether it gives what ``proposed`` wants."""
    mine, theirs = _properties(own), _properties(proposed)
    for name, field in theirs.items():
        known = mine.get(name)
        if known is None:
            if field.required:
                return False
        elif not feeds(known.schema, field.schema) or (field.required and not known.required):
            return False
    return True
