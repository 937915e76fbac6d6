"""Long work in steps, with turns of the reactor in between: large results, which become text in slices."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime

from agtphost.handlers.built_in import Answer
from agtphost.handlers.context import EndpointResponse
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import HEAVY, Encoded, slices, weight
from agtphost.vocabulary.steps import TURN

Result = TypeVar("Result")

LARGE = 16_384
"""Octets of a body that may take milliseconds to decode and to check: 8,000 values, and the schema's budget."""

PIECE = 262_144
"""Octets of a long body that are hashed in one go; a body that is shorter is hashed when its record is drafted."""

SHARE = TURN / 5
"""Seconds of a turn that encoding takes: a concurrent call needs some turns, and this is added to each."""

_PENS: WeakKeyDictionary[Any, DeferredLock] = WeakKeyDictionary()
"""For each reactor, what is handed from one long work to the next: one of them has a part of a turn."""


async def in_turns(steps: Generator[None, None, Result], clock: IReactorTime) -> Result:
    """Run steps, and give up the reactor after each step that ends later than :data:`SHARE`; return their result."""
    pen = _PENS.get(clock)
    if pen is None:
        pen = _PENS[clock] = DeferredLock()
    await pen.acquire()
    while True:
        began = time.perf_counter()
        try:
            while time.perf_counter() - began <= SHARE:
                next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            # Not in this turn: there may be many, as in a BATCH of long answers.
            clock.callLater(0, pen.release)
        await pen.acquire()


def digest(octets: bytes) -> Generator[None, None, str]:
    """Return the SHA-256 of a long body in hex, computed in parts: a megabyte takes some milliseconds."""
    found, view = sha256(), memoryview(octets)
    for at in range(0, len(octets), PIECE):
        found.update(view[at : at + PIECE])
        yield
    return found.hexdigest()


def is_heavy(answer: Any) -> bool:
    """Return whether encoding a handler's answer would delay other calls."""
    if type(answer) is Answer and answer.encoded:
        return False
    if isinstance(answer, EndpointResponse):
        return answer.body is None and weight(answer.result) > HEAVY
    return weight(answer) > HEAVY


async def encode_result(answer: Any, clock: IReactorTime) -> Any:
    """
    Encode the result of an answer to JSON text, in turns.

    :param answer: an :class:`EndpointResponse`, or a bare result.
    :raises ValueError: for what JSON cannot hold.
    :raises TypeError: for the same reason.
    """
    result = answer.result if isinstance(answer, EndpointResponse) else answer
    text = Encoded(await in_turns(_text(result), clock))
    return replace(answer, result=text) if isinstance(answer, EndpointResponse) else text


async def encode(value: Any, clock: IReactorTime) -> bytes:
    """
    Encode a value as JSON; a large one in several turns of the reactor.

    :raises ValueError: for what JSON cannot hold.
    """
    return jsontext.encode(value) if weight(value) <= HEAVY else await in_turns(_text(value), clock)


def _text(result: Any) -> Generator[None, None, bytes]:
    parts: list[bytes] = []
    for piece in slices(result):
        parts.append(piece)
        yield
    return b"".join(parts)
