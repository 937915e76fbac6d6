"""
Processes and HTTP sessions of single callers, and which one a call goes to: ``isolation`` (adapters rule G3).

With ``auto``, the default, callers share one, which speaks the newest revision that the server does. A caller who can
be asked (sampling, elicitation, roots) gets a separate one where the handshake era is needed for that. That is so at a
server that speaks nothing newer, for only then is it known whom the server asks. It is also so at a server that speaks
both eras when the caller itself speaks an older revision, for a server asks in the manner of the revision it is used
in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import LogLevel

from agtphost.adapters.mcp.elicitation import KINDS
from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.adapters.mcp.roots import PING_SECONDS, Roots, RootsNeeded, declares_roots, digest_of, keeps_session
from agtphost.adapters.mcp.versions import META, STATELESS
from agtphost.config.upstreams import MCPServerSection
from agtphost.upstream.failures import UpstreamBusy, UpstreamFailure

Key = tuple[str, str, bool, str]
"""
Agent-ID, Session-ID (empty where it does not matter), whether the handshake era is required, and the digest of the
caller's roots (empty where they are the session's).
"""

SWEEP = 5.0
"""The longest time in seconds between two checks for idle ones."""


T = TypeVar("T", bound=IsMcpServer)


class CallerInstances(Generic[T]):
    """
    A bounded table of servers that serve one caller each.

    :param clock: measures idle time.
    :param make: makes one for a key, not started.
    :param most: the largest number of them.
    :param idle: seconds without a call after which one is ended.
    """

    def __init__(self, clock: IReactorTime, make: Callable[[Key], T], most: int, idle: float) -> None:
        self._clock = clock
        self._make = make
        self._most = most
        self._share = max(1, most - max(1, most // 4))
        self._idle = idle
        self.by_key: OrderedDict[Key, T] = OrderedDict()
        self._ending: set[Deferred[None]] = set()
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self.evicted = 0
        """Ended because they were idle, or to make room."""

    def __len__(self) -> int:
        return len(self.by_key)

    def all(self) -> list[T]:
        """Return all of them, least recently used first."""
        return list(self.by_key.values())

    def get(self, key: Key) -> T | None:
        """Return the one for a key, or None."""
        found = self.by_key.get(key)
        if found is not None:
            self.by_key.move_to_end(key)
        return found

    def of_agent(self, agent_id: str) -> list[T]:
        """Return those of an agent."""
        return [each for key, each in self.by_key.items() if key[0] == agent_id]

    def end(self, key: Key) -> None:
        """End the one for a key, if there is one."""
        if key in self.by_key:
            self._end(key)

    def get_or_start(self, key: Key) -> T:
        """
        Return the one for a key; start it if there is none.

        :raises UpstreamBusy: the table is full, or this agent has three quarters of it, and all are busy.
        """
        found = self.by_key.get(key)
        if found is None:
            if self._stopped:
                raise UpstreamBusy("the host stops")
            own = [each for each in self.by_key if each[0] == key[0]]
            if len(own) >= self._share:
                self._make_room(own)
            elif len(self.by_key) >= self._most:
                self._make_room(list(self.by_key))
            found = self.by_key[key] = self._make(key)
            found.startService()
            self._watch()
        self.by_key.move_to_end(key)
        return found

    def stop(self) -> Deferred[Any]:
        """End all instances; fires when their processes are gone."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for key in list(self.by_key):
            self._end(key)
        return DeferredList(list(self._ending))

    def _make_room(self, among: list[Key]) -> None:
        for key in among:
            if not self.by_key[key].busy:
                self.evicted += 1
                self._end(key)
                return
        raise UpstreamBusy("as many processes or sessions as may be are busy")

    def _end(self, key: Key) -> None:
        ended = self.by_key.pop(key).stopService()
        self._ending.add(ended)

        def discard(result: Any) -> Any:
            self._ending.discard(ended)
            return result

        ended.addBoth(discard)

    def _watch(self) -> None:
        if self._timer is None or not self._timer.active():
            self._timer = self._clock.callLater(min(self._idle, SWEEP), self._sweep)

    def _sweep(self) -> None:
        now = self._clock.seconds()
        for key, instance in list(self.by_key.items()):
            if not instance.busy and now - instance.last_used >= self._idle:
                self.evicted += 1
                self._end(key)
        if self.by_key:
            self._watch()


_ASKABLE = frozenset(KINDS.values())


def can_be_asked(meta: Mapping[str, Any]) -> bool:
    """Return whether a caller declares in ``_meta`` that it can answer questions of servers."""
    declared = meta.get(META + "clientCapabilities")
    return type(declared) is dict and not _ASKABLE.isdisjoint(declared)


def own_settings(server: IsMcpServer, key: Key) -> tuple[MCPServerSection, bool]:
    """Return the settings of a caller's process, and whether it must speak the handshake era."""
    # The server's protocol is known by now, so that callers' processes need not probe for it.
    agreed = server.settings.protocol if server.terms is None else server.terms.version
    older = key[2] and agreed == STATELESS
    changes = {"start": "lazy", "protocol": "auto" if older else agreed}
    return server.settings.model_copy(update=changes), older


class InstanceChoice(Generic[T]):
    """
    The choice of the process or session that serves a caller at one server.

    :param server: the shared one.
    :param instances: those of single callers.
    """

    def __init__(self, server: T, instances: CallerInstances[T]) -> None:
        self._server = server
        self._instances = instances
        self._refuses_handshake = False

    def find_instance(self, agent_id: str, session_id: str | None) -> T:
        """
        Return what serves a caller: its own instance if it has one or ``isolation`` demands it, else the shared server.

        :raises UpstreamBusy: the table of instances is full.
        """
        server = self._server
        if not server.isolated and not self._instances.by_key:
            return server
        own = self._instances.get(self._key(agent_id, session_id, handshake=True))
        if own is not None or not server.isolated:
            return own or server
        return self._instances.get_or_start(self._key(agent_id, session_id, handshake=False))

    async def choose_instance(
        self,
        agent_id: str,
        session_id: str | None,
        meta: Mapping[str, Any],
        seconds: float,
        roots: Roots | None = None,
    ) -> T:
        """
        Return what serves one request; see :meth:`find_instance`.

        :param meta: the request's ``_meta``.
        :param seconds: how long a start may take.
        :param roots: the caller's; None: the request does not have them.
        :raises UpstreamFailure: it does not start.
        :raises RootsNeeded: the request has to have its caller's roots.
        """
        server = self._server
        settings = server.settings
        if settings.isolation == "shared" or not can_be_asked(meta):
            return self.find_instance(agent_id, session_id)
        if server.terms is None:
            await server.wait_until_up(seconds)
        stateless = server.terms is not None and server.terms.stateless
        if stateless and (settings.protocol != "auto" or self._refuses_handshake or not keeps_session(meta)):
            return (
                server if not server.isolated else self._instances.get_or_start(self._key(agent_id, session_id, False))
            )
        if not declares_roots(meta) or settings.roots is not None:
            # A caller without roots declares that, so that a server that asks gets its answer without a delay.
            key = self._key(agent_id, session_id, stateless or not server.isolated)
            return await self._start_own(key, stateless, seconds, () if settings.roots is None else None)
        private = bool(session_id) and settings.isolation != "per-agent" and keeps_session(meta)
        if roots is None and (server.asks_roots or not private):
            raise RootsNeeded
        digest = "" if private or roots is None else digest_of(roots)
        key = self._key(agent_id, session_id, stateless or not server.isolated, digest)
        return await self._await_roots(await self._start_own(key, stateless, seconds, roots), roots, seconds)

    def asks_first(self, meta: Mapping[str, Any]) -> bool:
        """
        Return whether a caller is asked for its roots before a call, as far as ``_meta`` and the server determine it.
        """
        server, settings = self._server, self._server.settings
        if settings.roots is not None or settings.isolation == "shared" or not declares_roots(meta):
            return False
        if server.terms is None:
            return False
        if keeps_session(meta):
            return server.asks_roots
        return not server.terms.stateless

    async def _await_roots(self, own: T, roots: Roots | None, seconds: float) -> T:
        """Wait until a process has the roots of its caller."""
        if own.terms is None:
            await own.wait_until_up(seconds)
        if own is not self._server:

            def ping() -> Deferred[Any]:
                return own.post("ping", {}, PING_SECONDS)

            if roots is None:
                await own.roots.wait_until_asked(ping)
                if own.roots.has_waiting or own.roots.caller_roots is not None:
                    raise RootsNeeded
            await own.roots.wait_until_read(ping, asks=self._server.asks_roots)
        return own

    async def _start_own(self, key: Key, stateless: bool, seconds: float, roots: Roots | None = None) -> T:
        """
        Return the caller's own process, started where it is new.

        :param stateless: whether the server speaks 2026-07-28 as well, which this process must not.
        """
        agent_id, session_id, handshake, _ = key
        own = self._instances.get_or_start(key)
        if roots is not None:
            own.roots.take(roots)
        if handshake and stateless and own.terms is None:
            try:
                await own.wait_until_up(seconds)
            except UpstreamFailure:
                if not own.refused_revision:
                    raise
                # The server speaks only 2026-07-28, which is not an error.
                self._refuses_handshake = True
                self._instances.end(key)
                return self.find_instance(agent_id, session_id)
        return own

    def set_level(self, agent_id: str, session_id: str | None, level: str) -> None:
        """Set the least log level of the caller's own process, where there is one and it logs."""
        instance = self.find_instance(agent_id, session_id)
        terms = instance.terms
        if instance is self._server or terms is None or terms.stateless or "logging" not in terms.capabilities:
            return
        setting = instance.post("logging/setLevel", {"level": level}, instance.settings.timeout)
        setting.addErrback(lambda failure: instance.say(f"the level is not set: {failure.value}", LogLevel.info))

    def _key(self, agent_id: str, session_id: str | None, handshake: bool, roots: str = "") -> Key:
        session = "" if self._server.settings.isolation == "per-agent" else session_id or ""
        return agent_id, session, handshake, roots
