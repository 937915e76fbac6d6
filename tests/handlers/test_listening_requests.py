"""Requests that wait for news end when their time is up, when the news comes, and when the host stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.methods.inspection.feed import PATIENCE, RecordFeed


def begin(waiting: Any) -> Deferred[Any]:
    """Run a coroutine up to its first wait."""
    return Deferred.fromCoroutine(waiting)


def test_a_wait_ends_with_its_time_its_news_or_the_stop() -> None:
    """Nothing is left behind, and after the stop no wait begins."""
    clock, others = Clock(), []
    listening, news = ListeningRequests(clock), Deferred[None]()
    listening.at_stop(lambda: others.append("ended"))
    timed, told, left = begin(listening.wait(5)), begin(listening.wait(60, news)), begin(listening.wait(60))
    clock.advance(5)
    assert timed.called and not told.called
    news.callback(None)
    assert told.called and not left.called
    listening.stopService()
    assert left.called and others == ["ended"] and clock.getDelayedCalls() == []
    assert begin(listening.wait(60)).called


class NoRecords:
    """A store without records."""

    async def latest(self, *_: object) -> Any:
        return SimpleNamespace(records=[], damaged=[])


def test_a_stop_ends_the_polls_of_a_feed() -> None:
    """A follower of records has an empty answer; it would have held the host up for as long as it waits."""
    clock = Clock()
    listening, open_to_all = ListeningRequests(clock), SimpleNamespace(require_looking=lambda *_: None)
    feed = RecordFeed(NoRecords(), open_to_all, clock, listening, lambda peer, caller: True)  # type: ignore[arg-type]
    asked = {"moment": "goes on", "after": 7, "wait": PATIENCE}
    poll = begin(feed.read(SimpleNamespace(input=asked, peer=None, caller=None)))  # type: ignore[arg-type]
    assert not poll.called
    listening.stopService()
    assert poll.called and poll.result.result == {"records": [], "after": 7} and clock.getDelayedCalls() == []
