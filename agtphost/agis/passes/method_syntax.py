"""Pass 2: a method is one verb in its base form, made only of letters (AGIS v01 section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agtphost.agis.document import AgisEndpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.subject import Subject
from agtphost.agis.passes.suggestions import method_for, split_compound
from agtphost.agis.words import Words, parts, strip_accents

_LETTERS = re.compile(r"[A-Za-z]+", re.ASCII)
_SHORTEST = 4
"""Fewest letters of each of two joined words."""


_LONGEST = 40
"""Most letters of a method that is searched for two words."""


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the faults of the methods."""
    for endpoint in subject.document.endpoints:
        yield from method_findings(subject, endpoint)
    yield from _check_declared(subject)


def _check_declared(subject: Subject) -> Iterator[Finding]:
    """Yield verbs that only the vocabulary writes without capitals; each is reported once."""
    written = {endpoint.method for endpoint in subject.document.endpoints}
    given = subject.document.vocabulary.get("declared_verbs")
    declared = {*given} if isinstance(given, list) else set()
    for index, verb in enumerate(given or ()):
        if verb not in written and verb.upper() in written - declared:
            place = ("vocabulary", "declared_verbs", index)
            message = f"{verb} is not in capitals"
            yield subject.finding("2-case", "vocabulary.declared_verbs", place, message, verb.upper())


def is_one_word(method: str, known: Words) -> bool:
    """Return whether a method is only letters, and not several words in camel case."""
    return _LETTERS.fullmatch(method) is not None and not known.run_together(method)


def method_findings(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    """Yield the faults of one method."""
    method, place = endpoint.method, endpoint.place("method")
    if _LETTERS.fullmatch(method) is None:
        yield _foreign(subject, endpoint)
        return
    if not is_one_word(method, subject.words):
        words = parts(method)
        fix = " ".join(split_compound(subject.words, words))
        yield subject.finding("2-compound", endpoint.name, place, f"{method} is {len(words)} words", fix)
        return
    if method != endpoint.verb:
        yield subject.finding("2-case", endpoint.name, place, f"{method} is not in capitals", endpoint.verb)
    base = subject.words.base_of_method(method)
    if base is not None:
        yield subject.finding(
            "2-inflected", endpoint.name, place, f"{method} is a form of {base}", method_for(subject.words, base)
        )
    elif not subject.words.is_verb(method):
        yield from _two_words(subject, endpoint)


def _foreign(subject: Subject, endpoint: AgisEndpoint) -> Finding:
    """
    Return the finding about other characters than letters: a compound (rule d) if they separate words, otherwise rule
    c.
    """
    method, place = endpoint.method, endpoint.place("method")
    words = parts(method)
    joint = re.search(r"[-_\s]", method)
    if len(words) > 1 and joint is not None:
        fix = " ".join(split_compound(subject.words, words))
        message = f"{method[:64]!r} is {len(words)} words joined by {joint[0]!r}"
        return subject.finding("2-compound", endpoint.name, place, message, fix)
    odd = sorted(set(re.sub(r"[A-Za-z]", "", method, flags=re.ASCII)))
    message = f"{method[:64]!r} has {' '.join(odd)[:32]!r}, but a method may only have letters from A to Z"
    words = parts(strip_accents(method))
    return subject.finding("2-characters", endpoint.name, place, message, words[0] if words else "a verb, such as BOOK")


def _two_words(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    verb, known = endpoint.verb, subject.words
    if len(verb) > _LONGEST:
        return
    for length in range(_SHORTEST, len(verb) - _SHORTEST + 1):
        first, second = verb[:length], verb[length:]
        if first in known.verbs and (second in known.things or second in known.nouns_too):
            message = f"{verb} reads as {first} and {second}"
            fix = f"{first} /{second.lower()}"
            yield subject.finding("2-two-words", endpoint.name, endpoint.place("method"), message, fix)
            return
