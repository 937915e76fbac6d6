"""Engines for tests: what they do in a thread they do at once, and their embedders do as they are told."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from agtphost.iagtp import IEmbedder
from agtphost.search.engine import EmbedderError, SearchEngine
from agtphost.search.index import Index, SearchEntry, SearchQuery, SearchResult
from agtphost.search.vectors import VectorStore


async def at_once(work: Any, *given: Any) -> Any:
    """Off no reactor."""
    return work(*given)


@implementer(IEmbedder)
class Meanings:
    """
    Knows a few words, each of which means one of some things.

    :param meanings: words of one meaning, together.
    """

    engine = "static"

    def __init__(self, *meanings: str, name: str = "meanings") -> None:
        self._meanings = [frozenset(words.split()) for words in meanings]
        self.name = name
        self.dimensions = len(meanings)
        self.asked: list[list[str]] = []
        self.fault: str = ""
        self.holding: Deferred[None] | None = None

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.asked.append(list(texts))
        if self.holding is not None:
            await self.holding
        if self.fault:
            raise EmbedderError(self.fault)
        return [self._vector(text) for text in texts]

    def close(self) -> None:
        """Nothing is kept."""

    def _vector(self, text: str) -> bytes:
        words = set(text.lower().replace(":", " ").split())
        counts = [float(len(words & meaning)) for meaning in self._meanings]
        length = sum(count * count for count in counts) ** 0.5
        return array("f", [count / length if length else 0.0 for count in counts]).tobytes()


class Searches:
    """One engine and one index, asked from outside."""

    def __init__(self, entries: Sequence[SearchEntry], embedder: Any = None, store: VectorStore | None = None) -> None:
        self.clock = Clock()
        self.engine = SearchEngine(at_once, self.clock, embedder, store)
        self.index = Index(entries)

    def begin(self, text: str | None, **more: Any) -> Deferred[SearchResult]:
        """A search that may take its time."""
        return Deferred.fromCoroutine(self.engine.search(self.index, SearchQuery(text=text, **more)))

    def find(self, text: str | None, **more: Any) -> SearchResult:
        """A search that is answered at once."""
        found: list[SearchResult] = []
        self.begin(text, **more).addCallback(found.append)
        return found[0]

    def names(self, text: str, **more: Any) -> list[str]:
        """What it finds, best first."""
        return [self.index.entries[number].name for number, _ in self.find(text, **more).hits]
