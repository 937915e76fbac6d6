"""What calls that a standard method makes for its caller give: read off the reactor, where they are long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agtphost.dispatch.invocation import result_of
from agtphost.handlers.built_in import BuiltInContext
from agtphost.methods.cognitive.summary import Aside
from agtphost.wire.events import Response

LONG: Final = 32_768
"""Octets of an answer that are worth a thread."""


async def read(response: Response, aside: Aside) -> Mapping[str, Any]:
    """
    The result of an answer.

    :raises Refusal: with the status and reason of one outside 2xx.
    """
    if len(response.body) <= LONG:
        return result_of(response)
    found: Mapping[str, Any] = await aside(result_of, response)
    return found


async def invoke(
    context: BuiltInContext, aside: Aside, method: str, path: str, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """
    Call another endpoint of this host in the caller's name.

    :raises Refusal: likewise.
    """
    return await read(await context.invocation.ask(method, path, given), aside)
