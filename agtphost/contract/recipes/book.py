"""The recipes of a host, for all readers but the composition handler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agtphost.contract.recipes.graph import Needs, RecipeGraph
from agtphost.contract.recipes.recipe import Recipe


class RecipeBook:
    """
    All registered recipes.

    :param recipes: recipes without faults, in the order of their file.
    :param graph: graph of these recipes and the host's endpoints.
    """

    def __init__(self, recipes: Sequence[Recipe], graph: RecipeGraph) -> None:
        self._graph = graph
        self._recipes = tuple(
            replace(recipe, required_scopes=graph.needs(recipe).required_scopes) for recipe in recipes
        )
        self._versions = {recipe.identifier: recipe for recipe in self._recipes}
        self._named = {recipe.name: recipe for recipe in self._recipes}

    def all(self) -> Sequence[Recipe]:
        """Return every version of every recipe, with the scopes it requires."""
        return self._recipes

    def current(self) -> Sequence[Recipe]:
        """Return the current version of every recipe, by name; a new contract captures these."""
        return [self._named[name] for name in sorted(self._named)]

    def find(self, reference: str) -> Recipe | None:
        """Return the recipe of ``name`` (its current version) or ``name@version``; None if there is none."""
        return self._versions.get(reference) if "@" in reference else self._named.get(reference)

    def needs(self, recipe: Recipe) -> Needs:
        """Return what a caller needs for all of a recipe's steps, also for a recipe made at run time."""
        return self._graph.needs(recipe)

    def definition(self, recipe: Recipe) -> str:
        """Return the SHA-256, in hex, of a recipe with all that it leads to, also for one made at run time."""
        return self._graph.definition(recipe)


EMPTY = RecipeBook((), RecipeGraph((), ()))
"""The book of a host without recipes."""
