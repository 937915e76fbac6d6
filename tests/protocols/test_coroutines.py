"""A coroutine that is run for nobody's result: it can be cancelled where it waits."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from agtphost.protocols.coroutines import Cancellable


class Waiting:
    """A coroutine that waits for each of some Deferreds, and notes what came of it."""

    def __init__(self, *awaited: Deferred[Any]) -> None:
        self.found: list[Any] = []
        self._awaited = awaited

    async def run(self) -> None:
        """Wait for one after the other."""
        for each in self._awaited:
            try:
                self.found.append(await each)
            except CancelledError:
                self.found.append("cancelled")


def test_cancelling_ends_the_present_wait_and_no_later_one() -> None:
    """The cancellation is raised where the coroutine waits; what it does then is its own matter."""
    first, second = Deferred[Any](), Deferred[Any]()
    waiting = Waiting(first, second)
    running = Cancellable(waiting.run())
    running.cancel()
    assert waiting.found == ["cancelled"]
    second.callback("second")
    assert waiting.found == ["cancelled", "second"]
    running.cancel()
    assert waiting.found == ["cancelled", "second"]


def test_a_failure_is_raised_where_the_coroutine_waits() -> None:
    """As by a driver of Twisted's own."""
    failing = Deferred[Any]()

    async def run() -> None:
        try:
            await failing
        except ValueError as error:
            found.append(str(error))

    found: list[str] = []
    Cancellable(run())
    failing.errback(ValueError("broken"))
    assert found == ["broken"]


def test_a_coroutine_that_never_waits_is_over_at_its_beginning() -> None:
    """There is nothing to cancel."""
    fired = Deferred[Any]()
    fired.callback("at once")
    waiting = Waiting(fired)
    Cancellable(waiting.run()).cancel()
    assert waiting.found == ["at once"]
