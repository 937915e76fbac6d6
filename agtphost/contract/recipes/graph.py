"""
The endpoints that the steps of recipes lead to, and through them other recipes.

A step whose path has parameters leads to every endpoint that some value of them could select. So the computed needs
never promise a caller more than the gates will grant (AGTP-API section 12.1, T-SC-50 to T-SC-60).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.recipe import Recipe, Step
from agtphost.contract.semantic import Impact
from agtphost.identity.canonical import canonical
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.paths import Template, parse_template

MAX_DEPTH = 10
"""Depth of nested compositions: the drafts' ``max_synthesis_depth``."""

SEVERITY = (Impact.INFORMATIONAL, Impact.REVERSIBLE, Impact.IRREVERSIBLE)
"""Impacts, from least to most severe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The requirements for a caller of a recipe, for all of its steps, and the recipe's impact."""

    required_scopes: tuple[str, ...] = ()
    min_assurance: Assurance = Assurance.NONE
    impact: Impact = Impact.INFORMATIONAL
    idempotent: bool = True
    approval: bool = False
    """Whether a person approves the call as a whole, before its first step."""

    data_classes: frozenset[str] = frozenset()
    """The classes of data that its steps declare."""

    unclassified: bool = False
    """Whether a step declares none."""

    depth: int = 0
    """Depth of nested compositions, including the recipe itself."""

    def combine(self, other: Needs) -> Needs:
        """Return the combined needs; the depth is the larger one."""
        return Needs(
            required_scopes=tuple(dict.fromkeys((*self.required_scopes, *other.required_scopes))),
            min_assurance=max(self.min_assurance, other.min_assurance),
            impact=max(self.impact, other.impact, key=SEVERITY.index),
            idempotent=self.idempotent and other.idempotent,
            approval=self.approval or other.approval,
            data_classes=self.data_classes | other.data_classes,
            unclassified=self.unclassified or other.unclassified,
            depth=max(self.depth, other.depth),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFault:
    """The reason why a recipe cannot be registered."""

    recipe: Recipe
    message: str
    hint: str = ""
    step: Step | None = None
    """None: the recipe as a whole."""

    key: str = ""
    """The step's member that is at fault; empty: the step as a whole."""

    absent: bool = False
    """
    Whether the called endpoint does not exist; not reported if endpoints could not be read, which may be the reason.
    """

    @property
    def line(self) -> int:
        """Return the line in :attr:`Recipe.file`."""
        if self.step is None:
            return self.recipe.line
        return self.step.lines.get(self.key) or self.step.line or self.recipe.line


class RecipeGraph:
    """
    The graph of the recipes and endpoints of one host.

    :param recipes: every version; of one name the last is current.
    :param endpoints: the operator's endpoints.
    :param reserved: methods and path templates of the host's own bindings.
    """

    def __init__(
        self, recipes: Sequence[Recipe], endpoints: Iterable[Endpoint], reserved: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._recipes = tuple(recipes)
        self._named = {recipe.name: recipe for recipe in recipes}
        self._versions = {recipe.identifier: recipe for recipe in recipes}
        self._endpoints = tuple(endpoints)
        self._reserved = tuple(reserved)
        self._needs: dict[str, Needs] = {}
        self._definitions: dict[str, str] = {}

    @cached_property
    def _targets(self) -> Mapping[str, Sequence[tuple[Template, Endpoint | None]]]:
        """The templates that a step may call, by method; a host without recipes never reads them."""
        found: dict[str, list[tuple[Template, Endpoint | None]]] = {}
        for endpoint in self._endpoints:
            found.setdefault(endpoint.method, []).append((parse_template(endpoint.path), endpoint))
        for method, path in self._reserved:
            found.setdefault(method, []).append((parse_template(path), None))
        return found

    @property
    def names(self) -> list[str]:
        """Return the names of recipes, with and without versions."""
        return [*self._named, *self._versions]

    def find(self, reference: str) -> Recipe | None:
        """Return the recipe of ``name`` (its current version) or ``name@version``; None if there is none."""
        return self._versions.get(reference) if "@" in reference else self._named.get(reference)

    def reachable(self, step: Step) -> list[Endpoint | None]:
        """Return every endpoint that a step may call; None represents a binding of the host itself."""
        wanted = parse_template(step.path).segments
        return [
            endpoint
            for template, endpoint in self._targets.get(step.method, ())
            if _may_match(wanted, template.segments)
        ]

    def faults(self) -> Iterator[RecipeFault]:
        """Yield the faults: steps without a target, retries of steps that are not idempotent, and circular recipes."""
        for recipe in self._recipes:
            for step in recipe.steps:
                yield from self._step_faults(recipe, step)
            found = self._way_back(recipe)
            if found is not None:
                step, way = found
                path = self._closest_path(step, recipe)
                hint = f'write path = "{path}", or remove this step' if path else "remove this step"
                message = f"the recipe calls itself: {way}"
                yield RecipeFault(recipe=recipe, step=step, key="path", message=message, hint=hint)
            elif self._depth(recipe, {}) > MAX_DEPTH:
                yield RecipeFault(recipe=recipe, message=f"the recipe nests more than {MAX_DEPTH} recipes")

    def _step_faults(self, recipe: Recipe, step: Step) -> Iterator[RecipeFault]:
        targets = self.reachable(step)
        if not targets:
            where = f"step {step.number} calls {step.method} {step.path}"
            known = [
                f"{method} {template.path}"
                for method, listed in self._targets.items()
                for template, _ in listed
                if _may_match(parse_template(step.path).segments, template.segments)
            ]
            hint, key = "remove the recipe, or declare the endpoint", "path"
            if known:
                hint = f'write method = "{known[0].split()[0]}"; the path takes: {", ".join(known[:8])}'
                key = "method"
            elif path := self._closest_path(step):
                hint = f'write path = "{path}"'
            yield RecipeFault(
                recipe=recipe, step=step, message=f"{where}, which no endpoint answers", hint=hint, key=key, absent=True
            )
        if step.retries and not all(_is_repeatable(target) for target in targets):
            yield RecipeFault(
                recipe=recipe,
                step=step,
                message=f"step {step.number} has retries, but {step.method} {step.path} is not idempotent",
                hint="leave retries out: a failed call may have had its effect",
                key="retries",
            )

    def _closest_path(self, step: Step, other_than: Recipe | None = None) -> str:
        """
        Return the path of the method that is most like a step's and has the same parameters; empty if none has.

        :param other_than: a recipe whose own endpoint is not meant.
        """
        wanted = parse_template(step.path).parameters
        paths = [
            template.path
            for template, endpoint in self._targets.get(step.method, ())
            if template.parameters == wanted
            and (endpoint is None or other_than is None or self.find(endpoint.handler.recipe) is not other_than)
        ]
        return max(paths, key=lambda each: SequenceMatcher(None, each, step.path).ratio(), default="")

    def _inner(self, step: Step) -> Iterator[tuple[Endpoint, Recipe]]:
        """Yield the compositions that a step may call."""
        for endpoint in self.reachable(step):
            if endpoint is not None and endpoint.handler.recipe:
                inner = self.find(endpoint.handler.recipe)
                if inner is not None:
                    yield endpoint, inner

    def _way_back(self, recipe: Recipe) -> tuple[Step, str] | None:
        """Return how a recipe leads to itself, with its step that does, if it does."""
        for first in recipe.steps:
            seen: set[str] = set()
            waiting: list[tuple[Step, str]] = [(first, recipe.name)]
            while waiting:
                step, way = waiting.pop()
                for endpoint, inner in self._inner(step):
                    further = f"{way} -> {endpoint.name} -> {inner.name}"
                    if inner.identifier == recipe.identifier:
                        return first, further
                    if inner.identifier not in seen:
                        seen.add(inner.identifier)
                        waiting += [(each, further) for each in inner.steps]
        return None

    def _depth(self, recipe: Recipe, known: dict[str, int], guard: int = 0) -> int:
        """Return the depth of nested compositions; circles count as too deep."""
        if guard > MAX_DEPTH + 1:
            return guard
        found = known.get(recipe.identifier)
        if found is None:
            inner = [self._depth(below, known, guard + 1) for step in recipe.steps for _, below in self._inner(step)]
            found = known[recipe.identifier] = 1 + max(inner, default=0)
        return found

    def needs(self, recipe: Recipe) -> Needs:
        """
        Return what all steps together need, through every nested recipe. The recipe must not have faults.

        :param recipe: one of this graph, or one made at run time that calls these endpoints.
        """
        found = self._needs.get(recipe.identifier)
        if found is None:
            found = Needs(depth=0)
            for step in recipe.steps:
                for target in self.reachable(step):
                    found = found.combine(self._target_needs(target, step.method))
            found = found.combine(Needs(depth=found.depth + 1, approval=recipe.approval))
            if self._versions.get(recipe.identifier) is recipe:
                self._needs[recipe.identifier] = found
        return found

    def definition(self, recipe: Recipe) -> str:
        """
        Return the SHA-256, in hex, of a recipe and of all that its steps lead to; an approval applies only to that.
        """
        found = self._definitions.get(recipe.identifier)
        if found is not None and self._versions.get(recipe.identifier) is recipe:
            return found
        steps = [
            "" if target is None else self.definition_of(target)
            for step in recipe.steps
            for target in self.reachable(step)
        ]
        found = _digest({"recipe": _plain(recipe.source), "steps": steps})
        if self._versions.get(recipe.identifier) is recipe:
            self._definitions[recipe.identifier] = found
        return found

    def definition_of(self, endpoint: Endpoint) -> str:
        """Return the SHA-256, in hex, of an endpoint: its projection, its handler, and all that this leads to."""
        reference = endpoint.handler
        recipe = self.find(reference.recipe) if reference.recipe else None
        service = reference.service
        answers = {
            "type": reference.type,
            "function": reference.function,
            "plugin": reference.plugin,
            "settings": _plain(reference.settings),
            "recipe": "" if recipe is None else self.definition(recipe),
            "service": None if service is None else [service.method, service.url],
        }
        return _digest({"endpoint": _plain(endpoint.projection()), "handler": answers})

    def _target_needs(self, endpoint: Endpoint | None, method: str) -> Needs:
        if endpoint is None:
            # The effect of an EXECUTE depends on its input; the gates decide at the call.
            return Needs(idempotent=method != "EXECUTE", unclassified=True)
        inner = self.find(endpoint.handler.recipe) if endpoint.handler.recipe else None
        own = Needs(
            required_scopes=endpoint.required_scopes,
            min_assurance=endpoint.min_assurance,
            impact=endpoint.semantic.impact,
            idempotent=endpoint.semantic.is_idempotent,
            approval=endpoint.approval,
            data_classes=frozenset(endpoint.data_classes),
            # A composition has its own classes and those of its steps.
            unclassified=not endpoint.data_classes and inner is None,
        )
        return own if inner is None else own.combine(self.needs(inner))


def _digest(document: Mapping[str, Any]) -> str:
    return sha256(canonical(document)).hexdigest()


def _plain(value: Any) -> Any:
    """Convert a value of TOML to what canonical JSON can express."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _may_match(wanted: Sequence[str | None], offered: Sequence[str | None]) -> bool:
    """Return whether one path can match both templates."""
    return len(wanted) == len(offered) and all(
        one is None or other is None or one == other for one, other in zip_longest(wanted, offered)
    )


def _is_repeatable(target: Endpoint | None) -> bool:
    return target is not None and target.semantic.is_idempotent
