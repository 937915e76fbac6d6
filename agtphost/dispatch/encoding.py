"""Large results become text in slices, with turns of the reactor in between."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from agtphost.handlers.context import EndpointResponse
from agtphost.vocabulary.jsonslices import HEAVY, Encoded, slices, weight

TURN = 0.01
"""Seconds of writing until the others have their turn."""


def is_heavy(answer: Any) -> bool:
    """Whether writing what a handler answered would hold up the others."""
    if isinstance(answer, EndpointResponse):
        return answer.body is None and weight(answer.result) > HEAVY
    return weight(answer) > HEAVY


async def written(answer: Any, clock: IReactorTime) -> Any:
    """
    The same answer with its result as text.

    :param answer: an :class:`EndpointResponse`, or a bare result.
    :raises ValueError: for what JSON cannot hold.
    :raises TypeError: likewise.
    """
    parts: list[bytes] = []
    result = answer.result if isinstance(answer, EndpointResponse) else answer
    began = time.perf_counter()
    for piece in slices(result):
        parts.append(piece)
        if time.perf_counter() - began > TURN:
            await deferLater(clock, 0)
            began = time.perf_counter()
    text = Encoded(b"".join(parts))
    return replace(answer, result=text) if isinstance(answer, EndpointResponse) else text
