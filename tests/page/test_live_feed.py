"""One viewer's feed, on a clock that the test moves: how much it is sent, and when it is closed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.identity.encoding import encode
from agtphost.page import live_feed
from agtphost.page.live_feed import (
    FEED_SECONDS,
    LINES_PER_UPDATE,
    MOST_FEEDS,
    MOST_UNREAD,
    UPDATE_SECONDS,
    LiveFeeds,
    line_of,
)
from agtphost.testing import MemoryHost
from agtphost.vocabulary import jsontext
from tests.bench.viewed import bench
from tests.function_calls import count_functions


class Channel:
    """As far as a feed asks."""

    is_ending = False


class Reading:
    """A request whose answer is kept; its peer reads, or does not."""

    def __init__(self) -> None:
        self.responseHeaders = Headers()
        self.channel = Channel()
        self.written: list[bytes] = []
        self.lost = self.finished = False
        self.producer: Any = None
        self._ended: Deferred[None] = Deferred()

    def notifyFinish(self) -> Deferred[None]:
        return self._ended

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def write(self, octets: bytes) -> None:
        self.written.append(octets)

    def finish(self) -> None:
        self.finished = True
        self._ended.callback(None)

    def loseConnection(self) -> None:
        self.lost = True

    def leave(self) -> None:
        self._ended.errback(Failure(ConnectionError()))


NUMBERS = count(1)


def group(size: int, path: str = "/a") -> ObservedGroup:
    members = {"method": "QUERY", "path": path, "status": 200}
    records = [
        ObservedRecord(f"{next(NUMBERS):064x}", "2026-11-22T00:00:00Z", "", n + 1, members=members) for n in range(size)
    ]
    return ObservedGroup(records, 0.001)


def opened(closed: Callable[[], object] = lambda: None) -> tuple[Clock, LiveFeeds, Reading]:
    clock = Clock()
    viewings = LiveFeeds(clock)  # type: ignore[arg-type]
    request = Reading()
    viewings.open(request, closed)  # type: ignore[arg-type]
    return clock, viewings, request


def test_there_are_four_updates_a_second() -> None:
    """However often something is committed; each is one write."""
    clock, viewings, request = opened()
    begun = len(request.written)
    for _ in range(100):
        viewings.saw(group(1))
        clock.advance(0.01)
    assert len(request.written) - begun == 4
    assert b"".join(request.written).count(b"data: {") == 100 - viewings_waiting(request)


def viewings_waiting(request: Reading) -> int:
    """Lines that the next update will have."""
    return len(request.producer._waiting)


def test_what_is_not_shown_is_counted() -> None:
    """The newest lines are shown, after the number of the others."""
    clock, viewings, request = opened()
    viewings.saw(group(LINES_PER_UPDATE * 3, "/old"))
    viewings.saw(group(LINES_PER_UPDATE, "/new"))
    clock.advance(UPDATE_SECONDS)
    last = request.written[-1]
    assert last.startswith(b"event: skipped\ndata: %d\n\n" % (LINES_PER_UPDATE * 3))
    assert last.count(b"/new") == LINES_PER_UPDATE and b"/old" not in last


def test_a_viewer_that_does_not_read_is_let_go() -> None:
    """After 1 MiB; one that pauses and reads again is not."""
    over: list[int] = []
    clock, viewings, request = opened(lambda: over.append(1))
    request.producer.pauseProducing()
    sent = 0
    while not request.lost:
        viewings.saw(group(LINES_PER_UPDATE, "/" + "x" * 190))
        clock.advance(UPDATE_SECONDS)
        sent += 1
        assert sent < 1_000
    assert sum(map(len, request.written)) <= MOST_UNREAD + 1_000
    assert (over, len(viewings)) == ([1], 0)
    clock, viewings, request = opened()
    for _ in range(sent * 2):
        request.producer.pauseProducing()
        viewings.saw(group(LINES_PER_UPDATE, "/" + "x" * 190))
        clock.advance(UPDATE_SECONDS)
        request.producer.resumeProducing()
    assert not request.lost


def test_a_feed_ends_after_five_minutes_and_with_its_connection() -> None:
    """Then it is asked for anew, by whoever may still look; what closes it is told once."""
    over: list[int] = []
    clock, viewings, request = opened(lambda: over.append(1))
    clock.pump([UPDATE_SECONDS] * int(FEED_SECONDS / UPDATE_SECONDS + 1))
    assert request.finished and over == [1] and len(viewings) == 0
    assert clock.getDelayedCalls() == []
    clock, viewings, request = opened(lambda: over.append(1))
    request.channel.is_ending = True
    clock.advance(UPDATE_SECONDS)
    assert request.finished and over == [1, 1]
    clock, viewings, request = opened(lambda: over.append(1))
    request.leave()
    assert over == [1, 1, 1] and len(viewings) == 0 and clock.getDelayedCalls() == []


def test_an_event_of_the_host_is_shown_as_what_it_is() -> None:
    """Its members are in what was signed: it is neither nameless nor a stranger's call, and names the operator."""
    signed = {"event_type": "configuration-adopted", "status": 200, "operator": {"name": "admin", "key": "sha256:00"}}
    record = ObservedRecord("ab" * 32, "2026-11-30T00:00:00Z", f"e30.{encode(jsontext.encode(signed)).decode()}.AA", 1)
    assert line_of(record)["cells"][1:5] == ["configuration-adopted", "admin (operator)", "200", ""]
    unreadable = line_of(ObservedRecord("ab" * 32, "2026-11-30T00:00:00Z", "", 1))
    assert unreadable["cells"][1:4] == ["event", "-", "-"]


def test_a_feed_ends_with_its_session() -> None:
    """Before each update it is asked whether the session still counts; what waits is not sent after that."""
    clock, counting, request = Clock(), [True], Reading()
    viewings = LiveFeeds(clock, lambda session: counting[0])  # type: ignore[arg-type]
    viewings.open(request, lambda: None, session=object())  # type: ignore[arg-type]
    viewings.saw(group(1))
    clock.advance(UPDATE_SECONDS)
    assert len(request.written) == 2 and not request.finished
    counting[0] = False
    viewings.saw(group(1))
    clock.advance(UPDATE_SECONDS)
    assert request.finished and len(request.written) == 2 and len(viewings) == 0


def reopened(viewings: LiveFeeds, clock: Clock, after: str) -> bytes:
    """What a feed sends first to a browser that had one."""
    request = Reading()
    viewings.open(request, lambda: None, after=after)  # type: ignore[arg-type]
    clock.advance(UPDATE_SECONDS)
    return b"".join(request.written)


def test_a_browser_that_comes_back_gets_what_it_missed() -> None:
    """All that came since its last update, or a word that calls may be missing."""
    clock, viewings, request = opened()
    viewings.saw(group(3, "/shown"))
    clock.advance(UPDATE_SECONDS)
    viewings.saw(group(1, "/waits"))
    viewings.end_all()
    assert b"/waits" not in b"".join(request.written)
    last = request.written[-1].rpartition(b"id: ")[2].strip().decode()
    viewings.saw(group(2, "/between"))
    found = reopened(viewings, clock, last)
    assert (found.count(b"/waits"), found.count(b"/between"), found.count(b"/shown")) == (1, 2, 0)
    assert b"event: gap" not in found and viewings.place.encode() in found
    assert b"data: {" not in reopened(viewings, clock, viewings.place)
    viewings.saw(group(LINES_PER_UPDATE, "/many"))
    assert b"event: gap" in reopened(viewings, clock, last)
    for wrong in ("x.1", "x", f"{viewings.place.partition('.')[0]}.-1", f"{last}\u0663", "." + "9" * 10_000):
        found = reopened(viewings, clock, wrong)
        assert b"event: gap" in found and b"data: {" not in found
    assert b"data: {" not in reopened(viewings, clock, "")


def test_there_is_room_for_sixteen() -> None:
    """And for one more once one is gone."""
    clock = Clock()
    viewings = LiveFeeds(clock)  # type: ignore[arg-type]
    requests = [Reading() for _ in range(MOST_FEEDS)]
    for request in requests:
        assert not viewings.is_full
        viewings.open(request, lambda: None)  # type: ignore[arg-type]
    assert viewings.is_full
    requests[0].leave()
    assert not viewings.is_full


def test_a_line_is_written_out_once_for_all_and_only_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand records in a tick fifty, however many look; each is sent the same."""
    written: list[str] = []

    def counted(record: Any) -> Any:
        written.append(record.audit_id)
        return line_of(record)

    monkeypatch.setattr(live_feed, "line_of", counted)
    clock = Clock()
    viewings = LiveFeeds(clock)  # type: ignore[arg-type]
    requests = [Reading() for _ in range(MOST_FEEDS)]
    for request in requests:
        viewings.open(request, lambda: None)  # type: ignore[arg-type]
    for _ in range(100):
        viewings.saw(group(100))
    assert written == []
    clock.advance(UPDATE_SECONDS)
    assert len(written) == len(set(written)) == LINES_PER_UPDATE
    assert len({request.written[-1] for request in requests}) == 1


def call_functions() -> int:
    """Functions of Python of a call in memory."""
    host = MemoryHost()
    host.endpoint("QUERY", "/words", lambda context: {"echo": context.input["text"]}, {"text": "string"})
    demo = host.agent("demo")

    def call() -> None:
        assert host.call("QUERY", "/words", {"text": "tea"}, caller=demo).status == 200

    call()
    return count_functions(call).total()


def feed_functions(lines: int) -> float:
    """
    Functions of Python that a feed for one calls for each of 1,000 records a second, which come one by one.

    :param lines: of which this many are written out at each tick, by a feed that spares nothing.
    """
    clock, viewings, _ = opened()
    groups = [group(1) for _ in range(1_000)]

    def second() -> None:
        for number, each in enumerate(groups, 1):
            viewings.saw(each)
            if number % 250 == 0:
                clock.advance(UPDATE_SECONDS)
                for _ in range(lines):
                    line_of(each.records[0])

    return count_functions(second).total() / len(groups)


SHARE = 0.03
"""Of the functions of a call, at most: what one viewer costs. No busy machine changes their number."""


def test_a_viewer_costs_three_hundredths_of_a_call_at_most() -> None:
    """A call in memory, which has neither TLS nor a disk."""
    call, feed = call_functions(), feed_functions(0)
    print(f"{feed:.2f} of {call} functions: {feed / call:.2%}")
    assert feed < SHARE * call


def test_control_a_feed_that_writes_out_everything_is_noticed() -> None:
    """Lines of skipped records as well, for each of ten who look."""
    call, feed = call_functions(), feed_functions(2_500)
    print(f"{feed:.2f} of {call} functions: {feed / call:.2%}")
    assert feed > SHARE * call


@pytest.mark.release
@pytest.mark.slow
def test_the_benchmark_measures_what_it_says() -> None:
    """The host answers with and without a viewer, who is shown calls."""
    found = bench(0.4, 2)
    rates, events = found["requests_per_cpu_second"], found["events"]
    assert isinstance(rates, dict) and set(rates) == {"alone", "viewed"} and min(rates.values()) > 10
    assert isinstance(events, int) and events > LINES_PER_UPDATE
