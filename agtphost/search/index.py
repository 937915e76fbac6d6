"""Entries, what is wanted of them, and their ranking: by words, and by meaning where there are vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import nlargest
from threading import Lock
from typing import Any

from agtphost.search.languages import language_of, lists
from agtphost.search.lexical import Lexicon
from agtphost.search.words import spoken

WORDS = 0.1
"""What BM25 adds to the cosine, of the entry that it finds best."""

LEAST = 0.1
"""The least cosine of an entry that is found without a word of the query."""

NEAR = 0.5
"""How near such an entry is, compared with the nearest, at the least."""

OCTETS = 4
"""Of a number of a vector."""

LOWEST = 1e-6
"""The score of an entry that has a word of the query, and whose meaning is another one."""

LANGUAGE = 0.15
"""How much of what an entry lacks of a full score it gets for listing the language that is asked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that could be found. Equal entries are found alike."""

    name: str
    """Its words weigh most; those of ``create_issue`` and ``createIssue`` are two."""

    text: str
    languages: tuple[str, ...] = ()
    """BCP 47."""

    @property
    def said(self) -> str:
        """All of it, as an embedder reads it."""
        name = spoken(self.name)
        return f"{name}: {self.text}" if self.text else name

    @property
    def digest(self) -> bytes:
        """SHA-256 of that."""
        return sha256(self.said.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked for, and what of it is told."""

    text: str | None
    """None: everything, in the order of the entries."""

    among: bytes | None = None
    """For each entry 1 or 0: those that there are for whoever asks; None: all."""

    admits: Callable[[int], bool] | None = None
    """
    What else whoever asks wants of an entry, by its number: asked of no more of them than it takes. What it may not
    know of is not for this, but for :attr:`among`: how rare words are may be counted over what this leaves out.
    """

    offset: int = 0
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer."""

    engine: str
    """What ranked: ``bm25``, or the kind of embedder; empty where everything was wanted."""

    total: int
    hits: tuple[tuple[int, float], ...]
    """Numbers of entries from ``offset`` on, best first, each with its score: 0 to 1, higher is better."""

    degraded: str = ""
    """Why it is not the engine that is configured."""


class Index:
    """
    Ranks entries. Made of them in the thread that first searches, and never changed but by :meth:`give`.

    :param entries: in an order that stays; equal scores keep it.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self._lock = Lock()
        self._lexicon: Lexicon | None = None
        self._vectors: Any = None
        self._speaking = [number for number, entry in enumerate(entries) if entry.languages]

    @property
    def width(self) -> int:
        """Numbers of a vector; 0 while it finds by words alone."""
        return 0 if self._vectors is None else int(self._vectors.shape[1])

    def give(self, octets: bytes | bytearray, rows: Sequence[int]) -> None:
        """
        Find by meaning from now on.

        :param octets: vectors, as :meth:`agtphost.iagtp.IEmbedder.embed` gives them, of one length, one behind the
            other; none: find by words alone again.
        :param rows: which of them is each entry's.
        """
        import numpy

        if not rows:
            self._vectors = None
            return
        matrix = numpy.frombuffer(octets, dtype="<f4").reshape(max(rows) + 1, -1)
        in_order = all(row == number for number, row in enumerate(rows))
        self._vectors = matrix if in_order else matrix[list(rows)]

    def search(self, wanted: Wanted, vector: bytes | None = None, engine: str = "bm25") -> Found:
        """
        Rank, in any thread.

        :param vector: that of the query; None: by words alone.
        :param engine: of that vector.
        """
        among = b"\1" * len(self.entries) if wanted.among is None else wanted.among
        if wanted.text is None:
            return self._everything(wanted, among)
        lexicon = self._read()
        language = language_of(wanted.text)
        among = lexicon.matching(wanted.text, among, wanted.admits)
        # Vectors may be taken away while this runs.
        matrix = self._vectors
        if vector is not None and matrix is not None and matrix.shape[1] * OCTETS == len(vector):
            scores = _fused(lexicon, wanted, among, matrix, vector)
        else:
            engine = "bm25"
            found, most = lexicon.scores(wanted.text, among)
            scores = [score / most for score in found]
        if language:
            self._boost(scores, language, among, wanted)
        return Found(engine=engine, total=len(scores) - scores.count(0.0), hits=_window(scores, wanted))

    def _everything(self, wanted: Wanted, among: bytes) -> Found:
        numbers = (n for n, there in enumerate(among) if there and (wanted.admits is None or wanted.admits(n)))
        found = list(numbers)
        window = found[wanted.offset : wanted.offset + wanted.limit]
        return Found(engine="", total=len(found), hits=tuple((number, 1.0) for number in window))

    def _boost(self, scores: list[float], language: str, among: bytes, wanted: Wanted) -> None:
        """Entries that list the language come before others that answer as well, and are found by it alone."""
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


def _window(scores: list[float], wanted: Wanted) -> tuple[tuple[int, float], ...]:
    """The best from ``offset`` on; of equal ones those first that stand first."""
    last = wanted.offset + wanted.limit
    least = min(nlargest(last, scores), default=0.0)
    best = [(-score, number) for number, score in enumerate(scores) if score >= least and score]
    best.sort()
    return tuple((number, round(min(-score, 1.0), 4)) for score, number in best[wanted.offset : last])


def _fused(lexicon: Lexicon, wanted: Wanted, among: bytes, matrix: Any, vector: bytes) -> list[float]:
    """Cosine and BM25 of each entry that has a word of the query, or is near; 0 for the others."""
    import numpy

    # Not by BLAS: its threads go on in circles for a while after each product.
    cosine = numpy.einsum("ij,j->i", matrix, numpy.frombuffer(vector, dtype="<f4"))
    found, _ = lexicon.scores(wanted.text or "", among)
    said = numpy.array(found, dtype="f4")
    there = numpy.frombuffer(among, dtype="u1") != 0
    nearest = float(cosine[there].max(initial=0.0))
    near = there & (cosine >= max(LEAST, NEAR * nearest))
    if wanted.admits is not None:
        # Those with a word of the query were asked about already.
        for number in numpy.flatnonzero(near & (said == 0)).tolist():
            near[number] = wanted.admits(number)
    best = said.max(initial=0.0)
    fused = (cosine + WORDS * said / best if best else cosine) / (1 + WORDS)
    scores: list[float] = numpy.where(near | (said > 0), numpy.clip(fused, LOWEST, 1.0), 0.0).tolist()
    return scores
