"""What is kept of streams for clients that come back, and for how long."""

from __future__ import annotations

import asyncio
import gc

from hypothesis import given
from hypothesis import strategies as st
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from agtphost.bridge.events import Journal, SessionEvents


def said(text: str) -> JSONRPCNotification:
    """A notification."""
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def answer(request: str) -> JSONRPCResponse:
    """The answer to a request."""
    return JSONRPCResponse(jsonrpc="2.0", id=request, result={})


async def heard(store: SessionEvents, last: str) -> tuple[list[JSONRPCMessage], str | None]:
    """What a client hears that comes back with an id; waiting for more ends after a moment."""
    messages: list[JSONRPCMessage] = []

    async def take(event: EventMessage) -> None:
        messages.append(event.message)

    try:
        async with asyncio.timeout(0.2):
            return messages, await store.replay_events_after(last, take)
    except TimeoutError:
        return messages, "waiting"


def test_a_client_hears_what_it_missed_on_its_stream_and_no_other() -> None:
    """AGTP over HTTP: after the id come that stream's messages in order; the answer is the end."""

    async def story() -> None:
        store = Journal().session()
        begin = await store.store_event("1", None)
        first = await store.store_event("1", said("a"))
        await store.store_event("2", said("of another call"))
        await store.store_event("1", said("b"))
        last = await store.store_event("1", answer("1"))
        assert await heard(store, begin) == ([said("a"), said("b"), answer("1")], None)
        assert await heard(store, first) == ([said("b"), answer("1")], None)
        assert await heard(store, last) == ([], None)

    asyncio.run(story())


async def idle() -> None:
    """Until every task waits for something; nothing here waits for another process, or for a time."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_what_comes_later_is_heard_too_without_a_gap() -> None:
    """A client that is back before the answer waits for it; messages that come while it is told others are not lost."""

    async def story() -> None:
        store = Journal().session()
        begin = await store.store_event("1", None)
        await store.store_event("1", said("a"))
        messages: list[JSONRPCMessage] = []

        async def take(event: EventMessage) -> None:
            if not messages:
                await store.store_event("1", said("b"))
            messages.append(event.message)
            await asyncio.sleep(0)

        waiting = asyncio.create_task(store.replay_events_after(begin, take))
        await idle()
        assert messages == [said("a"), said("b")] and not waiting.done()
        await store.store_event("1", answer("1"))
        assert await asyncio.wait_for(waiting, 60) is None
        assert messages[-1] == answer("1")

    asyncio.run(story())


def test_who_resumes_last_has_the_stream() -> None:
    """No message goes to two connections: the earlier one ends."""

    async def story() -> None:
        store = Journal().session()
        begin = await store.store_event("1", None)
        taken: list[list[JSONRPCMessage]] = [[], []]

        async def first(event: EventMessage) -> None:
            taken[0].append(event.message)

        async def second(event: EventMessage) -> None:
            taken[1].append(event.message)

        one = asyncio.create_task(store.replay_events_after(begin, first))
        await idle()
        two = asyncio.create_task(store.replay_events_after(begin, second))
        await idle()
        await store.store_event("1", answer("1"))
        await asyncio.wait_for(asyncio.gather(one, two), 60)
        assert taken == [[], [answer("1")]]

    asyncio.run(story())


def test_the_stream_of_notifications_is_handed_back() -> None:
    """It has no end, so the transport goes on with it."""

    async def story() -> None:
        store = Journal().session()
        begin = await store.store_event(GET_STREAM_KEY, said("a"))
        await store.store_event(GET_STREAM_KEY, said("b"))
        assert await heard(store, begin) == ([said("b")], GET_STREAM_KEY)

    asyncio.run(story())


def test_an_id_of_another_session_means_nothing() -> None:
    """T: a client that got hold of somebody's event id hears nothing of his; the control is his own session."""

    async def story() -> None:
        journal = Journal()
        his, other = journal.session(), journal.session()
        begin = await his.store_event("1", None)
        await his.store_event("1", answer("1"))
        await other.store_event("1", None)
        assert await heard(other, begin) == ([], None)
        assert await heard(other, "no-such-id") == ([], None)
        assert await heard(his, begin) == ([answer("1")], None)

    asyncio.run(story())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3_000)), max_size=60))
def test_never_more_than_the_bounds_is_kept(messages: list[tuple[int, int]]) -> None:
    """Whatever is said: octets of all, octets of one session, events of one session."""

    async def story() -> None:
        journal = Journal(most_octets=10_000, most_octets_of_session=6_000, most_events_of_session=8)
        sessions = [journal.session() for _ in range(3)]
        for number, size in messages:
            await sessions[number].store_event("1", said("x" * size))
            assert journal.octets <= 10_000
            assert len(journal) <= 3 * 8

    asyncio.run(story())


def test_there_is_never_a_gap() -> None:
    """Where something between was forgotten, nothing is told: the client learns that it cannot resume."""

    async def story() -> None:
        store = Journal(most_events_of_session=3).session()
        begin = await store.store_event("1", None)
        kept = [await store.store_event("1", said(str(number))) for number in range(3)]
        await store.store_event("1", answer("1"))
        assert await heard(store, begin) == ([], None)
        assert await heard(store, kept[1]) == ([said("2"), answer("1")], None)

    asyncio.run(story())


def test_a_session_that_ended_takes_nothing() -> None:
    """Its events go with it."""

    async def story() -> Journal:
        journal = Journal()
        store = journal.session()
        await store.store_event("1", said("a"))
        assert len(journal) == 1 and journal.octets > 0
        return journal

    journal = asyncio.run(story())
    gc.collect()
    assert (len(journal), journal.octets) == (0, 0)
