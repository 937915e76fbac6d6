"""
The search engine: an embedder and indexes, used outside of the reactor, also while the embedder fails or is not ready.

An index is searched by words until each of its entries has a vector. The first search starts to compute them and waits
for at most :data:`PATIENCE`. The computation continues, and later searches use meaning. After a failure the embedder is
not used for :data:`REST`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from agtphost.iagtp import IEmbedder
from agtphost.search.index import OCTETS, Index, SearchEntry, SearchQuery, SearchResult
from agtphost.search.vectors import NoVectors, VectorStore
from agtphost.vocabulary.lru import keep

log = Logger()

BM25 = "bm25"
"""The engine that is always available."""

PATIENCE = 2.0
"""Seconds that a search waits for the vectors of an index."""

REST = 30.0
"""Seconds for which a failed embedder is not used."""

AT_ONCE = 256
"""Texts in one call of an embedder, between two turns of other work."""

MOST_QUERIES = 256
"""Queries whose vectors are cached."""

VECTORS_PENDING = "the vectors of the entries are still being computed"

Run = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments outside of the reactor."""


T = TypeVar("T")

Making = Deferred["EmbedderError | None"]


class EmbedderError(Exception):
    """Vectors are not available for now; the message says why."""


class SearchEngine:
    """
    Engine that searches indexes, by meaning if possible.

    :param run: runs work outside of the reactor.
    :param embedder: None: search by words only.
    :param store: cache of vectors.
    :param clock: the reactor, for timeouts.
    """

    def __init__(
        self, run: Run, clock: Any, embedder: IEmbedder | None = None, store: VectorStore | None = None
    ) -> None:
        self._run = run
        self._embedder = embedder
        self._store = store or VectorStore(None)
        self._clock = clock
        self._seconds: Callable[[], float] = clock.seconds
        self._making: WeakKeyDictionary[Index, Making] = WeakKeyDictionary()
        self._queries: OrderedDict[str, bytes] = OrderedDict()
        # One piece of work at a time: any number of searches leaves the other threads to other work.
        self._turn = DeferredLock()
        self._retry_at = 0.0
        self._why = ""

    @property
    def name(self) -> str:
        """Return the configured engine."""
        engine: str = BM25 if self._embedder is None else self._embedder.engine
        return engine

    def without_store(self) -> SearchEngine:
        """Return the same engine for texts of callers: their vectors are kept only as long as their index."""
        return SearchEngine(self._run, self._clock, self._embedder, NoVectors())

    @staticmethod
    def index(entries: Sequence[SearchEntry]) -> Index:
        """Return an index over some entries."""
        return Index(entries)

    async def search(self, index: Index, wanted: SearchQuery) -> SearchResult:
        """Search an index; a failing embedder never makes this fail."""
        embedder, vector, why = self._embedder, None, ""
        if embedder is not None and wanted.text is not None and index.entries:
            try:
                vector = await self._query_vector(embedder, index, wanted.text)
            except EmbedderError as error:
                why = str(error)
        found: SearchResult = await self.offload(index.search, wanted, vector, self.name)
        return replace(found, degraded=why) if why else found

    async def offload(self, work: Callable[..., T], *given: Any) -> T:
        """Call a slow function outside of the reactor, when its turn comes."""
        async with self._turn:
            done: T = await self._run(work, *given)
        return done

    def close(self) -> None:
        """Close the embedder's connections; the engine is no longer used."""
        if self._embedder is not None:
            self._embedder.close()

    async def _query_vector(self, embedder: IEmbedder, index: Index, text: str) -> bytes:
        """
        Return the vector of a query, for an index that has vectors.

        :raises EmbedderError: vectors are not available.
        """
        if self._seconds() < self._retry_at:
            raise EmbedderError(self._why)
        if not index.width:
            await self._patiently(self._start_vectors(embedder, index))
        vector = self._queries.get(text)
        if vector is None:
            try:
                (vector,) = await embedder.embed([text])
            except EmbedderError as error:
                self._note_failure(error)
                raise
            keep(self._queries, text, vector, MOST_QUERIES)
        if len(vector) != index.width * OCTETS:
            # The model of this name has changed, so earlier vectors are useless.
            index.give(b"", ())
            await self.offload(self._store.forget)
            raise EmbedderError("its vectors have another length than before")
        return vector

    def _note_failure(self, error: EmbedderError) -> None:
        self._retry_at, self._why = self._seconds() + REST, str(error)
        log.warn("searches are by words alone for {seconds} seconds: {why}", seconds=int(REST), why=str(error))

    def _start_vectors(self, embedder: IEmbedder, index: Index) -> Making:
        """Return the running computation of an index's vectors, started if needed; it fires with the error, if any."""
        making = self._making.get(index)
        if making is None:
            making = self._making[index] = Deferred.fromCoroutine(self._try_make(embedder, index))
            making.addCallback(self._on_vectors_made, index)
        return making

    def _on_vectors_made(self, fault: EmbedderError | None, index: Index) -> EmbedderError | None:
        self._making.pop(index, None)
        if fault is not None:
            self._note_failure(fault)
        return fault

    async def _try_make(self, embedder: IEmbedder, index: Index) -> EmbedderError | None:
        try:
            await self._make(embedder, index)
        except EmbedderError as error:
            return error
        except Exception:
            log.failure("vectors could not be made")
            return EmbedderError("the embedder failed; see the log")
        return None

    async def _make(self, embedder: IEmbedder, index: Index) -> None:
        texts: dict[bytes, str] = await self.offload(_texts, index)
        known: dict[bytes, bytes] = await self.offload(self._store.load, embedder.name, list(texts))
        missing = [digest for digest in texts if digest not in known]
        # All vectors are in one buffer, which the index uses: thousands of separate ones would take as much again.
        table = _Table(list(texts))
        uneven = not await self.offload(table.take, known)
        del known
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            made = dict(zip(some, await embedder.embed([texts[digest] for digest in some]), strict=True))
            await self.offload(self._store.keep, embedder.name, made)
            uneven = not await self.offload(table.take, made) or uneven
        if uneven:
            await self.offload(self._store.forget)
            raise EmbedderError("its vectors have different lengths")
        await self.offload(index.give, table.octets, [table.rows[entry.digest] for entry in index.entries])

    async def _patiently(self, making: Making) -> None:
        """
        Wait for the vectors, for as long as a search may.

        :raises EmbedderError: it failed, or takes longer; then it continues.
        """
        waiting: Making = Deferred()

        def over(fault: EmbedderError | None) -> EmbedderError | None:
            if not waiting.called:
                waiting.callback(fault)
            return fault

        making.addCallback(over)
        if not waiting.called:
            late = self._clock.callLater(PATIENCE, over, EmbedderError(VECTORS_PENDING))
            waiting.addBoth(lambda result: (late.cancel() if late.active() else None, result)[1])
        if (fault := await waiting) is not None:
            raise fault


def _texts(index: Index) -> dict[bytes, str]:
    return {entry.digest: entry.embedding_text for entry in index.entries}


class _Table:
    """
    Vectors of texts in one buffer.

    :param digests: digests of the texts, without duplicates.
    """

    def __init__(self, digests: Sequence[bytes]) -> None:
        self.rows = {digest: row for row, digest in enumerate(digests)}
        self.octets = bytearray()
        self._length = 0

    def take(self, vectors: Mapping[bytes, bytes]) -> bool:
        """Store vectors at their places; return whether all have the same length."""
        for digest, vector in vectors.items():
            if not self._length:
                self._length = len(vector)
                self.octets = bytearray(self._length * len(self.rows))
            if len(vector) != self._length or not vector:
                return False
            begin = self.rows[digest] * self._length
            self.octets[begin : begin + self._length] = vector
        return True
