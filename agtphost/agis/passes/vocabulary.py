"""Pass 7: declared verbs are used, and used verbs are declared (AGIS v01 section 8.2)."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.agis.findings import Finding
from agtphost.agis.passes.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Yield verbs that are declared but not used, or used but not declared, and a missing domain."""
    yield from _verbs(subject)
    if "domain" not in subject.document.vocabulary:
        message = "the vocabulary does not declare its domain"
        yield subject.finding("7-domain", "vocabulary.domain", ("vocabulary",), message, "domain: hospitality")


def _verbs(subject: Subject) -> Iterator[Finding]:
    block, element = subject.document.vocabulary, "vocabulary.declared_verbs"
    at = ("vocabulary", "declared_verbs")
    declared = block.get("declared_verbs")
    used = dict.fromkeys(endpoint.verb for endpoint in subject.document.endpoints)
    listed = f"declared_verbs: [{', '.join(used)}]"
    if not isinstance(declared, list):
        yield subject.finding("7-missing", element, ("vocabulary",), "the vocabulary declares no verbs", listed)
        return
    seen: set[str] = set()
    for index, verb in enumerate(declared):
        name = verb.upper()
        if name in seen:
            yield subject.finding("7-twice", element, (*at, index), f"{verb} is declared twice", "remove one of them")
        elif name not in used:
            message = f"{verb} is declared, but no endpoint uses it"
            yield subject.finding("7-unused", element, (*at, index), message, f"remove {verb}")
        seen.add(name)
    for endpoint in subject.document.endpoints:
        if endpoint.verb not in seen:
            seen.add(endpoint.verb)
            message = f"{endpoint.verb} is used, but not declared"
            yield subject.finding("7-undeclared", endpoint.name, endpoint.place("method"), message, listed)
