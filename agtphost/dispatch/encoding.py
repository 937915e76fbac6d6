"""Large results become text in slices, with turns of the reactor in between."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from twisted.internet.interfaces import IReactorTime

from agtphost.handlers.context import EndpointResponse
from agtphost.vocabulary.jsonslices import HEAVY, Encoded, slices, weight
from agtphost.vocabulary.steps import in_turns


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
    result = answer.result if isinstance(answer, EndpointResponse) else answer
    text = Encoded(await in_turns(_text(result), clock))
    return replace(answer, result=text) if isinstance(answer, EndpointResponse) else text


def _text(result: Any) -> Generator[None, None, bytes]:
    parts: list[bytes] = []
    for piece in slices(result):
        parts.append(piece)
        yield
    return b"".join(parts)
