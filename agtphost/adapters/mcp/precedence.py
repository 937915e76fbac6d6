"""A payload that says who is calling, or with which scopes: noticed, told and never believed (core v08 section 8.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, cast

from twisted.logger import LogLevel
from zope.interface import implementer

from agtphost.adapters import precedence
from agtphost.adapters.mcp.requests import SendsRequests
from agtphost.contract.binding import Resolution
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler

SILENT = frozenset({"tool", "name", "server", "arguments", "inputResponses", "requestState"})
"""What the payload of a tool call has that can repeat no header field; arguments are the tool's and not looked at."""


def noted(resolution: Resolution, places: tuple[Any, ...], servers: Mapping[str, SendsRequests]) -> Resolution:
    """
    The same resolution; where the payload repeats header fields, one whose call compares them first.

    :param places: objects of the payload whose members are the caller's word on the call, where they are objects.
    """
    given = tuple(place for place in places if isinstance(place, Mapping) and precedence.repeats(place))
    server = servers.get(str(resolution.binding.extra.get("mcp_server"))) if given else None
    if server is None:
        return resolution
    comparing = MismatchCheck(cast(IBuiltInHandler, resolution.binding.handler), server, given)
    return replace(resolution, binding=replace(resolution.binding, handler=comparing))


@implementer(IBuiltInHandler)
class MismatchCheck:
    """
    Compares what a payload claims with the header fields, and goes on with the call as these say.

    :param handler: makes the call.
    :param server: in whose name a difference is logged.
    :param places: the objects that may claim something.
    """

    __slots__ = ("_handler", "_places", "_server", "kind")

    def __init__(self, handler: IBuiltInHandler, server: SendsRequests, places: tuple[Mapping[str, Any], ...]) -> None:
        self.kind = handler.kind
        self._handler = handler
        self._server = server
        self._places = places

    async def handle(self, context: BuiltInContext) -> Any:
        """The answer; its record says what was contradicted."""
        contradicted = precedence.differences(context, *self._places)
        if contradicted:
            caller = "" if context.caller is None else context.caller.agent_id[:16]
            self._server.say(
                f"a payload of {caller} contradicts {', '.join(contradicted)}; the header fields are what counts",
                LogLevel.warn,
            )
        answer: Any = self._handler.handle(context)
        if isinstance(answer, Awaitable):
            answer = await answer
        if not contradicted or not isinstance(answer, Answer):
            return answer
        return replace(answer, extra={**answer.extra, "payload_contradicts": list(contradicted)})
