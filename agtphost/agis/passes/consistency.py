"""
Pass 6: agreement of an intent with its method (AGIS v01 sections 6.1 and 6.3).

The acts of an intent are compared with the method: a method that finds does not create, one that locks does not unlock.
This works offline and gives the same result every time. The similarity of embeddings, which the draft suggests, accepts
one of the draft's three violations and warns of four conforming examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agtphost.agis.acts import lexicon
from agtphost.agis.conflicts import find_conflict
from agtphost.agis.confusables import skeleton
from agtphost.agis.document import AgisEndpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.completeness import FURTHEST
from agtphost.agis.passes.subject import Subject
from agtphost.agis.passes.suggestions import acceptable_method
from agtphost.agis.words import Words

_FIRST = re.compile(r"[A-Za-z]+")
_STORE = re.compile(
    r"\b(?:into|from|in|of) the (?!\S+['\u2019]s )\S+ (?:table|index|queue|collection|cache)\b", re.IGNORECASE
)
"""Stores of a computer, but also of a kitchen or a waiting room; "the museum's collection" is left out."""

_INTERNAL = re.compile(
    r"\b(?:inserts?|writes?) .{0,40} into the \S+ (?:table|database)\b"
    r"|\b(?:rows?|columns?|records?) (?:of|in|into|from|to) (?:the |a |an )?(?!(?:the|an?|one|each|this|its)\b)\S+"
    r" database\b"
    r"|\bcalls the \S+ (?:API|service|function|endpoint)\b"
    r"|\b(?:sends|makes|issues|performs) (?:a |an |the )?(?:HTTP|REST|API|RPC) (?:call|request)\b",
    re.IGNORECASE,
)
"""How a service works. Tables, queues, indexes and collections may also be what it is about."""

_CALLERS = frozenset(
    {"CALL", "CHECK", "EXECUTE", "INVOKE", "MONITOR", "PING", "PROBE", "PROXY", "RUN", "TEST", "TRIGGER"}
)
"""Methods that may be about calls and services."""

_DATABASE = re.compile(
    r"\b(?:into|from|in|to) (?:the|a) (?:\S+ )?database\b(?! (?:design|engine|quer(?:y|ies)|schema|server))"
    r"|\bstored procedure\b",
    re.IGNORECASE,
)
_OPERATORS = frozenset(
    {"BACKUP", "CUTOVER", "DUMP", "FAILBACK", "FAILOVER", "MIGRATE", "RECOVER", "REPLICATE", "RESTORE", "SEED"}
)
"""Methods that may be about tables and databases themselves."""

_ADVERBS = re.compile(r"\b[a-z]{5,}+(?<=ly)\b")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the intents that contradict their method."""
    for endpoint in subject.document.endpoints:
        intent = endpoint.semantic.get("intent")
        if isinstance(intent, str) and intent.strip() and len(intent) <= FURTHEST:  # Pass 5 refuses others.
            yield from _findings(subject, endpoint, intent)


def _findings(subject: Subject, endpoint: AgisEndpoint, intent: str) -> Iterator[Finding]:
    at = endpoint.place("semantic", "intent")
    found = _INTERNAL.search(intent)
    internal = False
    if found is not None and endpoint.verb not in _CALLERS:
        internal = True  # An error, next to which a doubt says nothing new.
        message = f"the intent describes the system's internals ({found[0]!r})"
        yield subject.finding("6-internal", endpoint.name, at, message, "describe the agent's goal")
    elif (found := found or _find_store(endpoint.verb, intent)) is not None:
        message = f"the intent may describe the system's internals ({found[0]!r})"
        yield subject.finding("6-doubtful", endpoint.name, at, message, "describe the agent's goal")
    conflict = find_conflict(endpoint.verb, skeleton(intent), lexicon())
    if conflict is not None and (conflict.sure or not internal):
        rule = "6-contradiction" if conflict.sure else "6-doubtful"
        instead = acceptable_method(subject.words, conflict.act) if "-" not in conflict.act else ""
        fix = f"make it {instead} {endpoint.path}, or reword the intent" if instead else "reword the intent"
        yield subject.finding(rule, endpoint.name, at, f"{endpoint.verb} and an intent that {conflict.reason}", fix)


def _find_store(method: str, intent: str) -> re.Match[str] | None:
    """Return where an intent may name a store of the system; None for a method whose object stores are."""
    return None if method in _OPERATORS | _CALLERS else _STORE.search(intent) or _DATABASE.search(intent)


def head_verb(known: Words, intent: str) -> str | None:
    """Return the verb that an intent begins with, in its base form; None if it begins with another word."""
    rest = _ADVERBS.sub("", intent.strip()[:1].lower() + intent.strip()[1:])
    found = _FIRST.search(rest)
    if found is None:
        return None
    lemma = known.lemma(found[0])
    return lemma if known.is_verb(lemma) else None
