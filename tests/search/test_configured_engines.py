"""The model of ``[search]`` is loaded when a host starts, not when somebody searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, globalLogPublisher
from zope.interface import implementer

from agtphost.config.search import SearchSection
from agtphost.search.configured_engines import SearchEngines
from agtphost.search.engine import EmbedderError


class Counted:
    """A model that counts how often it was loaded."""

    engine, name, dimensions = "static", "counted", 1

    def __init__(self, failure: Exception | None = None) -> None:
        self.loads = 0
        self._failure = failure

    def load(self) -> None:
        self.loads += 1
        if self._failure is not None:
            raise self._failure

    def vectors(self, texts: Any) -> Any:
        raise NotImplementedError


async def at_once(function: Callable[..., Any], *given: Any) -> Any:
    """In this thread."""
    return function(*given)


def config() -> Any:
    """As much of a configuration as this needs."""
    return SimpleNamespace(search=SearchSection(engine="static"), host=SimpleNamespace(state_dir=Path()))


def test_a_model_is_loaded_when_its_engine_is_made() -> None:
    """Once: a configuration that says the same has the same engine."""
    searching, first, second = SearchEngines(Clock(), at_once), Counted(), Counted()
    made = searching.engine_for(config(), first, volatile=True)
    assert searching.engine_for(config(), second, volatile=True) is made
    assert (first.loads, second.loads) == (1, 0)


def test_a_model_that_cannot_be_loaded_is_told_of_in_the_log() -> None:
    """The host starts all the same, and searches by words."""
    told: list[str] = []

    @implementer(ILogObserver)
    def observer(event: Any) -> None:
        told.append(str(event.get("why")))

    globalLogPublisher.addObserver(observer)
    try:
        broken: Any = Counted(EmbedderError("no such file"))
        SearchEngines(Clock(), at_once).engine_for(config(), broken, volatile=True)
    finally:
        globalLogPublisher.removeObserver(observer)
    assert told == ["no such file"]
