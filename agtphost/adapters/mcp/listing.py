"""``mcp.tools.list``: the lossless catalogue, of what its reader may call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from zope.interface import implementer

from agtphost.adapters.mcp.catalogue import Catalogue
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.upstream.supervision import State
from agtphost.vocabulary.status import Status

PAGE = 200
"""Tools on one page; the next page is asked for with ``cursor``."""


class ListsTools(Protocol):
    """What a listing needs of a server."""

    @property
    def catalogue(self) -> Catalogue:
        """Its tools."""

    @property
    def state(self) -> State:
        """Whether they can be called."""


@implementer(IBuiltInHandler)
class ToolList:
    """
    Lists tools as MCP has it, their names prefixed by the server.

    :param servers: whose tools.
    """

    kind = "mcp"

    def __init__(self, servers: Sequence[ListsTools]) -> None:
        self._servers = servers

    def handle(self, context: BuiltInContext) -> Answer:
        """
        List what the caller may call, in order of name.

        :raises Refusal: 422 for a cursor that is no string.
        """
        cursor = context.input.get("cursor", "")
        if not isinstance(cursor, str):
            raise Refusal(Status.UNPROCESSABLE, "invalid-payload", "The cursor of a tool list is a string.")
        listed = sorted(
            (binding.name, binding)
            for server in self._servers
            if server.state in (State.UP, State.IDLE)
            for binding in server.catalogue.bindings.values()
            if binding.name > cursor and context.admits(binding)
        )
        page = [{**binding.details["mcp"], "name": name} for name, binding in listed[:PAGE]]
        result: dict[str, Any] = {"tools": page}
        if len(listed) > PAGE:
            result["nextCursor"] = listed[PAGE - 1][0]
        return Answer(result={"tool_response": result})


def list_binding(servers: Sequence[ListsTools]) -> Binding:
    """The binding of ``mcp.tools.list`` over some servers; what it shows is decided tool by tool."""
    return Binding(
        method="EXECUTE",
        path="/mcp",
        handler=ToolList(servers),
        tier="B",
        name="mcp.tools.list",
        description="List the MCP tools that the caller may call.",
        idempotent=True,
        state_changing=False,
    )
