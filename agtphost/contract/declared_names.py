"""
What the operator's files declare, right or wrong: names that the cure of a faulty one can propose.

Nothing is read before a fault asks for it, because a sound host of thousands of endpoints has no use for it.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agtphost.vocabulary import paths, tomltext
from agtphost.vocabulary.regular_files import read_octets
from agtphost.vocabulary.tomltext import Location, TomlError

_MOST_MODULES = 500
"""Python files that are searched for functions."""

_MOST_FILES = 1_000
"""Endpoint files that are read for names."""


@dataclass(frozen=True)
class DeclaredNames:
    """
    The names in the files of one host.

    :param endpoints: the directory of the endpoint files; None if there is none.
    :param recipes: the file of recipes; None if there is none.
    :param python_path: the directories that handler modules are imported from.
    :param folder: the host's own directory; None if it has none.
    """

    endpoints: Path | None = None
    recipes: Path | None = None
    python_path: tuple[Path, ...] = ()
    folder: Path | None = None

    @cached_property
    def functions(self) -> Sequence[str]:
        """Return the dotted paths of the functions of the operator's modules."""
        found: list[str] = []
        for folder in self.python_path:
            files = [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]
            for file in files[:_MOST_MODULES]:
                module = ".".join(file.relative_to(folder).with_suffix("").parts)
                found += [f"{module}.{name}" for name in _functions(file)]
        return list(dict.fromkeys(found))

    @cached_property
    def _endpoint_tables(self) -> Sequence[Mapping[str, Any]]:
        files = [] if self.endpoints is None else sorted(self.endpoints.glob("*.toml"))[:_MOST_FILES]
        found: list[Mapping[str, Any]] = []
        for file in files:
            tree = _read(file)
            found += [each for each in [tree, *_tables(tree.get("endpoint"))] if each]
        return found

    @cached_property
    def _recipe_tables(self) -> Sequence[Mapping[str, Any]]:
        return list(_tables(_read(self.recipes).get("recipe"))) if self.recipes is not None else []

    @cached_property
    def calls(self) -> Sequence[tuple[str, str]]:
        """Return method and path of each endpoint, if both are texts."""
        return [each for each in map(_call, self._endpoint_tables) if each is not None]

    @cached_property
    def step_calls(self) -> Sequence[tuple[str, str]]:
        """Return method and path of each step of a recipe, if both are texts."""
        steps = [
            inner
            for recipe in self._recipe_tables
            for step in _tables(recipe.get("step"))
            for inner in (step, *_tables(step.get("parallel")))
        ]
        return [each for each in map(_call, steps) if each is not None]

    @cached_property
    def recipe_names(self) -> Sequence[str]:
        """Return the names of the recipes."""
        return [each["name"] for each in self._recipe_tables if isinstance(each.get("name"), str) and each["name"]]

    @cached_property
    def wanted_recipes(self) -> Sequence[str]:
        """Return the names of recipes that endpoints have as handlers and no recipe has."""
        handlers = [each.get("handler") for each in self._endpoint_tables]
        named = [each.get("recipe") for each in handlers if isinstance(each, Mapping)]
        found = [each.partition("@")[0] for each in named if isinstance(each, str)]
        return [each for each in found if each and each not in self.recipe_names]

    def find_cure(self, at: Location, table: Mapping[str, Any], file: str) -> str:
        """
        Return what to write for a faulty member of an endpoint; empty if no name of the files fits.

        :param at: the place of the member in the endpoint's table.
        :param file: the endpoint's file.
        """
        handler = table.get("handler")
        given = handler.get(at[-1]) if at and isinstance(handler, Mapping) else None
        match at:
            case ("path",):
                found = self.find_path(table, file)
            case ("method",):
                found = self.find_method(table)
            case ("handler", "function"):
                return self.find_function_cure(given, table)
            case ("handler", "recipe"):
                found = self.find_recipe(given)
            case _:
                found = ""
        return f'write {at[-1]} = "{found}"' if found else ""

    def find_function(self, given: object, table: Mapping[str, Any]) -> str:
        """
        Return the function that was probably meant; empty if there is none.

        :param given: the faulty value.
        :param table: the endpoint, whose method and path may be like the function's name.
        """
        if isinstance(given, str) and (close := _closest(given, self.functions, 0.6)):
            return close
        if isinstance(given, str) and "." in given and not self._has_package(given):
            return ""  # The package is missing, and a function of another one is not what was meant.
        path, method = str(table.get("path", "")), str(table.get("method", ""))
        wanted = f"{path.strip('/').partition('/')[0]}.{method}".lower()
        return max(self.functions, key=lambda each: _likeness(".".join(each.split(".")[-2:]), wanted), default="")

    def _has_package(self, dotted: str) -> bool:
        """Return whether a function is known in the package of another."""
        package = dotted.partition(".")[0]
        return any(each.partition(".")[0] == package for each in self.functions)

    def find_function_cure(self, given: object, table: Mapping[str, Any]) -> str:
        """
        Return what to write for a function that does not exist; empty if nothing is like it.

        :param given: the faulty value.
        :param table: the endpoint.
        """
        added = self._find_python_path(given) if isinstance(given, str) else ""
        if added:
            listed = ", ".join(f'"{each}"' for each in (*map(self._relative, self.python_path), added))
            return f"write python_path = [{listed}] in [endpoints]"
        found = self.find_function(given, table)
        return f'write function = "{found}"' if found else ""

    def _find_python_path(self, dotted: str) -> str:
        """Return the directory, relative to the host's, below which the module of a function is; empty if none is."""
        parts = dotted.split(".")[:-1]
        if self.folder is None or not parts or not all(map(str.isidentifier, parts)):
            return ""
        for place in (self.folder, *(each for each in sorted(self.folder.iterdir()) if each.is_dir())):
            module = place.joinpath(*parts)
            # os.path answers no where this user may not look; pathlib raises.
            found = os.path.isfile(module.with_suffix(".py")) or os.path.isdir(module)
            if found and place not in self.python_path:
                return self._relative(place)
        return ""

    def _relative(self, place: Path) -> str:
        inside = self.folder is not None and place.is_relative_to(self.folder)
        return str(place.relative_to(self.folder)) if inside and self.folder is not None else str(place)

    def find_recipe(self, given: object) -> str:
        """Return the recipe that was probably meant; empty if there is none."""
        return _closest(str(given), self.recipe_names) if self.recipe_names else ""

    def find_path(self, table: Mapping[str, Any], file: str) -> str:
        """
        Return a path for an endpoint whose own is faulty: one that recipes call, or one like the file's name.

        :param table: the endpoint.
        """
        method, schema = table.get("method"), table.get("input_schema")
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for name, path in self.step_calls:
            parameters = _parameters(path)
            known = isinstance(properties, Mapping) and set(parameters) <= set(properties)
            if name == method and known and (name, path) not in self.calls:
                return path
        stem = Path(file).stem.lower().replace("_", "-")
        for path in (f"/{stem}", f"/{stem}/item"):
            free = not any(path == other for _, other in self.calls)
            if stem and free and not any(paths.template_faults(path)):
                return path
        return ""

    def find_method(self, table: Mapping[str, Any]) -> str:
        """Return the method by which recipes call the path of an endpoint whose own method is faulty."""
        path = table.get("path")
        return next((name for name, other in self.step_calls if other == path and (name, other) not in self.calls), "")

    def find_called_path(self, step: Mapping[str, Any]) -> str:
        """Return the path of an endpoint that a recipe's step with a faulty path can call; empty if there is none."""
        method, given, own = step.get("method"), step.get("parameters"), str(step.get("path"))
        names = set(given) if isinstance(given, Mapping) else set()
        same = [path for name, path in self.calls if name == method]
        fitting = [path for path in same if set(_parameters(path)) == names] or [
            path for _, path in self.calls if set(_parameters(path)) == names
        ]
        return _closest(own, fitting or same)


def _functions(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(read_octets(file))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for each in tree.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not each.name.startswith("_"):
            yield each.name


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomltext.read(file).tree
    except TomlError:
        return {}


def _tables(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()


def _call(table: Mapping[str, Any]) -> tuple[str, str] | None:
    method, path = table.get("method"), table.get("path")
    return (method, path) if isinstance(method, str) and isinstance(path, str) else None


def _parameters(path: str) -> Sequence[str]:
    return () if any(paths.template_faults(path)) else paths.parse_template(path).parameters


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _closest(given: str, known: Iterable[str], least: float = 0.0) -> str:
    """Return the name that is most like the given one; empty if none is enough like it."""
    found = max(known, key=lambda each: _likeness(given, each), default="")
    return found if found and _likeness(given, found) >= least else ""


NO_NAMES = DeclaredNames()
"""Of declarations that belong to no host."""
