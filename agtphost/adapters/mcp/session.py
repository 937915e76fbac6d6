"""A conversation with one server whose protocol version is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.adapters import precedence
from agtphost.adapters.mcp.elicitation import CallContext
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import HeaderPairs
from agtphost.adapters.mcp.tools import Tool, render
from agtphost.adapters.mcp.versions import ANSWERABLE, META, Negotiated, envelope, mirrored
from agtphost.upstream.failures import Cancelled, Timeout, Unreadable

MAX_PAGES = 100
"""Pages of one list; a server that goes on is broken or hostile."""

MAX_ENTRIES = 20_000
"""Entries of one list, on all its pages."""

CANCELLING = 10.0
"""Seconds that a server has to confirm that a task is cancelled; nobody waits for it."""


class ClientSession:
    """
    Requests of the agreed version.

    :param peer: sends them.
    :param terms: what was agreed.
    :param client: ``name`` and ``version`` of this host.
    """

    def __init__(self, peer: JsonRpcPeer, terms: Negotiated, client: Mapping[str, str]) -> None:
        self.peer = peer
        self.terms = terms
        self._client = client
        self._envelope = envelope(client, ANSWERABLE) if terms.stateless else None

    def request(
        self,
        method: str,
        params: dict[str, Any],
        timeout: float | None,
        asking: CallContext | None = None,
        headers: HeaderPairs = (),
        continues: int | None = None,
    ) -> Deferred[Any]:
        """
        Send one request as the version has it; see :meth:`JsonRpcPeer.request`.

        :param asking: what its caller wants besides the result.
        :param continues: the request whose work goes on with it.
        """
        sink = None if asking is None or asking.sink is None else asking.heard
        if self._envelope is None:
            return self.peer.request(method, params, timeout, (), sink, continues)
        own = self._envelope
        if asking is not None and (asking.capabilities is not None or asking.level):
            known = ANSWERABLE if asking.capabilities is None else asking.capabilities
            own = envelope(self._client, known, asking.level)
        params["_meta"] = {**params.get("_meta", {}), **own}
        return self.peer.request(method, params, timeout, (*mirrored(method, params), *headers), sink)

    def call_tool(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        timeout: float | None,
        asking: CallContext | None = None,
    ) -> Deferred[Any]:
        """
        ``tools/call``.

        :param meta: the caller's own ``_meta`` members; those that the protocol owns are dropped.
        :return: the result as received.
        """
        params: dict[str, Any] = {"name": tool.name, "arguments": arguments}
        if meta:
            params["_meta"] = own_meta(meta)
        if self._envelope is None and needs_task(tool.definition):
            return Deferred.fromCoroutine(self._through_task(params, timeout, asking))
        if asking is not None:
            params.update(asking.again)
        headers = render(tool.headers, arguments) if self._envelope is not None else ()
        return self.request("tools/call", params, timeout, asking, headers)

    async def _through_task(self, params: dict[str, Any], seconds: float | None, asking: CallContext | None) -> Any:
        """
        ``tools/call`` of a tool that works as a task of 2025-11-25 alone: ask for the task, then for its result.

        What the server asks meanwhile comes as in any call, and progress with the token of the first request, which
        holds as long as the task does. A task whose caller gives up is cancelled.
        """
        began = self.peer.seconds()
        creating = self.request("tools/call", {**params, "task": {}}, seconds, asking)
        first = self.peer.last_id
        created = await creating
        task = created.get("task") if type(created) is dict else None
        task_id = task.get("taskId") if type(task) is dict else None
        if type(task_id) is not str:
            return created
        left = None if seconds is None else seconds - (self.peer.seconds() - began)
        try:
            return await self.request("tasks/result", {"taskId": task_id}, left, asking, continues=first)
        except (Cancelled, Timeout):
            self.request("tasks/cancel", {"taskId": task_id}, CANCELLING).addErrback(lambda _: None)
            raise

    def listen(self) -> Deferred[Any]:
        """Ask to be told of changed lists (stateless era); fires when the subscription ends."""
        listed = ("tools", "resources", "prompts")
        wanted = {f"{kind}ListChanged": True for kind in listed if self.terms.lists_change(kind)}
        return self.request("subscriptions/listen", {"notifications": wanted}, None)

    async def list_tools(self, seconds: float) -> Listing:
        """Walk every page of ``tools/list``; see :meth:`walk`."""
        return await self.walk("tools", "tools/list", "tools", seconds)

    async def walk(self, capability: str, method: str, member: str, seconds: float) -> Listing:
        """
        Walk every page of a list.

        :param capability: what a server must have to be asked at all.
        :param member: where the entries of a page are.
        :param seconds: how long each page may take.
        :raises Unreadable: it is no list, or does not end.
        """
        entries = Listing()
        if capability not in self.terms.capabilities:
            return entries
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self.request(method, params, seconds)
            if type(page) is not dict or type(page.get(member)) is not list:
                raise Unreadable(f"the server's {method} is no list")
            entries.extend(page[member])
            entries.ttl = shortest(entries.ttl, page.get("ttlMs"))
            cursor = page.get("nextCursor")
            if cursor is None:
                return entries
            if type(cursor) is not str:
                raise Unreadable(f"a cursor of the server's {method} is no string")
            if len(entries) > MAX_ENTRIES:
                raise Unreadable(f"the server's {method} has more than {MAX_ENTRIES} entries")
            params = {"cursor": cursor}
        raise Unreadable(f"the server's {method} has more than {MAX_PAGES} pages")


class Listing(list[object]):
    """The entries of every page of a list."""

    ttl: int | None = None
    """Milliseconds that the server lets its list be kept: the shortest ``ttlMs`` of its pages; None: it names none."""


def shortest(*ttls: object) -> int | None:
    """Return the smallest of several ``ttlMs``; what is no whole number from 0 up does not count."""
    return min((ttl for ttl in ttls if type(ttl) is int and ttl >= 0), default=None)


def needs_task(definition: Mapping[str, Any]) -> bool:
    """Whether a tool can be called as a task alone (2025-11-25)."""
    execution = definition.get("execution")
    return type(execution) is dict and execution.get("taskSupport") == "required"


def own_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller may say in ``_meta``: nothing that the protocol or this host says (T-SC-70)."""
    return {
        key: value
        for key, value in meta.items()
        if not key.startswith(META) and key != "progressToken" and not precedence.is_claim(key)
    }


Send = Callable[[ClientSession, "float | None"], Deferred[Any]]
"""Sends a request in a session, with so many seconds for the answer; None: whoever waits keeps the time."""
