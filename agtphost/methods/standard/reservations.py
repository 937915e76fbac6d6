"""In-flight reservations: two concurrent calls cannot create the same thing."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from agtphost.errors import Refusal
from agtphost.methods.standard.collections.store import UNDER_WAY
from agtphost.vocabulary.reasons import Reason


class Reservations:
    """
    Reservations of unique names, from a call's request until its record is durable.

    :param now: seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[Hashable, float] = {}

    def take(self, what: Hashable) -> None:
        """
        Reserve a name.

        :raises Refusal: 409, another call under way has it.
        """
        now = self._now()
        self._until = {each: until for each, until in self._until.items() if until > now}
        if what in self._until:
            raise Refusal(Reason.STATE_CONFLICT)
        self._until[what] = now + UNDER_WAY

    def release(self, what: Hashable) -> None:
        """Release a reservation whose item is now visible."""
        self._until.pop(what, None)
