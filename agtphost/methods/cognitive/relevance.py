"""How well a text answers a question, by the words both have: plain, offline, and the same every time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agtphost.search.word_stems import terms

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[^\W\d_a-z])|\n\s*\n|\n(?=\s*(?:[-*#]|\d+[.)])\s)")

LONGEST_QUESTION = 64
"""Different words of a question that count."""


def sentences(text: str) -> list[str]:
    """Split a text into sentences, list items and headings, each on one line."""
    return [line for part in _SENTENCE_END.split(text) if (line := " ".join(part.split()))]


def said_in(value: Any) -> str:
    """Return the words of a question, which may be text or JSON."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {said_in(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return " ".join(said_in(inner) for inner in value)
    return "" if value is None or isinstance(value, bool) else str(value)


class Question:
    """
    A question with a weight for each of its words.

    :param text: the question.
    :param texts: the terms of everything that could answer; words that are rare there weigh more.
    """

    def __init__(self, text: str, texts: Sequence[Iterable[str]] = ()) -> None:
        self.terms = list(dict.fromkeys(terms(text)))[:LONGEST_QUESTION]
        found = Counter(term for words in texts for term in set(words))
        self._weights = {
            term: math.log(1 + (len(texts) + 1) / (found[term] + 0.5)) if texts else 1.0 for term in self.terms
        }
        self._whole = sum(self._weights.values())

    def __bool__(self) -> bool:
        return bool(self.terms)

    def shared_terms(self, words: Iterable[str]) -> frozenset[str]:
        """Return the question's terms that are among ``words``."""
        return frozenset(self.terms).intersection(words)

    def weight(self, shared: Iterable[str]) -> float:
        """0 to 1: how much of the question these of its terms are."""
        return sum(self._weights[term] for term in shared) / self._whole if self._whole else 0.0

    def confidence(self, words: Iterable[str]) -> float:
        """0 to 1: how much of the question ``words`` have something to say about."""
        return round(self.weight(self.shared_terms(words)), 4)
