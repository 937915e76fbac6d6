"""
Pass 6 by embeddings, if requested: the similarity of an intent to its method (AGIS v01 section 9).

A measure of similarity distinguishes synonyms from other meanings badly: it accepts one of the draft's three
violations, and it warns of conforming intents in other words. So it only warns, and refuses only if requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agtphost.agis.findings import Finding, Severity
from agtphost.agis.passes.completeness import FURTHEST
from agtphost.agis.passes.subject import Subject

WARN, FAIL = 0.3, 0.1
"""The draft's thresholds."""


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """A measure of similarity with its thresholds."""

    measure: Callable[[Sequence[tuple[str, str]]], Sequence[float]]
    """Returns the cosine similarities of methods, in lower case, with their intents."""

    warn: float = WARN
    """Below this, a warning is reported."""

    fail: float | None = None
    """Below this, the document does not conform; None: never."""


def check(subject: Subject, similarity: Similarity) -> Iterator[Finding]:
    """Yield the intents that are not similar to their methods."""
    told = [
        (endpoint, intent)
        for endpoint in subject.document.endpoints
        if isinstance(intent := endpoint.semantic.get("intent"), str) and 0 < len(intent.strip()) <= FURTHEST
    ]
    near = similarity.measure([(endpoint.method.lower(), intent) for endpoint, intent in told]) if told else []
    for (endpoint, _), cosine in zip(told, near, strict=True):
        if cosine >= similarity.warn and (similarity.fail is None or cosine >= similarity.fail):
            continue
        failed = similarity.fail is not None and cosine < similarity.fail
        least = similarity.fail if failed else similarity.warn
        yield subject.finding(
            "6-dissimilar",
            endpoint.name,
            endpoint.place("semantic", "intent"),
            f"the intent's similarity to {endpoint.method} is {cosine:.2f}, which is less than {least:g}",
            f"begin it with {endpoint.verb}",
            Severity.ERROR if failed else None,
        )
