"""What a validator has to say: which rule, where, how bad, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How much a finding counts."""

    ERROR = "error"
    """The document does not conform (AGIS v01 section 9)."""

    WARNING = "warning"
    """It conforms, and somebody should look."""

    NOTE = "note"
    """What was understood, where the text leaves it open."""


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
    """One rule of the grammar."""

    name: str
    """Such as ``AGIS-P4-verb-in-path``; its number is that of its pass."""

    severity: Severity
    section: str
    """Of AGIS v01: ``5 (b)``."""

    says: str
    """One sentence."""

    @property
    def number(self) -> int:
        """The pass, 1 to 8."""
        return int(self.name[6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that breaks a rule, or should be looked at."""

    rule: Rule
    severity: Severity
    place: str
    """The element, as people call it: ``BOOK /reservation``, ``semantic.intent``."""

    message: str
    """A sentence that names what is wrong."""

    line: int
    column: int
    """From 1; both 0 where the document is not a text."""

    fix: str = ""
    """What to write instead; empty where nobody can know."""

    reason: str = ""
    """Why it is left out; empty where it is not."""
