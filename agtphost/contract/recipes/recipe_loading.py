"""
Loading of recipes from one TOML file: it returns the sound recipes and every problem with file and line.

::

    [[recipe]]
    name = "trip"
    version = "2"
    description = "Looks a book up and books a room to read it in."
    output = { title = "=book.title", reservation = "=stay.reservation_id" }

    [[recipe.step]]
    method = "QUERY"
    path = "/library/{isbn}"
    parameters = { isbn = "=input.isbn" }
    capture = "book"

    [[recipe.step]]
    method = "BOOK"
    path = "/room"
    input = { room = "library", arrival = "=input.arrival", departure = "=input.departure" }
    capture = "stay"
    timeout = 10

A step may also have ``when``, a condition without which it is left
out, ``retries``, for idempotent targets, and ``on_error = "continue"``. A
step that has ``[[recipe.step.parallel]]`` tables instead runs all of them at
the same time. ``[recipe.endpoint]`` declares the endpoint that the recipe
answers when an agent proposes it. Expressions are those of
:mod:`agtphost.contract.recipes.expression`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agtphost.contract.declared_names import NO_NAMES, DeclaredNames
from agtphost.contract.examples import RECIPE, example, keyword_example, meant_members, suggest_methods
from agtphost.contract.metaschema import all_faults
from agtphost.contract.method_parameters import hint, parameter_faults
from agtphost.contract.recipes import capture_names
from agtphost.contract.recipes.expression import INPUT, Expression, ExpressionError, ValueMapping
from agtphost.contract.recipes.recipe import (
    COMPOSITION_FAILED,
    MAX_RETRIES,
    MAX_STEPS,
    Recipe,
    RecipeEndpoint,
    Step,
)
from agtphost.contract.schema_rules import tokens
from agtphost.contract.schemas import CompiledSchema, Role, SchemaError, compile_schema
from agtphost.contract.semantic import FOR_TOOLS, MEMBERS, is_statement, semantic, semantic_faults
from agtphost.errors import Problem
from agtphost.vocabulary import paths, tomltext
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.foreign_errors import original_of
from agtphost.vocabulary.tomltext import Location, TomlError

LONGEST_TIMEOUT = 3_600.0
"""Seconds of one attempt of one step."""

REQUIRED = ("name", "version", "description", "step")
OPTIONAL = ("output", "endpoint", "approval")
STEP = ("method", "path", "parameters", "input", "capture", "when", "timeout", "retries", "on_error")
ENDPOINT = ("method", "path", "description", "semantic", "input_schema", "output_schema", "errors")

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
VERSION = re.compile(r"[0-9A-Za-z.+_:-]{1,64}", re.ASCII)
_ERROR = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)

Say = Callable[[Location, str, str, str], None]


@dataclass(frozen=True, kw_only=True)
class RecipeRules:
    """The rules that recipes are checked by."""

    catalog: Catalog
    custom: Collection[str] = ()
    """Methods that the catalog lacks."""

    never: Collection[str] = ()
    """Methods that no recipe may call."""

    names: DeclaredNames = field(default=NO_NAMES, compare=False, repr=False)
    """Names that cures of faulty ones propose."""


def read_recipes(source: Path | str, file: str, rules: RecipeRules) -> tuple[list[Recipe], list[Problem]]:
    """
    Read the recipes of one document.

    :param source: a file, or its text.
    :param file: the file's name, for problems.
    :return: the sound recipes in their order, and every fault of the others.
    """
    try:
        document = tomltext.read(source)
    except TomlError as error:
        return [], [Problem(message=f"it {error}", file=file, line=error.line, hint=error.hint)]
    problems = [
        Problem(
            message=f"{name[:64]} is unknown",
            file=file,
            line=document.line((name,)),
            hint='did you mean "recipe"?' if _resembles_recipe(name) else "write [[recipe]] above it, where it belongs",
        )
        for name in document.tree
        if name != "recipe"
    ]
    if any(map(_resembles_recipe, document.tree)):
        return [], problems  # What the recipes lack may be under the misspelt name.
    tables = document.tree.get("recipe", [])
    if not isinstance(tables, list):
        line = document.line(("recipe",))
        problems.append(Problem(message="recipe must be a list", file=file, line=line, hint="write [[recipe]]"))
        tables = []
    recipes: dict[str, Recipe] = {}
    for index, table in enumerate(tables):
        at: Location = ("recipe", index)
        label = table.get("name") if isinstance(table, Mapping) else None
        prefix = f"recipe {label[:64]}: " if isinstance(label, str) else ""

        def say(
            location: Location, message: str, hint: str, original: str, at: Location = at, prefix: str = prefix
        ) -> None:
            line = document.line((*at, *location))
            problems.append(Problem(message=f"{prefix}{message}", file=file, line=line, hint=hint, original=original))

        def line_inside(location: Location, at: Location = at) -> int:
            return document.line((*at, *location))

        recipe = read_recipe(table, rules, say, file=file, line_of=line_inside)
        if recipe is None:
            continue
        if recipe.identifier in recipes:
            say(("name",), f"{recipe.identifier} is declared twice", "give one of them another version", "")
            continue
        recipes[recipe.identifier] = recipe
    return list(recipes.values()), sorted(problems, key=lambda problem: problem.line)


def _resembles_recipe(name: str) -> bool:
    return name != "recipe" and bool(difflib.get_close_matches(name.lower(), ["recipe"], 1))


def read_recipe(
    table: Any,
    rules: RecipeRules,
    say: Say,
    *,
    file: str = "",
    line_of: Callable[[Location], int] = lambda location: 0,
) -> Recipe | None:
    """
    Check one recipe's table.

    :param say: called for every fault.
    :param line_of: returns the line of a location within the table.
    :return: None if anything is wrong.
    """
    if not isinstance(table, Mapping):
        say((), "it must be a table", "write [[recipe]]", "")
        return None
    return _RecipeReader(table, rules, say, line_of).recipe(file)


@dataclass
class _RecipeReader:
    """A checker of one recipe."""

    table: Mapping[str, Any]
    rules: RecipeRules
    tell: Say
    line_of: Callable[[Location], int]
    wrong: bool = False
    known: list[str] = field(default_factory=lambda: [INPUT])
    """Names that expressions may use so far."""

    uncaptured: bool = False
    """Whether a step's capture cannot be read, so that the names are not completely known."""

    count: int = 0

    def say(self, location: Location, message: str, hint: str = "", original: str = "") -> None:
        self.wrong = True
        self.tell(location, message, hint or self._name_cure(location) or example(RECIPE, location), original)

    def _name_cure(self, location: Location, missing: str = "") -> str:
        """Return a cure with a name that the host's files have; empty if they have none."""
        at = (*location, missing) if missing else location
        match at:
            case ("name",):
                found = next(iter(self.rules.names.wanted_recipes), "")
            case ("step", *_, "path"):
                found = self.rules.names.find_called_path(self._table_at(at[:-1]))
            case ("step", *_, "capture"):
                found = next(iter(capture_names.find_uncaptured(self.table)), "")
            case _:
                found = ""
        return f'write {at[-1]} = "{found}"' if found else ""

    def _table_at(self, location: Location) -> Mapping[str, Any]:
        found: Any = self.table
        for step in location:
            found = found[step]
        return found if isinstance(found, Mapping) else {}

    def recipe(self, file: str) -> Recipe | None:
        table = self.table
        self._members(table, (*REQUIRED, *OPTIONAL), REQUIRED, ())
        self.uncaptured = "step" in meant_members(table, REQUIRED).values()
        self._matching("name", NAME, "a name such as look-up-and-book")
        self._matching("version", VERSION, 'a version such as "1.2.0"')
        if "description" in table and not is_statement(table["description"]):
            self.say(("description",), "description must be one line of text of 1 to 1000 characters")
        stages = self._stages()
        output = None
        if "output" in table:
            output = self._mapping(table["output"], ("output",))
        endpoint = self._endpoint()
        if (approval := self.table.get("approval", "required")) != "required":
            self.say(
                ("approval",),
                f"approval has the unknown value {approval!r:.64}",
                'write approval = "required", or leave it out',
            )
        if self.wrong:
            return None
        return Recipe(
            name=table["name"],
            version=table["version"],
            description=table["description"],
            stages=tuple(stages),
            output=output,
            endpoint=endpoint,
            approval="approval" in table,
            file=file,
            line=self.line_of(()),
            source=table,
        )

    # Members of any kind

    def _members(self, table: Mapping[str, Any], known: Sequence[str], required: Sequence[str], at: Location) -> None:
        meant = meant_members(table, known)
        for name in table:
            if name not in known:
                listed = f"leave it out; known here: {', '.join(known)}"
                hint = f"did you mean {meant[name]!r}?" if name in meant else listed
                self.say((*at, name), f"{name[:64]} is unknown", hint)
        for name in required:
            if name not in table and name not in meant.values():
                self.say(at, f"{name} is missing", self._name_cure(at, name) or example(RECIPE, at, name))

    def _matching(self, name: str, grammar: re.Pattern[str], form: str) -> None:
        value = self.table.get(name)
        if value is not None and (not isinstance(value, str) or grammar.fullmatch(value) is None):
            self.say((name,), f"{name} {str(value)[:64]!r} is not {form}")

    def _mapping(self, value: Any, at: Location) -> ValueMapping:
        def say(location: Location, message: str, hint: str, original: str) -> None:
            self.say((*at, *location), message, hint, original)

        mapping = ValueMapping(value, say)
        self._names(mapping.names, at)
        return mapping

    def _names(self, names: Collection[str], at: Location) -> None:
        for name in () if self.uncaptured else sorted(set(names).difference(self.known)):
            place, hint = capture_names.find_cure(self.table, self.known, name, at)
            self.say(place, f"an expression uses {name[:64]!r}, which no earlier step captures", hint)

    # Steps

    def _stages(self) -> Iterator[tuple[Step, ...]]:
        stages: list[tuple[Step, ...]] = []
        steps = self.table.get("step", [])
        if not isinstance(steps, list) or ("step" in self.table and not steps):
            self.say(("step",), "step must be a list of tables", "write [[recipe.step]]")
            return iter(stages)
        for index, step in enumerate(steps):
            at: Location = ("step", index)
            if not isinstance(step, Mapping):
                self.say(at, "step must be a table", "write [[recipe.step]]")
                continue
            stages.append(self._group(step, at) if "parallel" in step else self._read_stage([(at, step)]))
        if self.count > MAX_STEPS:
            self.say(
                ("step",),
                f"the recipe has more than {MAX_STEPS} steps",
                "split it into two recipes, of which one calls the other",
            )
        return iter(stages)

    def _group(self, group: Mapping[str, Any], at: Location) -> tuple[Step, ...]:
        self._members(group, ("parallel",), (), at)
        inner = group["parallel"]
        if not isinstance(inner, list) or not inner or not all(isinstance(step, Mapping) for step in inner):
            self.say((*at, "parallel"), "parallel must be a list of tables", "write [[recipe.step.parallel]]")
            return ()
        return self._read_stage([((*at, "parallel", index), step) for index, step in enumerate(inner)])

    def _read_stage(self, tables: Sequence[tuple[Location, Mapping[str, Any]]]) -> tuple[Step, ...]:
        """Return the steps of one stage; they do not see each other's captures."""
        steps = [self._step(table, at) for at, table in tables]
        for (at, _), step in zip(tables, steps, strict=True):
            if not step.capture:
                continue
            if step.capture in self.known:
                self.say((*at, "capture"), f"capture {step.capture!r} is taken", "choose another name")
            self.known.append(step.capture)
        return tuple(steps)

    def _step(self, table: Mapping[str, Any], at: Location) -> Step:
        self.count += 1
        self._members(table, STEP, ("method", "path"), at)
        self.uncaptured |= "capture" in meant_members(table, STEP).values()
        path = self._path(table, at)
        return Step(
            number=self.count,
            method=self._method(table, at),
            path=path,
            parameters=self._parameters(table, path, at),
            input=self._input(table, at),
            capture=self._capture(table, at),
            when=self._when(table, at),
            timeout=self._timeout(table, at),
            retries=self._retries(table, at),
            proceed=self._on_error(table, at),
            line=self.line_of(at),
            lines={name: self.line_of((*at, name)) for name in ("method", "path", "retries") if name in table},
        )

    def _method(self, table: Mapping[str, Any], at: Location) -> str:
        method = table.get("method", "QUERY")
        catalog = self.rules.catalog
        if not isinstance(method, str) or not (catalog.knows(method) or method in self.rules.custom):
            hint = suggest_methods(catalog.close_matches(str(method)[:40]))
            self.say((*at, "method"), f"method {str(method)[:40]!r} is not in catalog {catalog.version}", hint)
        elif method in self.rules.never:
            self.say((*at, "method"), f"{method} cannot be a step of a recipe")
        return str(method)

    def _path(self, table: Mapping[str, Any], at: Location) -> str:
        path = table.get("path", "/")
        if not isinstance(path, str):
            self.say((*at, "path"), "path must be a text")
            return "/"
        faults = list(paths.template_faults(path, self.rules.catalog.methods))
        for fault in faults:
            self.say((*at, "path"), f"path {path[:128]}: {fault}")
        return "/" if faults else path

    def _parameters(self, table: Mapping[str, Any], path: str, at: Location) -> ValueMapping | None:
        wanted = paths.parse_template(path).parameters
        given = table.get("parameters", {})
        at = (*at, "parameters")
        values = ", ".join(f'{name} = "=input.{name}"' for name in wanted)
        if not isinstance(given, Mapping):
            self.say(
                at, "parameters must be a table", f"write parameters = {{ {values} }}" if wanted else "leave it out"
            )
            return None
        for name in wanted:
            if name not in given:
                hint = f"write parameters = {{ {values} }}"
                self.say(at, f"the path's parameter {name!r} has no value in parameters", hint)
        for name in given if "path" in table else ():
            if name not in wanted:
                self.say((*at, name), f"the path has no parameter {name[:64]!r}", "leave it out of parameters")
        return self._mapping(given, at) if given else None

    def _input(self, table: Mapping[str, Any], at: Location) -> ValueMapping | None:
        if "input" not in table:
            return None
        value = table["input"]
        if not isinstance(value, (Mapping, str)) or (isinstance(value, str) and not value.startswith("=")):
            self.say((*at, "input"), "input must be a table or an expression", 'such as input = "=input"')
            return None
        return self._mapping(value, (*at, "input"))

    def _capture(self, table: Mapping[str, Any], at: Location) -> str:
        capture = table.get("capture", "")
        if "capture" in table and (not isinstance(capture, str) or capture_names.NAME.fullmatch(capture) is None):
            self.uncaptured = True
            self.say((*at, "capture"), f"capture {str(capture)[:64]!r} is not a name such as first_room")
            return ""
        return str(capture)

    def _when(self, table: Mapping[str, Any], at: Location) -> Expression | None:
        text = table.get("when")
        if text is None:
            return None
        try:
            if not isinstance(text, str):
                raise ExpressionError("when must be a text")
            expression = Expression(text.removeprefix("="))
        except ExpressionError as error:
            hint = 'a JMESPath expression such as "book.year > `1900`"'
            self.say((*at, "when"), str(error), hint, original_of(error))
            return None
        self._names(expression.names, (*at, "when"))
        return expression

    def _timeout(self, table: Mapping[str, Any], at: Location) -> float | None:
        value = table.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_TIMEOUT:
            self.say(
                (*at, "timeout"), f"timeout must be a number of seconds up to {LONGEST_TIMEOUT:.0f}, not {value!r:.64}"
            )
            return None
        return float(value)

    def _retries(self, table: Mapping[str, Any], at: Location) -> int:
        value = table.get("retries", 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RETRIES:
            self.say((*at, "retries"), f"retries must be a number from 0 to {MAX_RETRIES}, not {value!r:.64}")
            return 0
        return value

    def _on_error(self, table: Mapping[str, Any], at: Location) -> bool:
        value = table.get("on_error", "fail")
        if value not in ("fail", "continue"):
            self.say((*at, "on_error"), f'on_error must be "fail" or "continue", not {value!r:.64}')
        return bool(value == "continue")

    # The endpoint it offers

    def _endpoint(self) -> RecipeEndpoint | None:
        table = self.table.get("endpoint")
        if table is None:
            return None
        at: Location = ("endpoint",)
        if not isinstance(table, Mapping):
            self.say(at, "endpoint must be a table", "write [recipe.endpoint]")
            return None
        self._members(table, ENDPOINT, ENDPOINT[:-1], at)
        method, path = self._method(table, at), self._path(table, at)
        if not is_statement(table.get("description", "-")):
            self.say((*at, "description"), "endpoint.description must be one line of text")
        block = table.get("semantic", {})
        faults = list(semantic_faults(block if isinstance(block, Mapping) else {}, self.rules.catalog.categories))
        for member, sentence in faults:
            self.say((*at, "semantic", member), f"endpoint.{sentence}")
        if isinstance(block, Mapping):
            self._members(block, (*MEMBERS, *FOR_TOOLS), (), (*at, "semantic"))
        taken = self._schema(table, "input_schema", "input")
        given = self._schema(table, "output_schema", "output")
        for name, sentence in parameter_faults(method, table.get("input_schema")):
            self.say((*at, "input_schema"), f"endpoint: {sentence}", hint(name))
        errors = table.get("errors", [])
        if not isinstance(errors, list) or not all(isinstance(e, str) and _ERROR.fullmatch(e) for e in errors):
            self.say((*at, "errors"), "endpoint.errors must be a list of error names")
            errors = []
        if self.wrong or taken is None or given is None:
            return None
        return RecipeEndpoint(
            method=method,
            path=path,
            description=table["description"],
            semantic=semantic(block),
            input_schema=taken,
            output_schema=given,
            errors=tuple(dict.fromkeys((*errors, COMPOSITION_FAILED))),
        )

    def _schema(self, table: Mapping[str, Any], name: str, role: Role) -> CompiledSchema | None:
        schema = table.get(name)
        if schema is None:
            return None
        if not isinstance(schema, Mapping):
            self.say(("endpoint", name), f"endpoint.{name} must be a table")
            return None
        try:
            return compile_schema(schema, role=role)
        except SchemaError as error:
            for fault in all_faults(schema, error):
                where = tuple(tokens(fault.pointer))
                hint = keyword_example(where, fault.message)
                self.say(("endpoint", name, *where), f"endpoint.{name} {fault}", hint, fault.original)
            return None
