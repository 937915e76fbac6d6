"""The validator's findings: which rule, where, how severe, and the replacement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """The document does not conform (AGIS v01 section 9)."""

    WARNING = "warning"
    """The document conforms, but a person should check it."""

    NOTE = "note"
    """How an ambiguous text was understood."""


PASSES = (
    "Structural",
    "Method Syntax",
    "Method Class",
    "Path Syntax",
    "Semantic Completeness",
    "Semantic Consistency",
    "Vocabulary Integrity",
    "Schema Completeness",
)
"""The eight passes in their order (AGIS v01 section 9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the grammar."""

    name: str
    """Such as ``AGIS-P4-verb-in-path``; its digit is the pass."""

    severity: Severity
    section: str
    """Section of AGIS v01, such as ``5 (b)``."""

    says: str
    """The rule as one sentence."""

    @property
    def number(self) -> int:
        """Return the pass, 1 to 8."""
        return int(self.name[6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violation of a rule, or something to check."""

    rule: Rule
    severity: Severity
    place: str
    """The element in readable form: ``BOOK /reservation``, ``semantic.intent``."""

    message: str
    """A sentence that states what is wrong."""

    line: int
    column: int
    """From 1; both are 0 if the document is not a text."""

    fix: str = ""
    """The replacement; empty if it cannot be known."""

    reason: str = ""
    """Why it is suppressed; empty if it is not."""
