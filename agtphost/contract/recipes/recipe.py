"""
The recipe: a named, versioned chain of calls to endpoints of the same host (AGTP-API sections 10.5 and 12.1).

A recipe has stages in order, and a stage has steps that run at the same time; most stages have one. Steps are numbered
from 1 in the order in which they are written, across stages.
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
"""Most repetitions of one step."""

COMPOSITION_FAILED = "composition_failed"
"""The error that every composition endpoint declares (AGTP-API section 12.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call of a recipe."""

    number: int
    """From 1; ``composition_failed`` names it."""

    method: str
    """The canonical method: aliases are for callers."""

    path: str
    """A path template; its parameters are filled from :attr:`parameters`."""

    parameters: ValueMapping | None = None
    """A table with a value for each parameter of the path; None if it has none."""

    input: ValueMapping | None = None
    """The input of the call; None: only what the path carries."""

    capture: str = ""
    """The name of the result for later steps and the output; empty: the result is not used."""

    when: Expression | None = None
    """The step is left out if this is not true; its capture is then null."""

    timeout: float | None = None
    """Seconds of one attempt; None: the called endpoint's limit."""

    retries: int = 0
    """Further attempts after a temporary failure; only set for idempotent targets."""

    proceed: bool = False
    """``on_error = "continue"``: a failure makes the capture null, and the recipe continues."""

    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)
    """The lines of its members, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeEndpoint:
    """The endpoint that a recipe offers to answer if an agent proposes it; synthesis compares proposals with it."""

    method: str
    path: str
    description: str
    semantic: Semantic
    input_schema: CompiledSchema
    output_schema: CompiledSchema
    errors: tuple[str, ...] = (COMPOSITION_FAILED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A version of a recipe. It is immutable, so that a contract keeps the version it was made from."""

    name: str
    version: str
    """An opaque text (AGTP-API section 10.5); of several versions in a file the last one is current."""

    description: str
    stages: tuple[tuple[Step, ...], ...]
    output: ValueMapping | None = None
    """The result; None: that of the last step, or of the last stage by capture names if it has several steps."""

    endpoint: RecipeEndpoint | None = None
    """None: the recipe is for endpoints that name it, not for synthesis."""

    approval: bool = False
    """Whether a person approves each call of its endpoint."""

    required_scopes: tuple[str, ...] = ()
    """All scopes that its steps require, once it is in a :class:`agtphost.contract.recipes.book.RecipeBook`."""

    file: str = ""
    line: int = 0
    source: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The table it was read from; :func:`agtphost.contract.recipes.recipe_loading.read_recipe` can read it again."""

    @property
    def identifier(self) -> str:
        """Return name and version, as ``name@version``."""
        return f"{self.name}@{self.version}"

    @property
    def steps(self) -> Sequence[Step]:
        """Return all steps in the order of their numbers."""
        return [step for stage in self.stages for step in stage]

    @property
    def lineage(self) -> dict[str, Any]:
        """Return ``recipe_lineage`` of the drafts: name, captured version, and the calls of the steps."""
        return {
            "recipe": self.name,
            "recipe_version": self.version,
            "steps": [{"method": step.method, "path": step.path} for step in self.steps],
        }
