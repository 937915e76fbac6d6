"""
BM25 over an inverted index, in which entries that a caller may not know of do not exist.

A database's full-text search weighs words by their rarity among all rows, so the scores of visible rows disclose hidden
ones. Here rarity is counted only among the entries of the query, and the length of an entry is compared with a constant
instead of an average. So a score depends on nothing that is excluded.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import log

from agtphost.search.word_stems import split_name, terms

NAME = 4.0
"""Weight of a word of the name, relative to one of the text."""

SATURATION = 1.2
"""``k1`` of BM25."""

LENGTH = 0.75
"""``b`` of BM25."""

USUAL = 24
"""Words of an entry of average length."""

MOST_WORDS = 32
"""Words of a query that are used."""

RAREST = 5
"""The rarest of them, which are searched; the others match nearly everything."""

TOP = SATURATION + 1
"""Limit of the weight of one word."""

Impacts = tuple["array[int]", "array[float]"]
"""Numbers of the entries that have a word, and its weight in each."""


class Lexicon:
    """
    An inverted index of words.

    :param texts: name and text of each entry.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._words: dict[str, Impacts] = {}
        self.size = 0
        for number, (name, text) in enumerate(texts):
            self._add(number, terms(split_name(name)), terms(text))
            self.size = number + 1

    def _add(self, number: int, name: Sequence[str], text: Sequence[str]) -> None:
        often: dict[str, float] = {}
        for word in name:
            often[word] = often.get(word, 0.0) + NAME
        for word in text:
            often[word] = often.get(word, 0.0) + 1.0
        damped = SATURATION * (1 - LENGTH + LENGTH * (len(name) + len(text)) / USUAL)
        for word, count in often.items():
            found = self._words.get(word)
            if found is None:
                found = self._words[word] = (array("I"), array("f"))
            found[0].append(number)
            found[1].append(count * TOP / (count + damped))

    def filter_admitted(self, query: str, among: bytes, admits: Callable[[int], bool] | None) -> bytes:
        """
        Return ``among`` without the entries that have a word of the query and are not admitted.

        :param among: 1 or 0 for each entry.
        """
        if admits is None:
            return among
        left, asked = bytearray(among), bytearray(self.size)
        for numbers, _ in self._postings_of(query):
            for number in numbers:
                if left[number] and not asked[number]:
                    asked[number] = 1
                    left[number] = admits(number)
        return bytes(left)

    def scores(self, query: str, among: bytes) -> tuple[list[float], float]:
        """
        Return how well each entry matches a query.

        :param among: 1 or 0 for each entry; the others are ignored.
        :return: a score for each entry, 0 if it has no word of the query or is not in ``among``; and an upper bound of
            the scores, more than 0.
        """
        scores = [0.0] * self.size
        whole = sum(among)
        everything = whole == self.size
        counted = [
            (len(numbers) if everything else sum(map(among.__getitem__, numbers)), numbers, impacts)
            for numbers, impacts in self._postings_of(query)
        ]
        there = sorted((each for each in counted if each[0]), key=lambda each: each[0])
        rarest = there[:RAREST]
        # Words without entries still belong to the query, so no text can match it completely.
        absent = min(len(_distinct(query)) - len(there), RAREST - len(rarest))
        most = absent * _rarity(0, whole) * TOP
        for count, numbers, impacts in rarest:
            rarity = _rarity(count, whole)
            most += rarity * TOP
            for number, impact in zip(numbers, impacts, strict=True):
                if among[number]:
                    scores[number] += rarity * impact
        return scores, most or 1.0

    def _postings_of(self, query: str) -> list[Impacts]:
        """Return the entries of each known word of a query."""
        return [found for word in _distinct(query) if (found := self._words.get(word)) is not None]


def _distinct(query: str) -> list[str]:
    return list(dict.fromkeys(terms(query)))[:MOST_WORDS]


def _rarity(count: int, whole: int) -> float:
    """Return the weight of a word that ``count`` of ``whole`` entries have; always more than 0."""
    return log(1 + (whole - count + 0.5) / (count + 0.5))
