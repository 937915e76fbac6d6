"""The patterns that this host would synthesize: DISCOVER /patterns (AGTP-API section 5.8.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from agtphost.contract.recipes.recipe import Recipe, RecipeEndpoint
from agtphost.vocabulary.paths import parse_template


def path_regex(path: str) -> str:
    """Return an anchored regular expression for the paths of a template."""
    parts = ("[^/]+" if literal is None else re.escape(literal) for literal in parse_template(path).segments)
    return f"^/{'/'.join(parts)}$"


def patterns_of(offered: Iterable[tuple[Recipe, RecipeEndpoint]]) -> list[dict[str, Any]]:
    """Return one entry for each recipe that answers an endpoint."""
    listed = []
    for recipe, endpoint in offered:
        where = {"path_regex": path_regex(endpoint.path)} if "{" in endpoint.path else {"path_exact": endpoint.path}
        listed.append(
            {
                "recipe_name": recipe.name,
                "recipe_version": recipe.version,
                "method": endpoint.method,
                **where,
                "description": endpoint.description,
                "required_scopes": list(recipe.required_scopes),
                "semantic": endpoint.semantic.document(),
            }
        )
    return listed
