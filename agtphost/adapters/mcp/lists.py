"""List tools, resources, templates and prompts of several servers, as far as the caller may use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import islice
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.adapters.callers import owner_of
from agtphost.adapters.mcp.catalogue import ToolCatalogue
from agtphost.adapters.mcp.resources import KINDS
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.session import shortest
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.peer import Assurance
from agtphost.upstream.failures import UpstreamFailure
from agtphost.upstream.refusals import refusal
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary.reasons import Reason

PAGE = 200
"""Tools on one page; the next page is asked for with ``cursor``."""

BAD_CURSOR = "The cursor of a list must be a text: the nextCursor of the page before."


@implementer(IBuiltInHandler)
class ToolList:
    """
    The handler that lists tools in MCP's form, their names prefixed by the server.

    :param servers: the servers whose tools are listed.
    """

    kind = "mcp"

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self._servers = servers

    def handle(self, context: BuiltInContext) -> Answer | Coroutine[Any, Any, Answer]:
        """
        List what the caller may call, in order of name, once servers whose time for their list is over listed again.

        :raises Refusal: 422 for a cursor that is not a string.
        """
        if not isinstance(context.input.get("cursor", ""), str):
            raise Refusal(Reason.INVALID_PAYLOAD, BAD_CURSOR)
        catalogues = [
            server.catalogue for server in self._servers if server.state in (UpstreamState.UP, UpstreamState.IDLE)
        ]
        stale = [ended for catalogue in catalogues if (ended := catalogue.refresh()) is not None]
        return self._page_after(stale, context, catalogues) if stale else self._page(context, catalogues)

    async def _page_after(
        self, stale: Sequence[Awaitable[None]], context: BuiltInContext, catalogues: Sequence[ToolCatalogue]
    ) -> Answer:
        for ended in stale:
            await ended
        return self._page(context, catalogues)

    def _page(self, context: BuiltInContext, catalogues: Sequence[ToolCatalogue]) -> Answer:
        cursor = context.input.get("cursor", "")
        offered = {
            binding.name: binding
            for catalogue in catalogues
            for binding in catalogue.bindings.values()
            if binding.name > cursor
        }
        # Stop after one page plus one entry, which shows whether there is a next page, instead of checking thousands.
        admitted = (offered[name] for name in sorted(offered) if context.admits(offered[name]))
        listed = list(islice(admitted, PAGE + 1))
        page = [
            {**binding.details["mcp"], "name": binding.name, **({"approval": "required"} if binding.approval else {})}
            for binding in listed[:PAGE]
        ]
        result: dict[str, Any] = {"tools": page}
        ttl = shortest(*(catalogue.ttl for catalogue in catalogues))
        if ttl is not None:
            result["ttlMs"] = ttl
        if len(listed) > PAGE:
            result["nextCursor"] = page[-1]["name"]
        return Answer(result={"tool_response": result})


def list_binding(servers: Sequence[McpServer]) -> Binding:
    """Return the binding of ``mcp.tools.list`` over some servers; what it shows is decided tool by tool."""
    return Binding(
        method="EXECUTE",
        path="/mcp",
        handler=ToolList(servers),
        tier="B",
        name="mcp.tools.list",
        description="List the MCP tools that the caller may call.",
        min_assurance=Assurance.HEADER,
        piecewise=True,
        listing=True,
        idempotent=True,
        state_changing=False,
    )


log = Logger(namespace="agtphost.mcp")

SERVER = "agtp/server"
"""The member of an entry's ``_meta`` that names its server."""

BindingOf = Callable[[McpServer, str, str], "Binding | None"]


@implementer(IBuiltInHandler)
class ResourceList:
    """
    The handler that lists what servers offer, in order of server and key.

    :param servers: the servers.
    :param kind: a key of :data:`agtphost.adapters.mcp.resources.KINDS`.
    :param binding_of: returns the binding for using an entry; None: the entry is hidden.
    :param strict: whether a server that does not answer fails the list, instead of being left out.
    """

    kind = "mcp"

    def __init__(self, servers: Sequence[McpServer], kind: str, binding_of: BindingOf, *, strict: bool) -> None:
        self._servers = sorted(servers, key=lambda server: server.settings.name)
        self._kind = kind
        self._binding_of = binding_of
        self._strict = strict

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Return one page.

        :raises Refusal: 422 for a cursor that is not a text; for one named server also as its failures are mapped.
        """
        cursor = context.input.get("cursor", "")
        if type(cursor) is not str:
            raise Refusal(Reason.INVALID_PAYLOAD, BAD_CURSOR)
        after = tuple(cursor.partition(" ")[::2])
        page: list[dict[str, Any]] = []
        last, ttl = "", None
        for server in self._servers:
            name = server.settings.name
            if (name,) < after[:1] or not self._may_list(context, server):
                continue
            entries, kept = await self._entries(context, server)
            ttl = shortest(ttl, kept)
            for key, entry in entries.items():
                if (name, key) <= after or not self._is_admitted(context, server, key):
                    continue
                if len(page) == PAGE:
                    return self._answer(page, last, ttl)
                page.append(self._entry(name, entry))
                last = f"{name} {key}"
        return self._answer(page, None, ttl)

    async def _entries(
        self, context: BuiltInContext, server: McpServer
    ) -> tuple[Mapping[str, Mapping[str, Any]], int | None]:
        """
        Return what a server lists, and for how many milliseconds that may be cached; None: the server does not say.
        """
        agent_id = owner_of(context)
        terms = server.terms
        lacking = terms is not None and KINDS[self._kind].capability not in terms.capabilities
        if lacking or (not self._strict and server.state not in (UpstreamState.UP, UpstreamState.IDLE)):
            return {}, None
        try:
            instance = server.instance_of(agent_id, context.session_id)
            entries = await instance.resources.entries(self._kind)
            return entries, instance.resources.ttls.get(self._kind)
        except UpstreamFailure as failure:
            if self._strict:
                raise refusal("mcp", server.settings.name, failure) from failure
            log.warn("MCP server {server} does not list: {why}", server=server.settings.name, why=str(failure))
            return {}, None

    def _may_list(self, context: BuiltInContext, server: McpServer) -> bool:
        """Return whether the caller might use an entry: a server that is closed to it is not asked, nor started."""
        settings = server.settings
        named = settings.prompts if self._kind == "prompts" else settings.resources
        known = server.resources.get_known(self._kind)
        return any(self._is_admitted(context, server, key) for key in ("", *named, *known))

    def _is_admitted(self, context: BuiltInContext, server: McpServer, key: str) -> bool:
        binding = self._binding_of(server, self._kind, key)
        return binding is not None and context.admits(binding)

    def _entry(self, server: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        meta = entry.get("_meta")
        shown = {**entry, "_meta": {**(meta if isinstance(meta, dict) else {}), SERVER: server}}
        if self._kind == "prompts":
            shown["name"] = f"{server}.{entry['name']}"
        return shown

    def _answer(self, page: list[dict[str, Any]], last: str | None, ttl: int | None) -> Answer:
        response: dict[str, Any] = {KINDS[self._kind].member: page}
        if last is not None:
            response["nextCursor"] = last
        if ttl is not None:
            response["ttlMs"] = ttl
        return Answer(result={"mcp_response": response})
