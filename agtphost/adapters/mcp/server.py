"""
One hosted MCP server: kept running, negotiated with, listed, called.

An upstream that misbehaves harms nobody but its own callers: every wait has a
deadline, every queue a bound, and a call is sent at most once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from agtphost import __version__
from agtphost.adapters.mcp.catalogue import Catalogue
from agtphost.adapters.mcp.dialogue import Dialogue
from agtphost.adapters.mcp.eras import negotiate
from agtphost.adapters.mcp.failures import (
    CallCancelled,
    CallTimeout,
    LinkLost,
    McpFailure,
    RpcError,
    ServerDown,
    UnreadableAnswer,
)
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import OpenLink
from agtphost.adapters.mcp.server_log import ServerLog
from agtphost.adapters.mcp.settings import McpServerSettings
from agtphost.adapters.mcp.snapshot import CallCounters, ServerSnapshot
from agtphost.adapters.mcp.supervision import Delays, State, supervise
from agtphost.adapters.mcp.tools import ToolPins
from agtphost.adapters.mcp.transports import link_opener
from agtphost.adapters.mcp.turns import Turns

CLIENT = {"name": "agtphost", "version": __version__}
"""How this host presents itself to servers."""


class McpServer(Service):
    """
    The service of one ``[[mcp.server]]``.

    :param reactor: spawns, connects and schedules.
    :param settings: what the operator says.
    :param environ: the host's environment, of which a child gets six names.
    :param open_link: opens links; None means by the settings.
    :param pins: which tool definitions are approved; None means those of the settings.
    :param jitter: a number from 0 to 1, anew each time.
    """

    def __init__(
        self,
        reactor: Any,
        settings: McpServerSettings,
        environ: Mapping[str, str],
        *,
        open_link: OpenLink | None = None,
        pins: ToolPins | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"mcp.{settings.name}"
        self.settings = settings
        self._clock = reactor
        # A bearer token may show up with or without its scheme.
        tokens = [value.rpartition(" ")[2] for value in settings.headers.values()]
        secrets = (*settings.env.values(), *settings.headers.values(), *tokens)
        self._log = ServerLog(reactor, settings.name, secrets)
        self._open_link = open_link or link_opener(reactor, settings, environ, self._log)
        self.catalogue = Catalogue(reactor, self, pins or ToolPins(settings.pins), self._log)
        self._turns = Turns(reactor, settings.max_concurrency, settings.max_queue)
        self._delays = Delays(jitter)
        self._machine = supervise(self)
        self._counters = CallCounters()
        self._state = State.STOPPED
        self._dialogue: Dialogue | None = None
        self._peer: JsonRpcPeer | None = None
        self._attempt: Deferred[None] | None = None
        self._closing: Deferred[None] = succeed(None)
        self._timer: IDelayedCall | None = None
        self._waiters: list[Deferred[Dialogue]] = []
        self._up_since = 0.0
        self._next_attempt = 0.0
        self._reason = ""
        self._probe = True
        self._attempts = 0

    # The service

    def startService(self) -> None:
        """Start the server, or wait for its first call."""
        super().startService()  # type: ignore[no-untyped-call]
        if self.settings.start == "lazy":
            self._machine.arm()
        else:
            self._machine.start()

    def stopService(self) -> Deferred[None]:
        """End the server; fires when nothing of it is left."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._machine.stop()
        return self._closed()

    # Calls

    @property
    def state(self) -> State:
        """Its present state."""
        return self._state

    def seconds(self) -> float:
        """The reactor's time."""
        now: float = self._clock.seconds()
        return now

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any]:
        """
        Call a tool, once.

        :param name: the server's own name of the tool.
        :param seconds: how long it may take, the wait for a turn included.
        :return: the result of ``tools/call`` as received.
        :raises McpFailure: for every other outcome.
        """
        began = self._clock.seconds()
        try:
            if self._dialogue is None:
                await self._risen(seconds)
            if not self._turns.take():
                await self._turns.wait(seconds - (self._clock.seconds() - began))
            try:
                result = await self._send(name, arguments, meta, seconds - (self._clock.seconds() - began))
            finally:
                self._turns.give_back()
        except McpFailure as failure:
            self._counters.failed(failure)
            raise
        if type(result) is not dict:
            self._counters.failed(UnreadableAnswer("no object"))
            raise UnreadableAnswer("the server's result is no object")
        self._counters.succeeded(self._clock.seconds() - began)
        return result

    def snapshot(self) -> ServerSnapshot:
        """What an operator may see; nothing secret, nothing of a caller."""
        dialogue, peer = self._dialogue, self._peer
        now = self._clock.seconds()
        waiting = self._state in (State.BACKOFF, State.FAILED)
        return ServerSnapshot(
            name=self.settings.name,
            transport="http" if self.settings.url else "stdio",
            state=self._state.value,
            pid=peer.link.pid if peer is not None else None,
            era=dialogue.terms.era if dialogue else None,
            version=dialogue.terms.version if dialogue else None,
            server=dialogue.terms.server if dialogue else {},
            tools=len(self.catalogue.bindings),
            changed_tools=tuple(sorted(self.catalogue.changed)),
            restarts=max(self._attempts - 1, 0),
            up_for=now - self._up_since if self._state is State.UP else None,
            next_attempt_in=max(self._next_attempt - now, 0.0) if waiting else None,
            reason=self._log.clean(self._reason),
            in_flight=peer.in_flight if peer is not None else 0,
            waiting=self._turns.waiting,
            calls=self._counters,
            link={**peer.link.facts(), **peer.facts()} if peer is not None else {},
        )

    # What the machine causes: agtphost.adapters.mcp.supervision.Effects

    def entered(self, state: State) -> None:
        """Note the state."""
        self._state = state
        if state is State.UP:
            self._up_since = self._clock.seconds()
            self._reason = ""

    def connect(self) -> None:
        """Begin an attempt."""
        self._attempts += 1
        attempt = Deferred.fromCoroutine(self._establish())
        self._attempt = attempt
        attempt.addTimeout(self.settings.start_timeout, self._clock)
        attempt.addCallbacks(self._established, self._not_established)

    def disconnect(self) -> None:
        """End what there is."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        self._release(LinkLost("the host stops"))

    def wait(self, delay: float) -> None:
        """Try again later."""
        self._next_attempt = self._clock.seconds() + delay
        self._timer = self._clock.callLater(delay, self._machine.due)

    def forget(self) -> None:
        """Do not try again."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    # Behind these

    def _send(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any], timeout: float
    ) -> Deferred[Any]:
        dialogue = self._dialogue
        if dialogue is None:
            raise self._down()
        tool = self.catalogue.tools.get(name)
        if tool is None or name not in self.catalogue.bindings:
            raise RpcError({"code": -32602, "message": f"Unknown tool: {name}"})
        return dialogue.call_tool(tool, arguments, meta, timeout)

    async def _risen(self, seconds: float) -> None:
        """Wait for the first start; a server that failed is not waited for."""
        self._machine.demand()
        if self._dialogue is not None:
            return
        if self._state is not State.STARTING or self._delays.failures:
            raise self._down()
        if len(self._waiters) >= self.settings.max_queue:
            raise self._down()
        waiter: Deferred[Dialogue] = Deferred(self._waiters.remove)
        self._waiters.append(waiter)
        waiter.addTimeout(seconds, self._clock)
        try:
            await waiter
        except TimeoutError:
            raise CallTimeout("the server did not start in time") from None

    def _down(self) -> ServerDown:
        wait = 1.0
        if self._state in (State.BACKOFF, State.FAILED):
            wait = max(self._next_attempt - self._clock.seconds(), 1.0)
        return ServerDown(self._state.value, ceil(wait), self._reason)

    async def _establish(self) -> None:
        await self._closed()
        # A link may end before its peer is known here; the peer then fails the negotiation.
        peer = self._peer = JsonRpcPeer(self._clock, self._open_link, self._notified, self._lost)
        settings = self.settings
        probing = self._probe
        try:
            terms = await negotiate(peer, CLIENT, settings.protocol, settings.start_timeout, probe=probing)
        except McpFailure:
            # Some servers die of a method they do not know, others of its absence: alternate.
            self._probe = not probing
            raise
        dialogue = Dialogue(peer, terms, CLIENT)
        await self.catalogue.load(dialogue)
        self._dialogue = dialogue

    def _established(self, _: None) -> None:
        self._attempt = None
        dialogue = self._dialogue
        if dialogue is None:
            return
        self._machine.established()
        count = len(self.catalogue.bindings)
        self._log.event(f"up, protocol {dialogue.terms.version}, {count} tools", LogLevel.info)
        self.catalogue.attend(dialogue, notified=not self.settings.url)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.callback(dialogue)

    def _not_established(self, failure: Failure) -> None:
        self._attempt = None
        if self._state is not State.STARTING:
            return
        if isinstance(failure.value, (TimeoutError, CancelledError, CallCancelled)):
            reason = f"it did not start within {self.settings.start_timeout:g} s"
        elif isinstance(failure.value, McpFailure):
            reason = str(failure.value)
        else:
            reason = f"{type(failure.value).__name__}: {failure.value}"
        self._fail(LinkLost(reason), up_for=0.0)

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self.catalogue.note_change()
        elif method == "notifications/message":
            self._log.say(f"{params.get('level', 'info')!s}: {params.get('data')!s}"[:1024])

    def _lost(self, failure: LinkLost) -> None:
        """The link ended; while starting, the attempt's own failure tells the same."""
        if self._state is State.UP:
            self._fail(failure, up_for=self._clock.seconds() - self._up_since)

    def _fail(self, failure: LinkLost, up_for: float) -> None:
        self._reason = str(failure)
        delay, given_up = self._delays.after_failure(self._clock.seconds(), up_for)
        self._log.event(f"{failure}; next attempt in {delay:.1f} s")
        self._release(failure)
        (self._machine.suspend if given_up else self._machine.retry)(delay)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.errback(self._down())

    def _release(self, failure: LinkLost) -> None:
        """Let go of the link and of everyone who waits for it."""
        peer, self._peer, self._dialogue = self._peer, None, None
        self.catalogue.rest()
        if peer is not None:
            self._closing = peer.link.close()
        self._turns.fail_all(failure)

    def _closed(self) -> Deferred[None]:
        """Fires when the last link is gone."""
        waiter: Deferred[None] = Deferred()

        def gone(result: None) -> None:
            if not waiter.called:
                waiter.callback(None)
            return result

        self._closing.addCallback(gone)
        return waiter
