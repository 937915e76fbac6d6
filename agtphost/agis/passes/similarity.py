"""
Pass 6 by embeddings, where somebody asks for it: how near an intent is to its method (AGIS v01 section 9).

A measure of closeness tells other words for the same from other things badly:
of the draft's three violations it passes one, and it warns of conforming
intents that say the method in other words. So it warns, and refuses only
where that is asked for.
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
    """A measure, and what is made of it."""

    measure: Callable[[Sequence[tuple[str, str]]], Sequence[float]]
    """The cosine similarities of some methods, in lower case, and their intents."""

    warn: float = WARN
    """Below it somebody should look."""

    fail: float | None = None
    """Below it the document does not conform; None: similarity refuses nothing."""


def check(subject: Subject, similarity: Similarity) -> Iterator[Finding]:
    """Which intents are far from their methods."""
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
