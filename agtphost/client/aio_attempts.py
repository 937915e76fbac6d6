"""Attempts of the asyncio client to connect: by two carriers, or to the addresses of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from agtphost.client.address_race import AddressRace

A = TypeVar("A")
P = TypeVar("P")


def settle(waiting: asyncio.Future[A], found: A | BaseException) -> None:
    """Give a future what was waited for, or why there is none, unless it was cancelled in this turn of the loop."""
    if waiting.done():
        return
    if isinstance(found, BaseException):
        waiting.set_exception(found)
    else:
        waiting.set_result(found)


def start_attempt(work: Coroutine[Any, Any, A], end: Callable[[A | BaseException], object]) -> Callable[[], object]:
    """Run an attempt of a race between carriers or addresses; return what cancels it."""

    async def attempt() -> None:
        try:
            found: A | BaseException = await work
        except Exception as error:
            found = error
        end(found)

    running = asyncio.get_running_loop().create_task(attempt())
    running.add_done_callback(lambda _: work.close())  # It may be cancelled before it has begun.
    return running.cancel


async def await_race(
    begin: Callable[[Callable[[A | BaseException], object]], Callable[[], object]], drop: Callable[[A], object]
) -> A:
    """
    Return the connection that a race has, or raise its error.

    :param begin: begins the race, given what it calls with that; returns what stops it.
    :param drop: ends a connection that was ready in the turn in which the caller was cancelled.
    """
    winner: asyncio.Future[A] = asyncio.get_running_loop().create_future()

    def finish(found: A | BaseException) -> None:
        if winner.cancelled() and not isinstance(found, BaseException):
            drop(found)  # The caller stops the race in the next turn.
        settle(winner, found)

    stop = begin(finish)
    try:
        return await winner
    except asyncio.CancelledError:
        stop()
        if winner.done() and not winner.cancelled() and winner.exception() is None:
            drop(winner.result())
        raise


async def connect_to_first(
    places: Sequence[P],
    connect: Callable[[P], Coroutine[Any, Any, A]],
    misses: tuple[type[BaseException], ...],
    drop: Callable[[A], object],
) -> A:
    """Return the first connection that an :class:`.address_race.AddressRace` has; its parameters are the same."""
    later = asyncio.get_running_loop().call_later

    def begin(done: Callable[[A | BaseException], object]) -> Callable[[], object]:
        race: AddressRace[P, A] = AddressRace(start_attempt, later, places, connect, misses, drop, done)
        return race.stop

    return await await_race(begin, drop)
