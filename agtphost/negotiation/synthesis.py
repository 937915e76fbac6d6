"""
Synthesis of an answer to a proposed endpoint: the operator's recipes, then the endpoints (AGTP-API sections 10.5 to
10.7).

The result is always a recipe: one that the operator wrote, or one made of the operator's endpoints. It runs like every
composition, each step through the dispatcher as the caller. So a synthesized endpoint can do nothing that its caller
could not do step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.graph import SEVERITY, Needs
from agtphost.contract.recipes.recipe import COMPOSITION_FAILED, Recipe, RecipeEndpoint
from agtphost.contract.recipes.recipe_loading import RecipeRules, read_recipe
from agtphost.contract.schemas import CompiledSchema
from agtphost.identity.peer import Assurance
from agtphost.negotiation.fields import Field, feeds
from agtphost.negotiation.graph import EndpointChain, EndpointGraph
from agtphost.negotiation.proposal import Proposal

MOST_SUGGESTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """An endpoint that does not exist yet, with the recipe that would answer it."""

    definition: Mapping[str, Any]
    """The complete AGTP-API endpoint definition."""

    recipe: Mapping[str, Any]
    """The recipe's table at this moment, which a contract captures."""

    lineage: Mapping[str, str] | None
    """``recipe_name`` and ``recipe_version``; None if it is not a recipe of the operator."""

    needs: Needs
    steps: int

    @property
    def method(self) -> str:
        return str(self.definition["method"])

    @property
    def path(self) -> str:
        return str(self.definition["path"])


class CannotSynthesize(Exception):
    """
    Raised if this host cannot answer a proposal; the message says why.

    :param counter: an endpoint definition that the host would accept, if there is one.
    :param needs: the needs of the counter-proposal's steps.
    """

    def __init__(self, explanation: str, *, counter: Any = None, needs: Needs | None = None) -> None:
        super().__init__(explanation)
        self.counter = counter
        self.needs = needs


class Synthesizer:
    """
    Finder of what can answer a method and path.

    :param book: the operator's recipes.
    :param graph: the operator's endpoints.
    :param rules: the rules that a captured recipe is checked by.
    :param max_depth: most steps of one synthesized endpoint.
    :param floor: lowest assurance of a caller of an endpoint from the gate.
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

    def offered_recipes(self) -> Iterator[tuple[Recipe, RecipeEndpoint]]:
        """Yield the current recipes with an endpoint that agents may ask for."""
        for recipe in self.book.current():
            if recipe.endpoint is not None:
                yield recipe, recipe.endpoint

    def for_request(self, matches: Callable[[str, str], bool]) -> Synthesis | None:
        """
        Return the synthesis for an unregistered request; None if there is none.

        :param matches: returns whether an endpoint of a method and path template would take the request.
        :raises CannotSynthesize: the recipe has more steps than this host allows.
        """
        found = [pair for pair in self.offered_recipes() if matches(pair[1].method, pair[1].path)]
        if not found:
            return None
        literal = [pair for pair in found if "{" not in pair[1].path] or found
        return self._of_recipe(*literal[0], self._floor)

    def for_proposal(self, proposal: Proposal, usable: Callable[[Endpoint], bool], floor: Assurance) -> Synthesis:
        """
        Return the synthesis for a proposal.

        :param usable: returns whether the proposer could call an endpoint; these are preferred.
        :param floor: lowest assurance of the endpoint's caller.
        :raises CannotSynthesize: there is none.
        """
        for recipe, endpoint in self.offered_recipes():
            if (endpoint.method, endpoint.path) == (proposal.method, proposal.path):
                self._require_fit(proposal, endpoint, self._needs(recipe, floor))
                return self._of_recipe(recipe, endpoint, floor)
        way = self._graph.find_chain(proposal, usable, self._max_depth)
        return self._of_way(proposal, way, floor)

    def similar(self, proposal: Proposal, usable: Callable[[Endpoint], bool]) -> list[dict[str, Any]]:
        """Return similar endpoints that the proposer could call, most similar first."""
        near = self._graph.similar(proposal, usable)[:MOST_SUGGESTIONS]
        return [{"method": e.method, "path": e.path, "description": e.description, "tier": "B"} for e in near]

    def restore_recipe(self, table: Mapping[str, Any]) -> Recipe:
        """
        Return the recipe that a contract captured.

        :raises ValueError: this host can no longer run it; the message says why.
        """
        faults: list[str] = []
        recipe = read_recipe(table, self._rules, lambda at, message, *_: faults.append(message))
        if recipe is None or faults:
            raise ValueError("; ".join(faults[:3]) or "it is not a recipe")
        return recipe

    def _needs(self, recipe: Recipe, floor: Assurance) -> Needs:
        return self.book.needs(recipe).combine(Needs(min_assurance=floor))

    def _of_recipe(self, recipe: Recipe, endpoint: RecipeEndpoint, floor: Assurance) -> Synthesis:
        self._require_depth(len(recipe.steps))
        needs = self._needs(recipe, floor)
        return Synthesis(
            definition=_definition(endpoint, needs),
            recipe=_captured_table(recipe.source),
            lineage={"recipe_name": recipe.name, "recipe_version": recipe.version},
            needs=needs,
            steps=len(recipe.steps),
        )

    def _require_depth(self, steps: int) -> None:
        if steps > self._max_depth:
            raise CannotSynthesize(
                f"The recipe that would answer it has {steps} steps; this host allows {self._max_depth}."
            )

    def _require_fit(self, proposal: Proposal, endpoint: RecipeEndpoint, needs: Needs) -> None:
        """
        Require that a recipe accepts the proposed input, returns the proposed output, and has at most the proposed
        impact.
        """
        counter = _definition(endpoint, needs)
        if SEVERITY.index(needs.impact) > SEVERITY.index(proposal.semantic.impact):
            raise CannotSynthesize(
                f"On this host, that endpoint has the impact {needs.impact.value}.", counter=counter, needs=needs
            )
        if proposal.input_schema is not None and not _takes(endpoint.input_schema, proposal.input_schema):
            raise CannotSynthesize("On this host, that endpoint has another input.", counter=counter, needs=needs)
        if proposal.output_schema is not None and not _gives(endpoint.output_schema, proposal.output_schema):
            raise CannotSynthesize("On this host, that endpoint has another output.", counter=counter, needs=needs)

    # Endpoints

    def _of_way(self, proposal: Proposal, way: EndpointChain, floor: Assurance) -> Synthesis:
        needs = Needs(min_assurance=floor)
        for endpoint in way.endpoints:
            needs = needs.combine(
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
    """Return the complete AGTP-API definition of an endpoint that a composition answers."""
    return {
        "method": endpoint.method,
        "path": endpoint.path,
        "description": endpoint.description,
        "tier": "C",
        "semantic": {
            **endpoint.semantic.document(),
            # Use the steps' real values instead of the proposed ones.
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


def _captured_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's table without its endpoint: the contract has its own definition."""
    return {name: value for name, value in table.items() if name != "endpoint"}


def _properties(schema: CompiledSchema) -> dict[str, Field]:
    properties = schema.schema.get("properties")
    required = schema.schema.get("required")
    wanted = required if isinstance(required, list) else []
    listed = properties.items() if isinstance(properties, Mapping) else ()
    return {name: Field(name=name, schema=inner, required=name in wanted) for name, inner in listed}


def _takes(own: CompiledSchema, proposed: CompiledSchema) -> bool:
    """Return whether an endpoint of the schema ``own`` accepts what matches ``proposed``."""
    mine, theirs = _properties(own), _properties(proposed)
    if not all(name in mine and feeds(field.schema, mine[name].schema) for name, field in theirs.items()):
        return False
    return all(name in theirs and theirs[name].required for name, field in mine.items() if field.required)


def _gives(own: CompiledSchema, proposed: CompiledSchema) -> bool:
    """Return whether an endpoint of the schema ``own`` returns what ``proposed`` requires."""
    mine, theirs = _properties(own), _properties(proposed)
    for name, field in theirs.items():
        known = mine.get(name)
        if known is None:
            if field.required:
                return False
        elif not feeds(known.schema, field.schema) or (field.required and not known.required):
            return False
    return True
