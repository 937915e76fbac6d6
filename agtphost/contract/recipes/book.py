"""The recipes of a host, as everybody but the composition handler looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agtphost.contract.recipes.graph import Needs, RecipeGraph
from agtphost.contract.recipes.recipe import Recipe


class RecipeBook:
    """
    Every registered recipe.

    :param recipes: without faults, in the order of their file.
    :param graph: of these recipes and the host's endpoints.
    """

    def __init__(self, recipes: Sequence[Recipe], graph: RecipeGraph) -> None:
        self._graph = graph
        self._recipes = tuple(
            replace(recipe, required_scopes=graph.needs(recipe).required_scopes) for recipe in recipes
        )
        self._versions = {recipe.identifier: recipe for recipe in self._recipes}
        self._named = {recipe.name: recipe for recipe in self._recipes}

    def all(self) -> Sequence[Recipe]:
        """Every version of every recipe, with the scopes it requires."""
        return self._recipes

    def current(self) -> Sequence[Recipe]:
        """The current version of every recipe, by name: what a new contract captures."""
        return [self._named[name] for name in sorted(self._named)]

    def find(self, reference: str) -> Recipe | None:
        """The recipe of ``name``, its current version, or of ``name@version``."""
        return self._versions.get(reference) if "@" in reference else self._named.get(reference)

    def needs(self, recipe: Recipe) -> Needs:
        """What a caller needs for all of a recipe's steps; also for a recipe made at run time."""
        return self._graph.needs(recipe)

    def definition(self, recipe: Recipe) -> str:
        """SHA-256, hex, of a recipe with all that it leads to; also of one made at run time."""
        return self._graph.definition(recipe)


EMPTY = RecipeBook((), RecipeGraph((), ()))
"""Of a host without recipes."""
