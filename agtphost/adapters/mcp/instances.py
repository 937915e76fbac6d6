"""
Processes and HTTP sessions that belong to one caller, and which one a call goes to: ``isolation`` (adapters rule G3).

With ``auto``, the default, callers share one, which speaks the newest revision that the server does. A caller who can
be asked (sampling, elicitation, roots) has one of its own besides where that takes the handshake era: at a server that
speaks nothing newer, for then alone is it known whom the server asks; and at one that speaks both, where the caller
itself speaks an older revision, for servers ask in the manner of the revision that they are spoken to in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import LogLevel

from agtphost.adapters.mcp.elicitation import KINDS
from agtphost.adapters.mcp.requests import SendsRequests
from agtphost.adapters.mcp.roots import Roots, RootsNeeded, declares_roots, digest_of, keeps_session
from agtphost.adapters.mcp.versions import META, STATELESS
from agtphost.config.upstreams import MCPServerSection
from agtphost.upstream.failures import Busy, UpstreamFailure

Key = tuple[str, str, bool, str]
"""
Agent-ID, Session-ID (empty where it does not matter), whether it has to be of the handshake era, and the digest of the
caller's roots (empty where they are the session's).
"""

SWEEP = 5.0
"""Seconds between two looks for idle ones, at most."""


T = TypeVar("T", bound=SendsRequests)


class Instances(Generic[T]):
    """
    A bounded number of servers, each for one caller.

    :param clock: for idleness.
    :param make: makes one for a key, not started.
    :param most: how many there may be.
    :param idle: seconds without a call after which one is ended.
    """

    def __init__(self, clock: IReactorTime, make: Callable[[Key], T], most: int, idle: float) -> None:
        self._clock = clock
        self._make = make
        self._most = most
        self._share = max(1, most - max(1, most // 4))
        self._idle = idle
        self._by_key: OrderedDict[Key, T] = OrderedDict()
        self._ending: set[Deferred[None]] = set()
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self.evicted = 0
        """Ended because nobody used them, or to make room."""

    def __len__(self) -> int:
        return len(self._by_key)

    def all(self) -> list[T]:
        """Every one, the one used longest ago first."""
        return list(self._by_key.values())

    def get(self, key: Key) -> T | None:
        """The caller's own where it has one."""
        found = self._by_key.get(key)
        if found is not None:
            self._by_key.move_to_end(key)
        return found

    def of_agent(self, agent_id: str) -> list[T]:
        """Every one of an agent."""
        return [each for key, each in self._by_key.items() if key[0] == agent_id]

    def end(self, key: Key) -> None:
        """End one, if it is there."""
        if key in self._by_key:
            self._end(key)

    def of(self, key: Key) -> T:
        """
        The caller's own, begun where it is new.

        :raises Busy: there are as many as may be, or this agent has three quarters of them, and all are busy.
        """
        found = self._by_key.get(key)
        if found is None:
            if self._stopped:
                raise Busy("the host stops")
            own = [each for each in self._by_key if each[0] == key[0]]
            if len(own) >= self._share:
                self._make_room(own)
            elif len(self._by_key) >= self._most:
                self._make_room(list(self._by_key))
            found = self._by_key[key] = self._make(key)
            found.startService()
            self._watch()
        self._by_key.move_to_end(key)
        return found

    def stop(self) -> Deferred[Any]:
        """End all; fires when nothing of them is left."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for key in list(self._by_key):
            self._end(key)
        return DeferredList(list(self._ending))

    def _make_room(self, among: list[Key]) -> None:
        for key in among:
            if not self._by_key[key].busy:
                self.evicted += 1
                self._end(key)
                return
        raise Busy("as many processes or sessions as may be are busy")

    def _end(self, key: Key) -> None:
        ended = self._by_key.pop(key).stopService()
        self._ending.add(ended)

        def gone(result: Any) -> Any:
            self._ending.discard(ended)
            return result

        ended.addBoth(gone)

    def _watch(self) -> None:
        if self._timer is None or not self._timer.active():
            self._timer = self._clock.callLater(min(self._idle, SWEEP), self._sweep)

    def _sweep(self) -> None:
        now = self._clock.seconds()
        for key, instance in list(self._by_key.items()):
            if not instance.busy and now - instance.last_used >= self._idle:
                self.evicted += 1
                self._end(key)
        if self._by_key:
            self._watch()


_ASKABLE = frozenset(KINDS.values())


def can_be_asked(meta: Mapping[str, Any]) -> bool:
    """Whether a caller says in ``_meta`` that it can answer some of what servers ask."""
    declared = meta.get(META + "clientCapabilities")
    return type(declared) is dict and not _ASKABLE.isdisjoint(declared)


def own_settings(server: SendsRequests, key: Key) -> tuple[MCPServerSection, bool]:
    """The settings of a caller's own process, and whether the server is spoken to in it as one of the handshake era."""
    # What it speaks is known by now: every caller's own process need not be asked again.
    agreed = server.settings.protocol if server.terms is None else server.terms.version
    older = key[2] and agreed == STATELESS
    changes = {"start": "lazy", "protocol": "auto" if older else agreed}
    return server.settings.model_copy(update=changes), older


class Sharing(Generic[T]):
    """
    Finds what serves a caller at one server.

    :param server: the one that is shared.
    :param instances: callers' own.
    """

    def __init__(self, server: T, instances: Instances[T]) -> None:
        self._server = server
        self._instances = instances
        self._refuses_handshake = False

    def known(self, agent_id: str, session_id: str | None) -> T:
        """
        What serves a caller: the shared server, or the caller's own where it has one or ``isolation`` demands it.

        :raises Busy: there are as many instances as may be.
        """
        server = self._server
        own = self._instances.get(self._key(agent_id, session_id, handshake=True))
        if own is not None or not server.isolated:
            return own or server
        return self._instances.of(self._key(agent_id, session_id, handshake=False))

    async def serving(
        self,
        agent_id: str,
        session_id: str | None,
        meta: Mapping[str, Any],
        seconds: float,
        roots: Roots | None = None,
    ) -> T:
        """
        What serves one request; see :meth:`known`.

        :param meta: the request's ``_meta``.
        :param seconds: how long it may take to start what is needed.
        :param roots: the caller's; None: the request does not say them.
        :raises UpstreamFailure: it does not start.
        :raises RootsNeeded: the request has to say its caller's roots.
        """
        server = self._server
        settings = server.settings
        if settings.isolation == "shared" or not can_be_asked(meta):
            return self.known(agent_id, session_id)
        if server.terms is None:
            await server.risen(seconds)
        stateless = server.terms is not None and server.terms.stateless
        if stateless and (settings.protocol != "auto" or self._refuses_handshake or not keeps_session(meta)):
            return server if not server.isolated else self._instances.of(self._key(agent_id, session_id, False))
        if not declares_roots(meta) or settings.roots is not None:
            # Who has no roots says so: a server that asks for them is not kept waiting.
            key = self._key(agent_id, session_id, stateless or not server.isolated)
            return await self._own(key, stateless, seconds, () if settings.roots is None else None)
        private = bool(session_id) and settings.isolation != "per-agent" and keeps_session(meta)
        if roots is None and (server.asks_roots or not private):
            raise RootsNeeded
        digest = "" if private or roots is None else digest_of(roots)
        key = self._key(agent_id, session_id, stateless or not server.isolated, digest)
        return await self._rooted(await self._own(key, stateless, seconds, roots), roots, seconds)

    def asks_first(self, meta: Mapping[str, Any]) -> bool:
        """Return whether a caller is asked for its roots before a call, as far as ``_meta`` and the server tell it."""
        server, settings = self._server, self._server.settings
        if settings.roots is not None or settings.isolation == "shared" or not declares_roots(meta):
            return False
        if server.terms is None:
            return False
        if keeps_session(meta):
            return server.asks_roots
        return not server.terms.stateless

    async def _rooted(self, own: T, roots: Roots | None, seconds: float) -> T:
        """Wait until a process has the roots that it is to be called with."""
        if own.terms is None:
            await own.risen(seconds)
        if own is not self._server:
            if roots is None and (own.roots.wanted or own.roots.known is not None):
                raise RootsNeeded
            await own.roots.settle(asks=self._server.asks_roots)
        return own

    async def _own(self, key: Key, stateless: bool, seconds: float, roots: Roots | None = None) -> T:
        """
        Return the caller's own process, begun where it is new.

        :param stateless: whether the server speaks 2026-07-28 as well, and this one may not.
        """
        agent_id, session_id, handshake, _ = key
        own = self._instances.of(key)
        if roots is not None:
            own.roots.take(roots)
        if handshake and stateless and own.terms is None:
            try:
                await own.risen(seconds)
            except UpstreamFailure:
                if not own.not_spoken:
                    raise
                # A server of 2026-07-28 alone; that it does not speak older revisions is no fault of it.
                self._refuses_handshake = True
                self._instances.end(key)
                return self.known(agent_id, session_id)
        return own

    def set_level(self, agent_id: str, session_id: str | None, level: str) -> None:
        """Tell the caller's own process, where there is one and it logs, from which level on."""
        instance = self.known(agent_id, session_id)
        terms = instance.terms
        if instance is self._server or terms is None or terms.stateless or "logging" not in terms.capabilities:
            return
        setting = instance.post("logging/setLevel", {"level": level}, instance.settings.timeout)
        setting.addErrback(lambda failure: instance.say(f"the level is not set: {failure.value}", LogLevel.info))

    def _key(self, agent_id: str, session_id: str | None, handshake: bool, roots: str = "") -> Key:
        session = "" if self._server.settings.isolation == "per-agent" else session_id or ""
        return agent_id, session, handshake, roots
