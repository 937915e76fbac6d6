"""Entries, queries, and ranking: by words, and by meaning if there are vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import nlargest
from threading import Lock
from typing import Any

from agtphost.search.languages import language_of, lists
from agtphost.search.lexical import Lexicon
from agtphost.search.word_stems import split_name

WORDS = 0.1
"""Weight that BM25 adds to the cosine, for its best entry."""

LEAST = 0.1
"""The least cosine of an entry that is found without a word of the query."""

NEAR = 0.5
"""Least similarity of such an entry, relative to the most similar one."""

OCTETS = 4
"""Octets of a vector's number."""

LOWEST = 1e-6
"""The score of an entry that has a word of the query but another meaning."""

LANGUAGE = 0.15
"""Share of the gap to a full score that an entry gets for listing the requested language."""


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """An entry that can be found; equal entries are found alike."""

    name: str
    """The name; its words weigh most; ``create_issue`` and ``createIssue`` have two words."""

    text: str
    languages: tuple[str, ...] = ()
    """Language tags (BCP 47)."""

    @property
    def embedding_text(self) -> str:
        """Return the whole text, as an embedder reads it."""
        name = split_name(self.name)
        return f"{name}: {self.text}" if self.text else name

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of :attr:`embedding_text`."""
        return sha256(self.embedding_text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A query with its filters and the part of the result to return."""

    text: str | None
    """None: everything, in the order of the entries."""

    among: bytes | None = None
    """1 or 0 for each entry: whether the caller may know of it; None: all."""

    admits: Callable[[int], bool] | None = None
    """
    Returns whether an entry meets the query's filters, by its number; called for no more entries than needed.

    Entries that the caller may not know of must be excluded by :attr:`among`, because the rarity of words may be
    counted over entries that this filter excludes.
    """

    offset: int = 0
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    engine: str
    """The engine that ranked: ``bm25``, or the kind of embedder; empty if everything was returned."""

    total: int
    hits: tuple[tuple[int, float], ...]
    """Numbers of entries from ``offset`` on, best first, each with its score: 0 to 1, higher is better."""

    degraded: str = ""
    """Why it is not the configured engine."""


class Index:
    """
    Index that ranks entries. It is built in the thread that first searches, and changed only by :meth:`give`.

    :param entries: entries in a fixed order; equal scores keep it.
    """

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        self.entries = entries
        self._lock = Lock()
        self._lexicon: Lexicon | None = None
        self._vectors: Any = None
        self._speaking = [number for number, entry in enumerate(entries) if entry.languages]

    @property
    def width(self) -> int:
        """Return the numbers of a vector; 0 while it searches by words only."""
        return 0 if self._vectors is None else int(self._vectors.shape[1])

    def give(self, octets: bytes | bytearray, rows: Sequence[int]) -> None:
        """
        Set the vectors, to search by meaning from now on.

        :param octets: vectors as from :meth:`agtphost.iagtp.IEmbedder.embed`, of the same length, concatenated; empty:
            search by words only again.
        :param rows: the vector's row for each entry.
        """
        import numpy

        if not rows:
            self._vectors = None
            return
        matrix = numpy.frombuffer(octets, dtype="<f4").reshape(max(rows) + 1, -1)
        in_order = all(row == number for number, row in enumerate(rows))
        self._vectors = matrix if in_order else matrix[list(rows)]

    def search(self, wanted: SearchQuery, vector: bytes | None = None, engine: str = "bm25") -> SearchResult:
        """
        Rank the entries, in any thread.

        :param vector: vector of the query; None: search by words only.
        :param engine: the engine that made the vector.
        """
        among = b"\1" * len(self.entries) if wanted.among is None else wanted.among
        if wanted.text is None:
            return self._everything(wanted, among)
        lexicon = self._read()
        language = language_of(wanted.text)
        among = lexicon.filter_admitted(wanted.text, among, wanted.admits)
        # Another thread may remove the vectors while this runs.
        matrix = self._vectors
        if vector is not None and matrix is not None and matrix.shape[1] * OCTETS == len(vector):
            scores = _fuse_scores(lexicon, wanted, among, matrix, vector)
        else:
            engine = "bm25"
            found, most = lexicon.scores(wanted.text, among)
            scores = [score / most for score in found]
        if language:
            self._boost(scores, language, among, wanted)
        return SearchResult(engine=engine, total=len(scores) - scores.count(0.0), hits=_window(scores, wanted))

    def _everything(self, wanted: SearchQuery, among: bytes) -> SearchResult:
        numbers = (n for n, there in enumerate(among) if there and (wanted.admits is None or wanted.admits(n)))
        found = list(numbers)
        window = found[wanted.offset : wanted.offset + wanted.limit]
        return SearchResult(engine="", total=len(found), hits=tuple((number, 1.0) for number in window))

    def _boost(self, scores: list[float], language: str, among: bytes, wanted: SearchQuery) -> None:
        """Move entries that list the language before equal ones, also those that only match by language."""
        for number in self._speaking:
            if among[number] and lists(self.entries[number].languages, language):
                score = scores[number]
                if score or wanted.admits is None or wanted.admits(number):
                    scores[number] = score + LANGUAGE * (1 - score)

    def _read(self) -> Lexicon:
        with self._lock:
            if self._lexicon is None:
                self._lexicon = Lexicon((entry.name, entry.text) for entry in self.entries)
            return self._lexicon


def _window(scores: list[float], wanted: SearchQuery) -> tuple[tuple[int, float], ...]:
    """Return the best from ``offset`` on; equal ones in their order."""
    last = wanted.offset + wanted.limit
    least = min(nlargest(last, scores), default=0.0)
    best = [(-score, number) for number, score in enumerate(scores) if score >= least and score]
    best.sort()
    return tuple((number, round(min(-score, 1.0), 4)) for score, number in best[wanted.offset : last])


def _fuse_scores(lexicon: Lexicon, wanted: SearchQuery, among: bytes, matrix: Any, vector: bytes) -> list[float]:
    """Return the combined score of each entry with a word of the query or a similar meaning; 0 for the others."""
    import numpy

    # BLAS is not used: its threads spin for a while after each product.
    cosine = numpy.einsum("ij,j->i", matrix, numpy.frombuffer(vector, dtype="<f4"))
    found, _ = lexicon.scores(wanted.text or "", among)
    said = numpy.array(found, dtype="f4")
    there = numpy.frombuffer(among, dtype="u1") != 0
    nearest = float(cosine[there].max(initial=0.0))
    near = there & (cosine >= max(LEAST, NEAR * nearest))
    if wanted.admits is not None:
        # Entries with a word of the query were already checked.
        for number in numpy.flatnonzero(near & (said == 0)).tolist():
            near[number] = wanted.admits(number)
    best = said.max(initial=0.0)
    fused = (cosine + WORDS * said / best if best else cosine) / (1 + WORDS)
    scores: list[float] = numpy.where(near | (said > 0), numpy.clip(fused, LOWEST, 1.0), 0.0).tolist()
    return scores
