"""Asyncio and Twisted on one loop, for commands whose other half is on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred


def run(main: Callable[[Any], Awaitable[None]]) -> None:
    """
    Run a coroutine function to its end.

    Installs the asyncio reactor, so nothing may have installed another.

    :param main: is given the reactor.
    """
    from twisted.internet import asyncioreactor

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    asyncioreactor.install(loop)  # type: ignore[no-untyped-call]
    from twisted.internet import reactor

    failures: list[BaseException] = []

    async def all_of_it() -> None:
        try:
            await main(reactor)
        except Exception as error:
            failures.append(error)

    def begin() -> None:
        ended = Deferred.fromFuture(loop.create_task(all_of_it()))
        ended.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)  # type: ignore[call-arg]
    if failures:
        raise failures[0]
