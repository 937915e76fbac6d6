"""``INSPECT target=tools``: every tool behind the host, those that are off included, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.methods.continuation import Continuations
from agtphost.upstream.offered_tools import STATES, OfferedTool, Offering

PAGE = 200


class ToolReport:
    """
    Tells overseers of tools.

    :param offerings: each gives what upstreams of one kind offer.
    """

    def __init__(
        self, offerings: Sequence[Offering], authorization: Authorization, continuations: Continuations
    ) -> None:
        self._offerings = offerings
        self._authorization = authorization
        self._continuations = continuations

    async def read(self, context: BuiltInContext) -> Answer:
        """
        List tools as ``{"tools": [...], "count": N}`` by protocol, upstream and name.

        ``name`` leaves those with it in ``UPSTREAM.NAME`` or in their description, ``upstream`` (``PROTOCOL.NAME``)
        those of one, ``state`` those in it.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(
            context, "Only operators see disabled tools; DISCOVER /tools shows agents what they can call."
        )
        words = (parameters.text(context.input, "name") or "").lower()
        upstream = parameters.text(context.input, "upstream")
        state = parameters.choice(context.input, "state", (*STATES, "all"), "all")
        shown = [
            tool
            for offering in self._offerings
            for tool in offering()
            if state in ("all", tool.state)
            and upstream in (None, f"{tool.protocol}.{tool.upstream}")
            and (not words or _has(tool, words))
        ]
        shown.sort(key=_place)
        limit = parameters.count(context.input, "limit", 50, PAGE)
        part = self._continuations.part(context, shown, limit, _place)
        found = {"tools": [tool.to_json() for tool in part.items], "count": len(shown)}
        return Answer(result=found, headers=part.headers)


def _has(tool: OfferedTool, words: str) -> bool:
    return words in f"{tool.upstream}.{tool.name}".lower() or words in tool.description.lower()


def _place(tool: OfferedTool) -> list[str]:
    return tool.key
