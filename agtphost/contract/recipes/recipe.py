"""
The recipe: a named, versioned chain of calls to endpoints of the same host (AGTP-API sections 10.5 and 12.1).

A recipe is made of stages in order, and a stage of steps that run at the same
time; most stages have one. Steps are numbered from 1 in the order they are
written, whatever their stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agtphost.contract.recipes.expression import Expression, ValueMapping

if TYPE_CHECKING:
    from agtphost.contract.schemas import CompiledSchema
    from agtphost.contract.semantic import Semantic

MAX_STEPS = 32
"""Steps of one recipe."""

MAX_RETRIES = 5
"""Repetitions of one step."""

COMPOSITION_FAILED = "composition_failed"
"""The error that every composition endpoint declares (AGTP-API section 12.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a recipe."""

    number: int
    """From 1: what ``composition_failed`` calls it."""

    method: str
    """Canonical: aliases are for callers."""

    path: str
    """A template; its parameters are filled from :attr:`parameters`."""

    parameters: ValueMapping | None = None
    """A table with a value for each parameter of the path; None where it has none."""

    input: ValueMapping | None = None
    """The input of the call; None sends none but what the path carries."""

    capture: str = ""
    """The name under which later steps and the output find the result; empty: nobody does."""

    when: Expression | None = None
    """The step is left out where this does not hold; its capture is null then."""

    timeout: float | None = None
    """Seconds, one attempt; None: what the called endpoint allows."""

    retries: int = 0
    """Further attempts after a failure that may pass; only ever set for idempotent targets."""

    proceed: bool = False
    """``on_error = "continue"``: a failure makes the capture null and the recipe goes on."""

    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeEndpoint:
    """The endpoint that a recipe offers to answer if an agent proposes it: what synthesis matches against."""

    method: str
    path: str
    description: str
    semantic: Semantic
    input_schema: CompiledSchema
    output_schema: CompiledSchema
    errors: tuple[str, ...] = (COMPOSITION_FAILED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One version of a recipe. Immutable, so that a contract keeps the version it was made from."""

    name: str
    version: str
    """Opaque (AGTP-API section 10.5); of several versions in a file the last is the current one."""

    description: str
    stages: tuple[tuple[Step, ...], ...]
    output: ValueMapping | None = None
    """The result; None: the result of the last step, or of the last stage by capture name where it has several."""

    endpoint: RecipeEndpoint | None = None
    """None: the recipe is for endpoints that name it, not for synthesis."""

    approval: bool = False
    """Whether a person approves each call of what it answers."""

    required_scopes: tuple[str, ...] = ()
    """All that its steps require of the caller, once it is in a :class:`agtphost.contract.recipes.book.RecipeBook`."""

    file: str = ""
    line: int = 0
    source: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The table it was read from: :func:`agtphost.contract.recipes.loading.read_recipe` makes the recipe again."""

    @property
    def identifier(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    @property
    def steps(self) -> Sequence[Step]:
        """Every step in order of number."""
        return [step for stage in self.stages for step in stage]

    @property
    def lineage(self) -> dict[str, Any]:
        """``recipe_lineage`` of the drafts: name, captured version, and the calls it is made of."""
        return {
            "recipe": self.name,
            "recipe_version": self.version,
            "steps": [{"method": step.method, "path": step.path} for step in self.steps],
        }
