"""A cache of documents by the caller's authority, valid while their source objects are unchanged."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any

from agtphost.handlers.built_in import Answer

MOST_DOCUMENTS = 32
"""Documents that are kept."""

MOST_OCTETS = 32 * 1024 * 1024
"""Of all of them."""


class KeptDocuments:
    """Answers by key, each with the objects that it was made of; those that were not asked for longest go first."""

    def __init__(self) -> None:
        self._documents: OrderedDict[tuple[Any, ...], tuple[list[Any], Answer]] = OrderedDict()
        self._octets = 0

    def find(self, key: tuple[Any, ...], current: list[Any]) -> Answer | None:
        """Return the cached answer of a key if its source objects are still the current ones."""
        known = self._documents.get(key)
        if known is None or not _same(known[0], current):
            return None
        self._documents.move_to_end(key)
        return known[1]

    def keep(self, key: tuple[Any, ...], current: list[Any], answer: Answer) -> None:
        """Keep an answer, and let go of others."""
        old = self._documents.pop(key, None)
        self._octets += _size(answer) - (0 if old is None else _size(old[1]))
        self._documents[key] = current, answer
        while len(self._documents) > MOST_DOCUMENTS or self._octets > MOST_OCTETS:
            self._octets -= _size(self._documents.popitem(last=False)[1][1])


def _size(answer: Answer) -> int:
    return len(answer.body or b"")


def _same(one: list[Any], other: list[Any]) -> bool:
    """Return whether two lists have the same objects, by identity."""
    return len(one) == len(other) and all(map(operator.is_, one, other))
