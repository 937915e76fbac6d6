"""One step of a chain: a recipe's, and what that has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.recipes.recipe import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A step of a chain, with members that a recipe's step does not have."""

    step: Step
    name: str
    """Under which later steps find what it gave."""

    key: str
    repeatable: bool
    """Whether the step may be repeated after an unknown outcome: it is idempotent, or has an idempotency key."""

    cleared: frozenset[str] = frozenset()
    """Of VALIDATE: names whose code it looks at before a RUN has it."""


class Ready:
    """
    A value without expressions, in place of a :class:`~agtphost.contract.recipes.expression.ValueMapping`.

    It is filled in already, so no text in it is evaluated.
    """

    __slots__ = ("names", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.names: frozenset[str] = frozenset()

    def fill(self, scope: Mapping[str, Any]) -> Any:
        """Return the value."""
        return self.value
