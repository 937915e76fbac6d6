"""The selection of recipes and endpoints that remain callable in every step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import AbsentRecipe, AbsentTarget, find_line
from agtphost.contract.recipes.book import EMPTY, RecipeBook
from agtphost.contract.recipes.graph import SEVERITY, RecipeGraph
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.recipes.recipe_loading import RecipeRules, read_recipes
from agtphost.contract.reserved import LIFECYCLE
from agtphost.errors import Problem
from agtphost.vocabulary.tomltext import Location

NEVER = (*LIFECYCLE, "PROPOSE", "DELEGATE", "SUSPEND")
"""Methods that no recipe may call: a caller must not change an agent's or session's state unknowingly."""


def read(file: Path | None, rules: Rules, problems: list[Problem]) -> list[Recipe]:
    """
    Return the recipes of ``[recipes] file``.

    :param problems: list for faults.
    """
    if file is None:
        return []
    recipes, wrong = read_recipes(
        file, str(file), RecipeRules(catalog=rules.catalog, custom=rules.custom, never=NEVER, names=rules.names)
    )
    problems.extend(wrong)
    return recipes


def settle(
    recipes: Sequence[Recipe],
    endpoints: Sequence[Endpoint],
    reserved: Iterable[tuple[str, str]],
    problems: list[Problem],
) -> tuple[RecipeBook, list[Endpoint]]:
    """
    Leave out recipes and compositions that cannot work, until all the others can.

    A composition's required scopes become the union of its own and its steps', and its assurance the highest of them
    (AGTP-API section 12.1). If one of them needs an approval, the composition needs it as a whole.

    :param problems: list for the reasons of what is left out.
    :return: the recipes, and all endpoints.
    """
    kept, sound, own = list(recipes), list(endpoints), list(reserved)
    while True:
        graph = RecipeGraph(kept, sound, own)
        wrong = list(graph.faults())
        problems.extend(
            (AbsentTarget if fault.absent else Problem)(
                message=f"recipe {fault.recipe.name}: {fault.message}",
                file=fault.recipe.file,
                line=fault.line,
                hint=fault.hint,
            )
            for fault in wrong
        )
        faulty = {fault.recipe.identifier for fault in wrong}
        kept = [recipe for recipe in kept if recipe.identifier not in faulty]
        # The graph is only right about the others after the faulty ones are removed.
        refused = [] if wrong else list(_invalid_endpoints(sound, graph))
        if not wrong:
            lost = {endpoint.name for endpoint, _ in refused}
            problems.extend(problem for _, problem in refused)
            sound = [endpoint for endpoint in sound if endpoint.name not in lost]
        if not wrong and not refused:
            break
    effective = [_effective(endpoint, graph) for endpoint in sound]
    settled = RecipeGraph(kept, effective, own)
    effective = [
        replace(endpoint, definition=settled.definition_of(endpoint)) if endpoint.approval else endpoint
        for endpoint in effective
    ]
    return (RecipeBook(kept, RecipeGraph(kept, effective, own)) if kept else EMPTY), effective


def _invalid_endpoints(endpoints: Iterable[Endpoint], graph: RecipeGraph) -> Iterator[tuple[Endpoint, Problem]]:
    for endpoint in endpoints:
        said = _fault(endpoint, graph)
        if said is not None:
            message, hint, key = said
            kind = Problem if graph.find(endpoint.handler.recipe) else AbsentRecipe
            line = find_line(endpoint, key)
            yield endpoint, kind(message=f"{endpoint.name}: {message}", file=endpoint.file, line=line, hint=hint)


def _fault(endpoint: Endpoint, graph: RecipeGraph) -> tuple[str, str, Location] | None:
    """
    Return why a composition cannot be registered, with a hint and the key: its declared impact and idempotency must be
    true for its steps.
    """
    reference = endpoint.handler.recipe
    if not reference:
        return None
    recipe = graph.find(reference)
    if recipe is None:
        close = difflib.get_close_matches(reference, graph.names, 1)
        listed = f'write recipe = "{graph.names[0]}", one of: {", ".join(graph.names[:8])}' if graph.names else ""
        hint = f'did you mean "{close[0]}"?' if close else listed or 'write file = "recipes.toml" in [recipes]'
        return f"its recipe {reference} is not registered", hint, ("handler", "recipe")
    needs, semantic = graph.needs(recipe), endpoint.semantic
    if SEVERITY.index(needs.impact) > SEVERITY.index(semantic.impact):
        impact = needs.impact.value
        message = f"its impact is {semantic.impact.value}, but a step of {reference} is {impact}"
        return message, f'write impact = "{impact}"', ("semantic", "impact")
    if semantic.is_idempotent and not needs.idempotent:
        message = f"it is declared idempotent, but a step of {reference} is not"
        return message, "write is_idempotent = false", ("semantic", "is_idempotent")
    return None


def _effective(endpoint: Endpoint, graph: RecipeGraph) -> Endpoint:
    recipe = graph.find(endpoint.handler.recipe) if endpoint.handler.recipe else None
    if recipe is None:
        return endpoint
    needs = graph.needs(recipe)
    return replace(
        endpoint,
        required_scopes=tuple(dict.fromkeys((*endpoint.required_scopes, *needs.required_scopes))),
        min_assurance=max(endpoint.min_assurance, needs.min_assurance),
        approval=endpoint.approval or needs.approval,
    )
