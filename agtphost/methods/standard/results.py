"""What calls that a standard method makes for its caller give: read off the reactor, where they are long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.dispatch.inner_results import result_of
from agtphost.dispatch.invocation import LONG
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.steps import Executor
from agtphost.wire.events import Response


async def read(response: Response, offload: Executor) -> Mapping[str, Any]:
    """
    Read the result of an answer, a long one outside the reactor's thread.

    :raises agtphost.errors.Refusal: with the status and reason of one outside 2xx.
    """
    if len(response.body) <= LONG:
        return result_of(response)
    found: Mapping[str, Any] = await offload(result_of, response)
    return found


async def read_within(response: Response, offload: Executor, depth: int) -> Mapping[str, Any] | None:
    """
    Return the result if it is nested at most ``depth`` levels; else None.

    :raises agtphost.errors.Refusal: as :func:`read`.
    """
    if len(response.body) <= LONG:
        return _read_shallow(response, depth)
    found: Mapping[str, Any] | None = await offload(_read_shallow, response, depth)
    return found


def _read_shallow(response: Response, depth: int) -> Mapping[str, Any] | None:
    result = result_of(response)
    many = response.body.count(b"{") + response.body.count(b"[") > depth
    return None if many and jsontext.is_deep(result, depth) else result
