"""
Division of a statement into clauses: at commas, conjunctions and words that begin a subordinate clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agtphost.agis.acts import Lexicon

_TOKEN = re.compile(r"[a-z]+(?:['\u2019-][a-z]+)*|[0-9]+|[.;:!?,()]")
ENDS = frozenset(".;:!?")
"""Punctuation after which a sentence begins."""

AND = frozenset({"AND", "OR", "THEN", "BUT", "PLUS", "NOR", "AFTERWARDS", "AFTERWARD", "SUBSEQUENTLY", "FINALLY"})
"""Words that join two clauses."""

_QUESTIONS = frozenset({"HOW", "WHAT", "WHEN", "WHERE", "WHETHER", "WHICH", "WHO", "WHOM"})
"""Words before "to" that make it a question: "where to buy tickets"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    tokens: tuple[str, ...]
    opener: str
    """The word after which it begins; empty for the first clause of a sentence."""

    main: bool
    sentence: int
    first: bool
    """Whether it is the first clause of its sentence that has words."""

    closer: str
    """The word or punctuation that ends it."""


def split_clauses(text: str, known: Lexicon) -> Iterator[Clause]:
    """Yield the clauses of a text without what is in brackets."""
    sentence, main, first = 0, True, True
    # "To" before such a verb ends a phrase: "puts the machine to sleep".
    ends_phrase = known.infinitives
    opener, tokens = "", list[str]()
    all_tokens = [*_tokens(text.replace("in order to", "to")), "."]
    for token, after in zip(all_tokens, [*all_tokens[1:], "."], strict=True):
        ends, joint = token in ENDS, token in AND or token == ","
        phrase = token == "TO" and after in ends_phrase and bool(tokens)
        if phrase or not (ends or joint or _is_subordinator(token, after, known)):
            tokens.append(token)
            continue
        if tokens:
            yield Clause(tokens=tuple(tokens), opener=opener, main=main, sentence=sentence, first=first, closer=token)
            first, tokens = False, []
        if ends:
            sentence, opener, main, first = sentence + 1, "", True, True
        elif joint:
            main = main or token in {",", "THEN", "BUT"}
            opener = token
        else:
            compound = (opener, token) == ("AFTER", "WHICH") or (token == "TO" and opener in _QUESTIONS)
            main, opener = False, f"{opener}-{token}" if compound else token


def _tokens(text: str) -> Iterator[str]:
    """Yield the words and punctuation of a text in capitals, without what is in brackets."""
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[0].upper().replace("\u2019", "'")
        if token in "()":
            depth = max(0, depth + (1 if token == "(" else -1))
        elif not depth:
            yield token


def _is_subordinator(token: str, after: str, known: Lexicon) -> bool:
    """Return whether a word begins a subordinate clause; TO does before a verb, but not before a noun."""
    if token == "TO":
        return after.endswith("LY") or (
            after in known.words.verbs and after not in known.grammar["determiners"] and after != "ZERO"
        )
    if token == "BY":
        return after.endswith("ING")
    return token in known.grammar["subordinate"]
