"""A caller's subscription at the host: begun again where it ended, and never in a loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.client.mcp.addresses import Addresses
from agtphost.client.reply import Reply
from agtphost.mcp.changes import AFTER_REFUSAL, LISTS, REINSTATEMENT_SECONDS, SHORTEST, ChangeFeed
from agtphost.mcp.link import McpHostLink, McpOperation, OnEvent
from agtphost.wire.headers import Headers


class Link:
    """
    A host that acknowledges each subscription.

    :param lasting: whether a subscription lasts until the test ends it; otherwise it ends with its acknowledgement.
    """

    def __init__(self, *, lasting: bool) -> None:
        self.lasting = lasting
        self.refuses = False
        self.held: Deferred[None] | None = None
        """Keeps refusals back until it fires, as a host does for a suspended agent that asked for it."""

        self.waits: list[int] = []
        self.asked: list[Deferred[None]] = []
        self.payloads: list[Mapping[str, Any]] = []

    async def execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        """Answer ``mcp.subscriptions.listen``."""
        assert operation.action == "mcp.subscriptions.listen" and on_event is not None
        self.payloads.append(operation.payload)
        self.waits.append(operation.reinstatement_wait)
        if self.refuses:
            fields = []
            if self.held is not None and operation.reinstatement_wait:
                await self.held
                fields = [("Preference-Applied", f"wait={operation.reinstatement_wait}")]
            return Reply(status=503, text="Service Unavailable", headers=Headers(fields), body=b"{}", request_line=b"")
        event: Mapping[str, Any] = {"type": "acknowledged"}
        on_event(event)
        end: Deferred[None] = Deferred()
        self.asked.append(end)
        if self.lasting:
            await end
        return Reply(status=200, text="OK", headers=Headers([]), body=b"{}", request_line=b"")


def begin(*, lasting: bool) -> tuple[Link, Clock]:
    """Return a host and a clock, with a feed that has begun."""
    link, clock = Link(lasting=lasting), Clock()
    feed = ChangeFeed(cast("McpHostLink", link), Addresses(), clock)
    Deferred.fromCoroutine(feed.begin())
    return link, clock


def begin_and_suspend() -> tuple[Link, Clock, list[str]]:
    """Return a host that refuses an agent with an open subscription, a clock, and the changes that were announced."""
    link, clock = Link(lasting=True), Clock()
    feed, heard = ChangeFeed(cast("McpHostLink", link), Addresses(), clock), list[str]()
    feed.add_listener(lambda change: heard.append(change.method))
    Deferred.fromCoroutine(feed.begin())
    clock.advance(SHORTEST)
    link.refuses = True
    link.asked[0].callback(None)
    clock.advance(0)
    assert heard == list(LISTS.values())
    return link, clock, heard


def test_a_host_that_ends_each_subscription_is_asked_once_a_second() -> None:
    """A host that stops does so until its last connection has ended: each of thousands would be on record."""
    link, clock = begin(lasting=False)
    clock.pump([SHORTEST / 100] * 1_000)
    assert 10 <= len(link.asked) <= 11


def test_a_subscription_that_lasted_is_begun_again_immediately() -> None:
    """Nothing that changes in between would be announced."""
    link, clock = begin(lasting=True)
    clock.advance(SHORTEST)
    assert len(link.asked) == 1
    link.asked[0].callback(None)
    clock.advance(0)
    assert len(link.asked) == 2


def test_lists_are_announced_once_when_the_host_refuses_an_agent_that_listened() -> None:
    """A stopped agent may call nothing that was listed; asking again every minute announces nothing more."""
    link, clock, heard = begin_and_suspend()
    clock.pump([AFTER_REFUSAL] * 3)
    assert len(link.payloads) == 5 and heard == list(LISTS.values())
    link.refuses = False
    clock.advance(AFTER_REFUSAL)
    assert heard == [*LISTS.values()] * 2, "the agent may call again"


def test_a_refused_subscription_is_begun_again_after_longer_and_longer_pauses() -> None:
    """A short suspension ends within a second or two for a client; a long one costs a request a minute."""
    link, clock = begin(lasting=True)
    clock.advance(SHORTEST)
    link.refuses = True
    link.asked[0].callback(None)
    clock.advance(0)
    times: list[float] = []
    while len(link.payloads) < 10:
        clock.advance(SHORTEST)
        times += [clock.seconds() - SHORTEST] * (len(link.payloads) - 2 - len(times))
    assert times == [1, 3, 7, 15, 31, 63, 123, 183]
    link.refuses = False
    clock.advance(AFTER_REFUSAL)
    link.refuses = True
    link.asked[-1].callback(None)
    clock.advance(0)
    before = len(link.payloads)
    clock.advance(SHORTEST)
    assert len(link.payloads) == before + 1, "the agent was reinstated in between"


def test_a_subscription_that_begins_again_leaves_out_what_the_caller_may_not_read() -> None:
    """The first one is refused for such a resource; a later one goes on with the others."""
    link, clock = Link(lasting=True), Clock()
    feed = ChangeFeed(cast("McpHostLink", link), Addresses(), clock)
    Deferred.fromCoroutine(feed.watch(["note://one"]))
    clock.advance(SHORTEST)
    link.asked[0].callback(None)
    clock.advance(0)
    assert [payload.get("optional") for payload in link.payloads] == [None, True]


def test_a_reinstated_agent_subscribes_again_immediately() -> None:
    """The host keeps the refusal back until then; the client of a first subscription is told of a refusal at once."""
    link, clock, heard = begin_and_suspend()
    link.held = Deferred()
    for _ in range(5):
        clock.advance(AFTER_REFUSAL)
    link.refuses = False
    link.held.callback(None)
    clock.advance(0)
    assert heard == [*LISTS.values()] * 2
    assert link.waits == [0, *[REINSTATEMENT_SECONDS] * (len(link.waits) - 1)]


def test_an_agent_that_is_suspended_again_is_announced_again() -> None:
    """After a reinstatement that was announced, and after one that ended before the next subscription began."""
    link, clock, heard = begin_and_suspend()
    link.refuses = False
    clock.advance(AFTER_REFUSAL)
    clock.advance(SHORTEST)
    link.refuses = True
    link.asked[-1].callback(None)
    clock.advance(0)
    assert heard == [*LISTS.values()] * 3
    held = link.held = Deferred[None]()
    clock.advance(SHORTEST)
    link.held = Deferred()
    held.callback(None)  # The agent could call for less than a second: the next subscription is refused too.
    clock.advance(SHORTEST)
    assert heard == [*LISTS.values()] * 4, "clients may have listed while the agent could call"
    clock.advance(SHORTEST)
    assert link.waits[-3:] == [REINSTATEMENT_SECONDS, 0, REINSTATEMENT_SECONDS] and len(heard) == 4 * len(LISTS)


def test_a_refusal_that_was_kept_back_for_its_whole_time_announces_nothing() -> None:
    """The agent stayed suspended, so nothing can have been listed."""
    link, clock, heard = begin_and_suspend()
    held = link.held = Deferred()
    clock.advance(SHORTEST)
    for _ in range(3):
        before, held = held, Deferred()
        link.held = held
        clock.advance(REINSTATEMENT_SECONDS)
        before.callback(None)
        clock.advance(SHORTEST)
    assert link.waits == [0, *[REINSTATEMENT_SECONDS] * 5] and len(heard) == len(LISTS)
