"""
One hosted MCP server: kept running, negotiated with, listed, called.

An upstream that misbehaves harms nobody but its own callers: every wait has a
deadline, every queue a bound, and a call is sent at most once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, TimeoutError, fail, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from agtphost import __version__
from agtphost.adapters.mcp.asking import Asking
from agtphost.adapters.mcp.catalogue import Catalogue
from agtphost.adapters.mcp.desk import Desk, configured_roots
from agtphost.adapters.mcp.dialogue import Dialogue
from agtphost.adapters.mcp.eras import ANSWERABLE, NOTHING, Terms, negotiate
from agtphost.adapters.mcp.failures import (
    CallCancelled,
    CallTimeout,
    LinkLost,
    McpFailure,
    RpcError,
    ServerDown,
    UnreadableAnswer,
)
from agtphost.adapters.mcp.instances import Instances
from agtphost.adapters.mcp.interviews import Interview, owner_of
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import OpenLink
from agtphost.adapters.mcp.offers import Offers
from agtphost.adapters.mcp.server_log import ServerLog
from agtphost.adapters.mcp.settings import McpServerSettings
from agtphost.adapters.mcp.snapshot import CallCounters, ServerSnapshot
from agtphost.adapters.mcp.subscribers import Subscribers
from agtphost.adapters.mcp.supervision import Delays, State, supervise
from agtphost.adapters.mcp.tools import ToolPins
from agtphost.adapters.mcp.transports import link_opener
from agtphost.adapters.mcp.turns import Caller, Turns, may_await_start

CLIENT = {"name": "agtphost", "version": __version__}
"""How this host presents itself to servers."""

MAX_INSTRUCTIONS = 8192
"""Characters of a server's instructions that are shown."""

Send = Callable[[Dialogue, "float | None"], Deferred[Any]]
"""Sends a request in a dialogue, with so many seconds for the answer; None: whoever waits keeps the time."""


class McpServer(Service):
    """
    The service of one ``[[mcp.server]]``.

    :param reactor: spawns, connects and schedules.
    :param settings: what the operator says.
    :param environ: the host's environment, of which a child gets six names.
    :param open_link: opens links; None means by the settings.
    :param pins: which tool definitions are approved; None means those of the settings.
    :param jitter: a number from 0 to 1, anew each time.
    :param alone: whether it is the instance of one caller: see :mod:`agtphost.adapters.mcp.instances`.
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
        alone: bool = False,
    ) -> None:
        self.name = f"mcp.{settings.name}"
        self.settings = settings
        self.isolated = settings.isolation != "shared"
        """Whether each caller has an instance of its own."""

        self.desk = Desk(reactor)
        """What is known of calls under way; the adapter's own once there is one."""

        self.last_used = 0.0
        """When it was last called, reactor time."""

        self._clock = reactor
        self._alone = alone
        # A bearer token may show up with or without its scheme.
        tokens = [value.rpartition(" ")[2] for value in settings.headers.values()]
        own = () if settings.oauth is None else (settings.oauth.client_secret,)
        secrets = (*settings.env.values(), *settings.headers.values(), *tokens, *own)
        self._log = ServerLog(reactor, settings.name, secrets)
        self._open_link = open_link or link_opener(reactor, settings, environ, self._log)
        approved = ToolPins(settings.pins) if pins is None else pins
        self.catalogue = Catalogue(reactor, self, approved, self._log, self._tools_changed)
        self.offers = Offers(reactor, self, self._log)
        self.events = Subscribers(self)
        # Whose call a server of the handshake era asks in is known by there being one call.
        at_once = 1 if alone and not settings.url else settings.max_concurrency
        self._turns = Turns(reactor, at_once, settings.max_queue)
        self._interviews: list[Interview] = []
        self._listening: list[Asking] = []
        self._at_work = 0

        def instance() -> McpServer:
            # What it speaks is known by now: every caller's own process need not be asked again.
            agreed = settings.protocol if self.terms is None else self.terms.version
            lone: McpServerSettings = replace(settings, start="lazy", protocol=agreed)
            made = McpServer(
                reactor, lone, environ, open_link=open_link, pins=approved, jitter=jitter, alone=True
            )
            made.desk = self.desk
            return made

        self.instances: Instances[McpServer] = Instances(
            reactor, instance, settings.max_instances, settings.idle_stop
        )
        self._delays = Delays(jitter)
        self._machine = supervise(self)
        self._counters = CallCounters()
        self._state = State.STOPPED
        self._dialogue: Dialogue | None = None
        self._peer: JsonRpcPeer | None = None
        self._attempt: Deferred[None] | None = None
        self._closing: Deferred[None] = succeed(None)
        self._timer: IDelayedCall | None = None
        self._waiters: dict[Deferred[Dialogue], Caller] = {}
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
        return DeferredList([self._closed(), self.instances.stop()]).addCallback(lambda _: None)

    # Calls

    @property
    def state(self) -> State:
        """Its present state."""
        return self._state

    def seconds(self) -> float:
        """The reactor's time."""
        now: float = self._clock.seconds()
        return now

    @property
    def clock(self) -> IReactorTime:
        """The reactor's clock."""
        clock: IReactorTime = self._clock
        return clock

    def say(self, text: str, level: LogLevel) -> None:
        """Log what concerns one caller, within the quota of what is logged of this server."""
        self._log.say(text, level)

    async def risen(self) -> None:
        """
        Wait until it is up, starting it where it waits for its first call.

        :raises McpFailure: it is down.
        """
        if self._dialogue is None:
            await self._risen(self.settings.start_timeout)

    def level_for(self, agent_id: str, session_id: str | None, level: str) -> None:
        """Tell the caller's own instance, where there is one and it logs, from which level on."""
        if not self.isolated:
            return
        instance = self.instance_of(agent_id, session_id)
        terms = instance.terms
        if terms is not None and not terms.stateless and "logging" in terms.capabilities:
            setting = instance.post("logging/setLevel", {"level": level}, self.settings.timeout)
            setting.addErrback(lambda failure: self._log.say(f"the level is not set: {failure.value}"))

    @property
    def terms(self) -> Terms | None:
        """What was agreed with it; None while it is not up."""
        return self._dialogue.terms if self._dialogue is not None else None

    @property
    def busy(self) -> bool:
        """Whether a call is under way or parked, or somebody listens."""
        return bool(self._at_work or self._interviews or self.events)

    def instance_of(self, agent_id: str, session_id: str | None) -> McpServer:
        """
        What serves a caller: this server itself, or the caller's own instance.

        :raises Overloaded: there are as many instances as may be.
        """
        if not self.isolated or self._alone:
            return self
        return self.instances.of((agent_id, (session_id or "") if self.settings.isolation == "per-session" else ""))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        seconds: float,
        asking: Asking | None = None,
        caller: Caller = None,
    ) -> Awaitable[Mapping[str, Any]]:
        """
        Call a tool, once; see :meth:`request`.

        :param name: the server's own name of the tool.
        :return: the result of ``tools/call`` as received.
        """

        def send(dialogue: Dialogue, timeout: float | None) -> Deferred[Any]:
            tool = self.catalogue.tools.get(name)
            if tool is None or name not in self.catalogue.bindings:
                raise RpcError({"code": -32602, "message": f"Unknown tool: {name}"})
            return dialogue.call_tool(tool, arguments, meta, timeout, asking)

        return self.request(send, seconds, asking, caller)

    async def request(
        self, send: Send, seconds: float, asking: Asking | None = None, caller: Caller = None
    ) -> Mapping[str, Any]:
        """
        Ask something, once.

        :param send: sends the request.
        :param seconds: how long it may take, the wait for a turn included.
        :param asking: its caller, where it can be asked or told anything before the result.
        :param caller: whose share of the turns it takes; None: it is the host's own request.
        :return: the result as received, or an ``input_required`` result.
        :raises McpFailure: for every other outcome.
        """
        began = self.last_used = self._clock.seconds()
        if self._alone:
            caller = None
        self._at_work += 1
        try:
            if self._dialogue is None:
                await self._risen(seconds, asking, caller)
            if not self._turns.take(caller):
                turn = self._turns.wait(seconds - (self._clock.seconds() - began), caller)
                await (turn if asking is None else asking.working(turn))
            try:
                left = seconds - (self._clock.seconds() - began)
                dialogue = self._dialogue
                if dialogue is None:
                    raise self._down()
                if asking is None:
                    result = await send(dialogue, left)
                else:
                    result = await self._attended(send, dialogue, left, asking)
            finally:
                self._turns.give_back(caller)
        except McpFailure as failure:
            self._counters.failed(failure)
            raise
        finally:
            self._at_work -= 1
        if type(result) is not dict:
            self._counters.failed(UnreadableAnswer("no object"))
            raise UnreadableAnswer("the server's result is no object")
        self._counters.succeeded(self._clock.seconds() - began)
        return result

    async def resume(
        self,
        interview: Interview,
        responses: Mapping[str, Any],
        seconds: float,
        asking: Asking,
        caller: Caller = None,
    ) -> Mapping[str, Any]:
        """
        Go on with a call that was parked.

        :param responses: what its caller answered.
        :raises McpFailure: as :meth:`request` does.
        """

        def answer(dialogue: Dialogue, timeout: float | None) -> Deferred[Any]:
            interview.answer(responses)
            return interview.outcome(seconds)

        asking.interview = interview
        return await self.request(answer, seconds, asking, caller)

    def release(self, interview: Interview) -> None:
        """Give a parked call up."""
        interview.give_up()
        if interview in self._interviews:
            self._interviews.remove(interview)

    def post(self, method: str, params: dict[str, Any], seconds: float) -> Deferred[Any]:
        """
        Send a request that no caller waits for.

        :raises McpFailure: through the Deferred.
        """
        if self._dialogue is None:
            return fail(self._down())
        return self._dialogue.request(method, params, seconds)

    def listen(self, method: str, params: dict[str, Any]) -> Deferred[Any]:
        """Send a request that lasts; see :meth:`post`."""
        if self._dialogue is None:
            return fail(self._down())
        return self._dialogue.request(method, params, None)

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
            unmatched_rules=self.catalogue.unmatched,
            restarts=max(self._attempts - 1, 0),
            capabilities=dialogue.terms.capabilities if dialogue else {},
            instructions=dialogue.terms.instructions[:MAX_INSTRUCTIONS] if dialogue else "",
            instances=len(self.instances),
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

    async def _attended(self, send: Send, dialogue: Dialogue, seconds: float, asking: Asking) -> Any:
        """A call whose caller listens, may give it up, or can be asked."""
        if asking.sink is not None:
            self._listening.append(asking)
        try:
            if asking.interview is None and not (self._alone and not dialogue.terms.stateless):
                return await asking.working(send(dialogue, seconds))
            return await self._interviewed(send, dialogue, seconds, asking)
        finally:
            if asking.sink is not None:
                self._listening.remove(asking)

    async def _interviewed(self, send: Send, dialogue: Dialogue, seconds: float, asking: Asking) -> Any:
        interview = asking.interview
        if interview is None:
            # The deadline is the interview's: it does not run while the caller is asked.
            working = send(dialogue, None)
            allowed = ANSWERABLE if asking.capabilities is None else asking.capabilities
            peer = dialogue.peer
            interview = Interview(self._clock, peer.respond, working, peer.last_id, allowed)
            asking.interview, interview.first = interview, asking
            self._interviews.append(interview)
            outcome = interview.outcome(seconds)
        else:
            if interview.first is not None:
                interview.first.repeated = asking
            outcome = send(dialogue, seconds)
        try:
            return await asking.working(outcome)
        finally:
            if interview.over and interview in self._interviews:
                self._interviews.remove(interview)

    async def _risen(self, seconds: float, asking: Asking | None = None, caller: Caller = None) -> None:
        """Wait for the first start; a server that failed is not waited for."""
        self._machine.demand()
        if self._dialogue is not None:
            return
        if self._state is not State.STARTING or self._delays.failures:
            raise self._down()
        if not may_await_start(self._waiters.values(), caller, self.settings.max_queue):
            raise self._down()
        waiter: Deferred[Dialogue] = Deferred(self._waits_no_more)
        self._waiters[waiter] = caller
        waiter.addTimeout(seconds, self._clock)
        try:
            await (waiter if asking is None else asking.working(waiter))
        except TimeoutError:
            raise CallTimeout("the server did not start in time") from None

    def _waits_no_more(self, waiter: Deferred[Dialogue]) -> None:
        self._waiters.pop(waiter, None)

    def _down(self) -> ServerDown:
        wait = 1.0
        if self._state in (State.BACKOFF, State.FAILED):
            wait = max(self._next_attempt - self._clock.seconds(), 1.0)
        return ServerDown(self._state.value, ceil(wait), self._reason)

    async def _establish(self) -> None:
        await self._closed()
        # A link may end before its peer is known here; the peer then fails the negotiation.
        peer = self._peer = JsonRpcPeer(
            self._clock, self._open_link, self._notified, self._lost, self._asked
        )
        settings = self.settings
        probing = self._probe
        try:
            terms = await negotiate(
                peer,
                CLIENT,
                settings.protocol,
                settings.start_timeout,
                probe=probing,
                capabilities=self._capabilities(),
            )
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
        self.events.restore()
        if not self._alone:
            self.offers.preload()
        waiters, self._waiters = self._waiters, {}
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
            asking = self._only_listener()
            if asking is not None and asking.sink is not None:
                asking.sink(method, params)
        else:
            self.offers.note_change(method)
            self.events.tell(method, params)

    def _only_listener(self) -> Asking | None:
        """Whose a log message is that names no call: known where there is one call, and no other caller."""
        dialogue = self._dialogue
        if dialogue is None or len(self._listening) != 1:
            return None
        known = self._alone or (dialogue.terms.stateless and self._at_work == 1)
        return self._listening[0] if known else None

    def _tools_changed(self) -> None:
        self.events.tell("notifications/tools/list_changed", {})

    def _capabilities(self) -> Mapping[str, Any]:
        """What a server of the handshake era may ask for."""
        if self._alone or self.isolated:
            # The process that is only listed says the same as those that are called: tools may depend on it.
            return ANSWERABLE
        return NOTHING if self.settings.roots is None else {"roots": {}}

    def _asked(self, method: str, params: Mapping[str, Any], call_id: int | str, within: int | None) -> bool:
        """A request of the server: answered by the configuration, or by the caller whose call it is."""
        peer = self._peer
        if method == "roots/list" and self.settings.roots is not None and peer is not None:
            peer.respond(call_id, {"result": configured_roots(self.settings.roots)})
            return True
        interview = owner_of(self._interviews, within) if self._alone else None
        return interview is not None and interview.asks(method, params, call_id)

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
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.errback(self._down())

    def _release(self, failure: LinkLost) -> None:
        """Let go of the link and of everyone who waits for it."""
        peer, self._peer, self._dialogue = self._peer, None, None
        self.catalogue.rest()
        self.offers.forget()
        self.events.lost()
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
