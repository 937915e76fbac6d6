"""Rate limit of searches by callers without a name: a search costs more than a read."""

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
"""Searches from one address by callers without a name; others are limited by the rates of ``[limits]`` alone."""

BURST = 30.0
"""Size of a burst, in seconds' worth of searches."""


@implementer(IBuiltInHandler)
class RateLimitedHandler:
    """
    Handler that limits the rate of another handler.

    :param handler: the handler that answers.
    :param now: returns monotonic seconds.
    """

    kind = "built_in"

    def __init__(self, handler: IBuiltInHandler, now: Callable[[], float] = time.monotonic) -> None:
        self._handler = handler
        self._now = now
        self._allowances = Allowances(PER_MINUTE, BURST)

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer, or refuse a caller without a name beyond the rate.

        :raises Refusal: 429 beyond :data:`PER_MINUTE`, and every refusal of the handler.
        """
        peer = context.peer
        if context.caller is None and peer is not None and peer.certificate is None:
            wait = self._allowances.take(address_origin(peer.address), self._now())
            if wait:
                again = str(max(1, ceil(wait)))
                raise Refusal(
                    Reason.RATE_LIMITED,
                    f"One address sent more than {PER_MINUTE} searches in a minute without a name.",
                    remedy="Wait, or call as an agent with a certificate.",
                    headers=(("Retry-After", again),),
                )
        return self._handler.handle(context)
