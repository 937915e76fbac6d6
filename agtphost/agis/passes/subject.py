"""What every pass is given, and how it says what it found."""

from __future__ import annotations

from dataclasses import dataclass, field

from agtphost.agis.document import Document
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.reading import Place
from agtphost.agis.rules import RULES
from agtphost.agis.words import Words, words

LONGEST = 300
"""Characters of each part of a finding: what somebody reads in one line, whatever a document has."""


def shortened(text: str) -> str:
    """With its beginning alone, where it is too long to be read."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A document under examination."""

    document: Document
    level: int = 1
    """1 or 2: which members a semantic block has to have (AGIS v01 section 3)."""

    words: Words = field(default_factory=words)

    def finding(
        self, rule: str, element: str, place: Place, message: str, fix: str = "", severity: Severity | None = None
    ) -> Finding:
        """
        One finding.

        :param rule: without ``AGIS-``.
        :param element: as people call it.
        :param severity: other than the rule's.
        """
        known = RULES[f"AGIS-P{rule}"]
        line, column = self.document.tree.mark(place)
        return Finding(
            rule=known,
            severity=severity or known.severity,
            place=shortened(element),
            message=shortened(message),
            line=line,
            column=column,
            fix=shortened(fix),
        )
