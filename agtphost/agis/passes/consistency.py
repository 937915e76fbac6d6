"""
Pass 6: an intent that says what its method says (AGIS v01 sections 6.1 and 6.3).

The verb that an intent begins with is compared with the method: what finds
does not create, what books does not return lists. That catches what the
draft's examples show, offline and the same every time; the similarity of
embeddings, which the draft suggests, passes one of its three violations and
warns of four conforming examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agtphost.agis.document import Endpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.completeness import FURTHEST
from agtphost.agis.passes.instead import acceptable
from agtphost.agis.passes.subject import Subject
from agtphost.agis.words import Effect, Words

_FIRST = re.compile(r"[A-Za-z]+")
_STORE = re.compile(r"\b(?:into|from|in|of) the \S+ (?:table|index|queue|collection|cache)\b", re.IGNORECASE)
"""Of a computer, or of a kitchen, a waiting room and a museum."""

_INTERNAL = re.compile(
    r"\b(?:record|document|entry|entries|item|message|value|key)s?\b.{0,40} (?:into|from|in|of) the \S+"
    r" (?:table|index|queue|collection|cache)\b|\b(?:database|SQL|stored procedure)\b"
    r"|\b(?:rows?|columns?) (?:of|in|into|from|to)\b|\bcalls the \S+ (?:API|service|function|endpoint)\b"
    r"|\b(?:HTTP|REST|API|RPC) (?:call|request)\b",
    re.IGNORECASE,
)
_ADVERBS = re.compile(r"\b[a-z]{5,}+(?<=ly)\b")
_AND = re.compile(r"\W*[A-Za-z]++(?:,? (?:and then|and|then)|,) ([A-Za-z]++)")
_AGAINST = {
    (Effect.READS, Effect.ACTS): True,
    (Effect.READS, Effect.CREATES): True,
    (Effect.ACTS, Effect.READS): True,
    (Effect.CREATES, Effect.READS): False,
    (Effect.ANALYSES, Effect.ACTS): False,
    (Effect.ACTS, Effect.ANALYSES): False,
}
"""Method and intent that do not go together: whether that is sure, or to be looked at."""


def check(subject: Subject) -> Iterator[Finding]:
    """Which intents say something else."""
    for endpoint in subject.document.endpoints:
        intent = endpoint.semantic.get("intent")
        if isinstance(intent, str) and intent.strip() and len(intent) <= FURTHEST:  # Pass 5 says of others.
            yield from _findings(subject, endpoint, intent)


def _findings(subject: Subject, endpoint: Endpoint, intent: str) -> Iterator[Finding]:
    at, method = endpoint.place("semantic", "intent"), endpoint.verb
    found = _INTERNAL.search(intent)
    if found is not None:
        message = f"the intent tells what the system does inside ({found[0]!r})"
        yield subject.finding("6-internal", endpoint.name, at, message, "say what the agent gets done")
    elif (found := _STORE.search(intent)) is not None:
        message = f"the intent may tell what the system does inside ({found[0]!r})"
        yield subject.finding("6-doubtful", endpoint.name, at, message, "say what the agent gets done")
    verb = head_verb(subject.words, intent)
    if verb is None or verb == method:
        return
    if subject.words.opposites(method, verb):
        message = f"{method} and an intent that begins with {verb} are opposites"
        said = acceptable(subject.words, verb)
        fix = f"say {method}, or make it {said}" if said else f"say {method}"
        yield subject.finding("6-contradiction", endpoint.name, at, message, fix)
        return
    effects = subject.words.effect(method), subject.words.effect(verb)
    if effects[0] in (Effect.ACTS, Effect.CREATES) and _acts_too(subject.words, method, intent):
        return
    sure = _AGAINST.get(effects)
    listed = method in subject.words.effects
    if sure is None or not (sure or listed):
        return
    two_senses = method in subject.words.unsure or verb in subject.words.unsure_said
    sure = sure and listed and not two_senses  # Of a verb that is in no list of what verbs do, nobody can be sure.
    message = f"{method} {effects[0].value}, and an intent that begins with {verb} {effects[1].value}"
    rule = "6-contradiction" if sure else "6-doubtful"
    said = acceptable(subject.words, verb)
    fix = f"make it {said} {endpoint.path}, or say the intent anew" if said else "say the intent anew"
    yield subject.finding(rule, endpoint.name, at, message, fix)


def _acts_too(known: Words, method: str, intent: str) -> bool:
    """Whether an intent goes on to act after what it begins with: ``Finds and books a table``."""
    found = _AND.match(_ADVERBS.sub("", intent.strip()))
    lemma = known.lemma(found[1]) if found is not None else ""
    return lemma == method or (known.is_verb(lemma) and known.effect(lemma) in (Effect.ACTS, Effect.CREATES))


def head_verb(known: Words, intent: str) -> str | None:
    """The verb that an intent begins with, in its base form; None where it begins with something else."""
    rest = _ADVERBS.sub("", intent.strip()[:1].lower() + intent.strip()[1:])
    found = _FIRST.search(rest)
    if found is None:
        return None
    lemma = known.lemma(found[0])
    return lemma if known.is_verb(lemma) else None
