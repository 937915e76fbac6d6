"""Provide the search engines of a host: one for each ``[search]``, kept over reloads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.config import Config
from agtphost.config.search import SearchSection
from agtphost.errors import Problem
from agtphost.iagtp import IEmbedder
from agtphost.search.engine import EmbedderError, SearchEngine
from agtphost.search.models import Model, OnnxModel, StaticVectors, ThreadedEmbedder
from agtphost.search.remote import RemoteEmbedder
from agtphost.search.vectors import FILE, VectorStore
from agtphost.upstream.https import trust_of

log = Logger()

Run = Callable[..., Awaitable[Any]]


def model_of(config: Config, problems: list[Problem]) -> Model | None:
    """
    Return the model of ``[search]`` if it runs here; an operator's model is loaded now, because it may be unusable.

    :param problems: collects problems.
    """
    search = config.search
    if search.engine == "static":
        return StaticVectors()
    if search.engine != "onnx":
        return None
    model = OnnxModel(search.folder(config.folder))
    try:
        model.load()
    except EmbedderError as error:
        line, _ = config.place("search", "model")
        hint = "name a directory with a sentence transformer in ONNX and its tokenizer.json"
        problems.append(Problem(message=f"[search] model: {error}", file=str(config.file), line=line, hint=hint))
        return None
    return model


class SearchEngines:
    """
    A factory of search engines that keeps them: configurations with equal ``[search]`` share one and its vectors.

    :param run: runs work off the reactor.
    """

    def __init__(self, reactor: Any, run: Run) -> None:
        self._reactor = reactor
        self._run = run
        self._store: VectorStore | None = None
        self._engines: list[tuple[SearchSection, str, SearchEngine]] = []

    def engine_for(self, config: Config, model: Model | None, *, volatile: bool) -> SearchEngine:
        """
        Return the engine of a configuration.

        :param model: the one that was read for it.
        :param volatile: whether nothing is kept in files.
        """
        if self._store is None:
            self._store = VectorStore(None if volatile else config.host.state_dir / FILE)
        embedder = self._embedder(config.search, model)
        name = "" if embedder is None else embedder.name
        for section, made, engine in self._engines:
            if (section, made) == (config.search, name):
                return engine
        engine = SearchEngine(self._run, self._reactor, embedder, self._store)
        self._engines.append((config.search, name, engine))
        if isinstance(embedder, ThreadedEmbedder):
            # So that a production host uses its 36 MiB from the start, not from the first search.
            Deferred.fromCoroutine(embedder.load()).addErrback(_log_load_failure)
        return engine

    def keep_only(self, search: SearchSection) -> None:
        """
        Drop the other engines, and close their connections.

        :param search: of the configuration in force.
        """
        # An operator's model may have changed under an equal section; the newest counts.
        kept = [made for made in self._engines if made[0] == search][-1:]
        for made in self._engines:
            if made not in kept:
                made[2].close()
        self._engines = kept

    def _embedder(self, search: SearchSection, model: Model | None) -> IEmbedder | None:
        if model is not None:
            return ThreadedEmbedder(model, self._run)
        if search.engine != "http":
            return None
        remote: IEmbedder = RemoteEmbedder(
            self._reactor,
            self._run,
            url=search.url,
            model=search.model,
            headers={} if search.key is None else {"authorization": f"Bearer {search.key.reveal()}"},
            trust=trust_of(search.ca),
            allowed=search.allow_addresses,
            timeout=search.timeout,
        )
        return remote


def _log_load_failure(failure: Failure) -> None:
    """Log the error; each search reports it too, and tries again."""
    failure.trap(EmbedderError)  # type: ignore[no-untyped-call]
    log.warn("[search] the model could not be loaded; searches compare words only: {why}", why=str(failure.value))
