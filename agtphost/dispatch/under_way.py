"""How much goes on by one dispatcher: another one takes its place at once, and what it began it ends by itself."""

from __future__ import annotations

from collections.abc import Callable


class UnderWay:
    """Counts what goes on: calls, and what they leave behind that makes further calls."""

    __slots__ = ("_count", "_over")

    def __init__(self) -> None:
        self._count = 0
        self._over: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self._count

    def hold(self) -> None:
        """One thing more; :meth:`let_go` ends it."""
        self._count += 1

    def let_go(self) -> None:
        """One thing fewer."""
        self._count -= 1
        if not self._count and self._over is not None:
            over, self._over = self._over, None
            over()

    def when_over(self, over: Callable[[], None]) -> None:
        """Have ``over`` called once nothing goes on; at once, where nothing does. Nothing new may begin by then."""
        self.hold()
        self._over = over
        self.let_go()
