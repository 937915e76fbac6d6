"""Send requests to a server whose protocol version is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.adapters import precedence
from agtphost.adapters.mcp.elicitation import CallContext
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import HeaderPairs
from agtphost.adapters.mcp.tools import McpTool, render_headers
from agtphost.adapters.mcp.versions import ANSWERABLE, META, Negotiated, envelope, mirror_headers
from agtphost.upstream.failures import CallCancelled, UnreadableAnswer, UpstreamTimeout

MAX_PAGES = 100
"""Pages of one list; a server with more is broken or hostile."""

MAX_ENTRIES = 20_000
"""Entries of one list, on all its pages."""

CANCEL_SECONDS = 10.0
"""Seconds that a server has to confirm the cancellation of a task; no caller waits for it."""


class ClientSession:
    """
    A session in the negotiated version.

    :param peer: sends the requests.
    :param terms: the negotiated terms.
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
        Send one request in the form of the version; see :meth:`JsonRpcPeer.request`.

        :param asking: what its caller wants besides the result.
        :param continues: the id of the request whose work goes on.
        """
        sink = None if asking is None or asking.sink is None else asking.pass_notification
        if self._envelope is None:
            return self.peer.request(method, params, timeout, (), sink, continues)
        own = self._envelope
        if asking is not None and (asking.capabilities is not None or asking.level):
            known = ANSWERABLE if asking.capabilities is None else asking.capabilities
            own = envelope(self._client, known, asking.level)
        params["_meta"] = {**params["_meta"], **own} if "_meta" in params else own
        if self.peer.link.takes_headers:
            headers = (*mirror_headers(method, params), *headers)
        return self.peer.request(method, params, timeout, headers, sink)

    def call_tool(
        self,
        tool: McpTool,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        timeout: float | None,
        asking: CallContext | None = None,
    ) -> Deferred[Any]:
        """
        Call a tool by ``tools/call``.

        :param meta: the caller's ``_meta`` members; those that belong to the protocol are dropped.
        :return: the result as received.
        """
        params: dict[str, Any] = {"name": tool.name, "arguments": arguments}
        if meta:
            params["_meta"] = own_meta(meta)
        if self._envelope is None and tool.as_task:
            return Deferred.fromCoroutine(self._through_task(params, timeout, asking))
        if asking is not None:
            params.update(asking.again)
        mirrored = self._envelope is not None and self.peer.link.takes_headers
        headers = render_headers(tool.headers, arguments) if mirrored else ()
        return self.request("tools/call", params, timeout, asking, headers)

    async def _through_task(self, params: dict[str, Any], seconds: float | None, asking: CallContext | None) -> Any:
        """
        Call a tool that works only as a task of 2025-11-25: ask for the task, then for its result.

        The server's questions during the task come as in any call, and progress has the token of the first request,
        which is valid as long as the task. A task whose caller gives up is cancelled.
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
        except (CallCancelled, UpstreamTimeout):
            self.request("tasks/cancel", {"taskId": task_id}, CANCEL_SECONDS).addErrback(lambda _: None)
            raise

    def listen(self) -> Deferred[Any]:
        """Subscribe to changes of lists (stateless era); fires when the subscription ends."""
        listed = ("tools", "resources", "prompts")
        wanted = {f"{kind}ListChanged": True for kind in listed if self.terms.lists_change(kind)}
        return self.request("subscriptions/listen", {"notifications": wanted}, None)

    async def list_tools(self, seconds: float) -> ListedEntries:
        """Fetch every page of ``tools/list``; see :meth:`list_entries`."""
        return await self.list_entries("tools", "tools/list", "tools", seconds)

    async def list_entries(self, capability: str, method: str, member: str, seconds: float) -> ListedEntries:
        """
        Fetch every page of a list.

        :param capability: the capability without which the server is not asked.
        :param member: the member of a page that has the entries.
        :param seconds: how long each page may take.
        :raises UnreadableAnswer: it is not a list, or does not end.
        """
        entries = ListedEntries()
        if capability not in self.terms.capabilities:
            return entries
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self.request(method, params, seconds)
            if type(page) is not dict or type(page.get(member)) is not list:
                raise UnreadableAnswer(f"the server's {method} is not a list")
            entries.extend(page[member])
            entries.ttl = shortest(entries.ttl, page.get("ttlMs"))
            cursor = page.get("nextCursor")
            if cursor is None:
                return entries
            if type(cursor) is not str:
                raise UnreadableAnswer(f"a cursor of the server's {method} is not a string")
            if len(entries) > MAX_ENTRIES:
                raise UnreadableAnswer(f"the server's {method} has more than {MAX_ENTRIES} entries")
            params = {"cursor": cursor}
        raise UnreadableAnswer(f"the server's {method} has more than {MAX_PAGES} pages")


class ListedEntries(list[object]):
    """The entries of every page of a list."""

    ttl: int | None = None
    """
    Milliseconds for which the list may be cached: the shortest ``ttlMs`` of its pages; None: the server names none.
    """


def shortest(*ttls: object) -> int | None:
    """Return the smallest of several ``ttlMs``, ignoring values that are not whole numbers from 0 up."""
    return min((ttl for ttl in ttls if type(ttl) is int and ttl >= 0), default=None)


def own_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's ``_meta`` without members that belong to the protocol or this host (T-SC-70)."""
    return {
        key: value
        for key, value in meta.items()
        if not key.startswith(META) and key != "progressToken" and not precedence.is_claim(key)
    }


Send = Callable[[ClientSession, "float | None"], Deferred[Any]]
"""Sends a request in a session, with the seconds for the answer; None: the caller of the function keeps the time."""
