"""Keep the lists of one server's resources, templates and prompts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import LogLevel

from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.adapters.mcp.session import ClientSession
from agtphost.adapters.mcp.tools import deceptive_character
from agtphost.upstream.failures import UpstreamFailure
from agtphost.upstream.log import UpstreamLog

FRESH_SECONDS = 60.0
"""Seconds for which a list is fresh, unless the server announces a change."""

MAX_KEY = 4096
"""Characters of a URI or a name."""


@dataclass(frozen=True, kw_only=True)
class ListKind:
    """A kind of entry that servers list."""

    capability: str
    method: str
    member: str
    key: str
    """The member that names an entry."""


KINDS: Mapping[str, ListKind] = {
    "resources": ListKind(capability="resources", method="resources/list", member="resources", key="uri"),
    "templates": ListKind(
        capability="resources", method="resources/templates/list", member="resourceTemplates", key="uriTemplate"
    ),
    "prompts": ListKind(capability="prompts", method="prompts/list", member="prompts", key="name"),
}
"""The kinds, by the name used here."""

_CHANGES = {
    "notifications/resources/list_changed": ("resources", "templates"),
    "notifications/prompts/list_changed": ("prompts",),
}


class HasRules(Protocol):
    """The rules about listed entries: :class:`agtphost.adapters.mcp.catalogue.ToolCatalogue`."""

    @property
    def others(self) -> Mapping[str, Collection[str]]:
        """Keys by kind, of the kinds that there are rules for."""

    def note_others(self, name: str, keys: Collection[str]) -> None:
        """Take a new list of one kind."""


class ServerLists:
    """
    The lists of a server besides tools, fetched when they are needed.

    :param clock: measures freshness.
    :param server: the server that lists.
    :param rules: gets every new list.
    :param log: gets refused entries.
    """

    def __init__(self, clock: IReactorTime, server: IsMcpServer, rules: HasRules, log: UpstreamLog) -> None:
        self._clock = clock
        self._server = server
        self._rules = rules
        self._log = log
        self._known: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        self._until: dict[str, float] = {}
        self.ttls: dict[str, int | None] = {}
        """Milliseconds that the server allows each list to be cached; None: it names no time."""

        self._locks = {name: DeferredLock() for name in KINDS}

    def get_known(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the entries of the last listing, by URI or name; empty if there was none."""
        return self._known.get(name, {})

    async def entries(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """
        Return the entries, listed again where they are stale.

        :param name: a key of :data:`KINDS`.
        :raises UpstreamFailure: the server did not list them.
        """
        lock = self._locks[name]
        await lock.acquire()
        try:
            if self._clock.seconds() >= self._until.get(name, 0.0) or name not in self._known:
                # A change that is announced while the list is on its way makes it stale immediately.
                self._until[name] = self._clock.seconds() + FRESH_SECONDS
                await self._list(name)
        except UpstreamFailure:
            self._until.pop(name, None)
            raise
        finally:
            lock.release()
        return self._known[name]

    def note_change(self, method: str) -> None:
        """Mark a list as stale because the server announced a change."""
        for name in _CHANGES.get(method, ()):
            self._until[name] = 0.0
            if name in self._rules.others:
                self._list_anew(name)

    def preload(self) -> None:
        """List everything once, so that it is known which server has a resource or a prompt."""
        terms = self._server.terms
        for name, kind in KINDS.items():
            if terms is not None and kind.capability in terms.capabilities:
                self._list_anew(name)

    def _list_anew(self, name: str) -> None:
        """List without a caller, so that owners of entries and unmatched rules are known before they are needed."""
        listing = Deferred.fromCoroutine(self.entries(name))
        listing.addErrback(lambda failure: self._log.say(f"listing failed: {failure.value}"))

    def mark_stale(self) -> None:
        """Mark all lists as stale, because the server is gone."""
        self._until.clear()

    async def _list(self, name: str) -> None:
        kind = KINDS[name]

        def send(session: ClientSession, timeout: float | None) -> Deferred[Any]:
            return Deferred.fromCoroutine(self._walk(session, kind, timeout or 0))

        found = await self._server.request(send, self._server.settings.timeout)
        self._known[name] = self._drop_deceptive(kind, found["entries"])
        ttl = self.ttls[name] = found["entries"].ttl
        if ttl is not None and self._until.get(name):
            self._until[name] = min(self._until[name], self._clock.seconds() + ttl / 1000)
        self._rules.note_others(name, self._known[name])

    @staticmethod
    async def _walk(session: ClientSession, kind: ListKind, seconds: float) -> Mapping[str, Any]:
        return {"entries": await session.list_entries(kind.capability, kind.method, kind.member, seconds)}

    def _drop_deceptive(self, kind: ListKind, listed: list[object]) -> dict[str, Mapping[str, Any]]:
        """Return the entries by key, without those whose texts could deceive a reader, as with tools."""
        entries: dict[str, Mapping[str, Any]] = {}
        for entry in listed:
            key = entry.get(kind.key) if isinstance(entry, dict) else None
            if not isinstance(entry, dict) or not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
                self._log.say(f"lists something without a {kind.key} under {kind.method}", LogLevel.warn)
                continue
            texts = [text for text in entry.values() if isinstance(text, str)]
            if deceptive_character(key, lines=False) or any(deceptive_character(t, lines=True) for t in texts):
                self._log.say(f"{kind.method} names something with invisible characters", LogLevel.warn)
                continue
            entries.setdefault(key, entry)
        return dict(sorted(entries.items()))
