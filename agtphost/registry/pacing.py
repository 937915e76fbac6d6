"""How often somebody whom nobody knows may search: a search costs more than a read."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Any

from zope.interface import implementer

from agtphost.dispatch.gates.limits import Allowances, address_origin
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.vocabulary.reasons import Reason

PER_MINUTE = 60
"""Searches from one address, without a name; of callers that have one, the rates of ``[limits]`` alone hold."""

BURST = 30.0
"""Seconds' worth of them that may come at once."""


@implementer(IBuiltInHandler)
class Paced:
    """
    Has a handler answer, unless too many ask for too much.

    :param handler: what answers.
    :param now: seconds from any start, never going back.
    """

    kind = "built_in"

    def __init__(self, handler: IBuiltInHandler, now: Callable[[], float] = time.monotonic) -> None:
        self._handler = handler
        self._now = now
        self._allowances = Allowances(PER_MINUTE, BURST)

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer.

        :raises Refusal: 429 for strangers beyond :data:`PER_MINUTE`, and whatever the handler refuses for.
        """
        peer = context.peer
        if context.caller is None and peer is not None and peer.certificate is None:
            wait = self._allowances.take(address_origin(peer.address), self._now())
            if wait:
                again = str(max(1, ceil(wait)))
                raise Refusal(
                    Reason.RATE_LIMITED,
                    f"More than {PER_MINUTE} searches in a minute from one address, without a name.",
                    remedy="Wait, or call as an agent.",
                    headers=(("Retry-After", again),),
                )
        return self._handler.handle(context)
