"""The input of every pass, and the way to report findings."""

from __future__ import annotations

from dataclasses import dataclass, field

from agtphost.agis.document import AgisDocument
from agtphost.agis.document_reader import Place
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.rules import RULES
from agtphost.agis.words import Words, words

LONGEST = 300
"""Characters of each part of a finding, so that it fits on one line."""


def shorten(text: str) -> str:
    """Return a text cut to its beginning if it is too long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A document that is validated."""

    document: AgisDocument
    level: int = 1
    """1 or 2; it decides which members a semantic block must have (AGIS v01 section 3)."""

    words: Words = field(default_factory=words)

    def finding(
        self, rule: str, element: str, place: Place, message: str, fix: str = "", severity: Severity | None = None
    ) -> Finding:
        """
        Return a finding.

        :param rule: name of the rule without ``AGIS-P``.
        :param element: the element in readable form.
        :param severity: severity, if it differs from the rule's.
        """
        known = RULES[f"AGIS-P{rule}"]
        line, column = self.document.tree.mark(place)
        return Finding(
            rule=known,
            severity=severity or known.severity,
            place=shorten(element),
            message=shorten(message),
            line=line,
            column=column,
            fix=shorten(fix),
        )
