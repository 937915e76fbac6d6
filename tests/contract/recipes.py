"""Endpoints and recipes in few lines, for tests of what recipes lead to."""

from __future__ import annotations

from collections.abc import Sequence

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.recipes.recipe_loading import RecipeRules, read_recipes
from agtphost.contract.recipes.selection import NEVER
from agtphost.contract.reserved import RESERVED
from agtphost.errors import Problem
from agtphost.vocabulary.catalog import Catalog

CATALOG = Catalog.load()
RULES = RecipeRules(catalog=CATALOG, never=NEVER)


def endpoint(
    name: str,
    *,
    scopes: Sequence[str] = (),
    recipe: str = "",
    impact: str = "informational",
    idempotent: bool = True,
    errors: Sequence[str] = ("composition_failed",),
    assurance: str = "header",
) -> Endpoint:
    """One endpoint; without a recipe it is a function."""
    method, _, path = name.partition(" ")
    parameters = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    handler = 'type = "registered_function"\nfunction = "a.b"'
    if recipe:
        handler = f'type = "composition"\nrecipe = "{recipe}"'
    properties = "".join(f"{name} = {{ type = 'string' }}\n" for name in parameters)
    text = f"""
method = "{method}"
path = "{path}"
description = "For a test."
errors = {list(errors)}
required_scopes = {list(scopes)}
min_assurance = "{assurance}"
[handler]
{handler}
[semantic]
intent = "Test."
actor = "agent"
outcome = "Tested."
capability = "discovery"
confidence = 1.0
impact = "{impact}"
is_idempotent = {str(idempotent).lower()}
[input_schema]
type = "object"
additionalProperties = false
[input_schema.properties]
{properties}
[output_schema]
type = "object"
"""
    endpoints, problems = read_endpoints(text, "endpoints.toml", Rules(catalog=CATALOG, reserved=RESERVED))
    assert problems == [], problems
    return endpoints[0]


def recipe_text(name: str, *steps: str, version: str = "1", more: str = "") -> str:
    """A recipe of steps written ``METHOD /path`` or with further TOML after a line break."""
    lines = [f'[[recipe]]\nname = "{name}"\nversion = "{version}"\ndescription = "For a test."\n{more}']
    for step in steps:
        line, _, rest = step.partition("\n")
        method, _, path = line.partition(" ")
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        values = ", ".join(f'{one} = "=input.{one}"' for one in names)
        parameters = f"parameters = {{ {values} }}" if names else ""
        lines.append(f'[[recipe.step]]\nmethod = "{method}"\npath = "{path}"\n{parameters}\n{rest}')
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[list[Recipe], list[Problem]]:
    """Recipes and problems of a document."""
    return read_recipes(text, "recipes.toml", RULES)


def sound(*texts: str) -> list[Recipe]:
    """The recipes of documents without problems."""
    recipes, problems = read("\n".join(texts))
    assert problems == [], problems
    return recipes
