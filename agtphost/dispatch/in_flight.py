"""The work in flight of one dispatcher: after it was replaced by another one, it still finishes what it began."""

from __future__ import annotations

from collections.abc import Callable


class InFlightWork:
    """Counts what goes on: calls, and what they leave behind that makes further calls."""

    __slots__ = ("_callback", "_count")

    def __init__(self) -> None:
        self._count = 0
        self._callback: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self._count

    def hold(self) -> None:
        """Count one more piece of work; :meth:`let_go` ends it."""
        self._count += 1

    def let_go(self) -> None:
        """Count one piece of work less; the last one ends the wait."""
        self._count -= 1
        if not self._count and self._callback is not None:
            callback, self._callback = self._callback, None
            callback()

    def when_over(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called once no work is in flight, or now if none is. No new work may begin after that."""
        self.hold()
        self._callback = callback
        self.let_go()
