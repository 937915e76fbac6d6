"""
The service of one hosted MCP server: it is kept running, negotiated with, listed and called.

An upstream that misbehaves affects only its own callers: every wait has a deadline, every queue a bound, and a call is
sent at most once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import LogLevel

from agtphost import __version__
from agtphost.adapters.mcp.bindings import tool_binding
from agtphost.adapters.mcp.call_tracker import CallTracker
from agtphost.adapters.mcp.catalogue import ToolCatalogue
from agtphost.adapters.mcp.elicitation import CallContext, PendingCall
from agtphost.adapters.mcp.instances import CallerInstances, InstanceChoice, Key, own_settings
from agtphost.adapters.mcp.interactive_calls import InteractiveCalls
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import McpLink, OpenLink, Receiver
from agtphost.adapters.mcp.resources import ServerLists
from agtphost.adapters.mcp.roots import Roots, ServerRoots
from agtphost.adapters.mcp.session import ClientSession, Send
from agtphost.adapters.mcp.snapshot import ServerSnapshot, terms_members
from agtphost.adapters.mcp.stdio import StdioLink, child_environment
from agtphost.adapters.mcp.streamable_http import HttpLink
from agtphost.adapters.mcp.subscribers import AgentListeners, Subscribers
from agtphost.adapters.mcp.token_source import TokenSource
from agtphost.adapters.mcp.tools import McpTool
from agtphost.adapters.mcp.versions import ANSWERABLE, NOTHING, Negotiated, NegotiationFailed, negotiate
from agtphost.config.upstreams import MCPServerSection
from agtphost.contract.binding import Binding
from agtphost.identity.peer import Assurance
from agtphost.upstream.failures import ErrorAnswer, UpstreamFailure, UpstreamLost, UpstreamRefused
from agtphost.upstream.https import HTTPSClient, trust_of
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.pins import Pins
from agtphost.upstream.queue import Caller
from agtphost.upstream.service import UpstreamService

CLIENT = {"name": "agtphost", "version": __version__}
"""How this host presents itself to servers."""


class McpServer(UpstreamService):
    """
    The service of one ``[[mcp.server]]``.

    :param reactor: spawns, connects and schedules.
    :param settings: the operator's settings, which :mod:`agtphost.config` has checked.
    :param environ: the host's environment, of which a child gets six names.
    :param calls: the tracker of all servers' calls; None: a tracker for this server alone.
    :param open_link: opens links; None: by the settings.
    :param pins: which tool definitions are approved; None: those of the settings.
    :param jitter: returns a new number from 0 to 1 each time.
    :param alone: whether it is the instance of one caller: see :mod:`agtphost.adapters.mcp.instances`.
    :param handshake: whether the handshake era is used even if the server speaks another as well.
    :param floor: the least assurance of callers that change state, where the operator set none.
    :param noticed: called when it asks for roots outside of any call; None: it records that itself.
    """

    result_type = dict

    def __init__(
        self,
        reactor: Any,
        settings: MCPServerSection,
        environ: Mapping[str, str],
        *,
        calls: CallTracker | None = None,
        open_link: OpenLink | None = None,
        pins: Pins | None = None,
        jitter: Callable[[], float] = random.random,
        alone: bool = False,
        handshake: bool = False,
        floor: Assurance = Assurance.CERTIFICATE,
        noticed: Callable[[], None] | None = None,
    ) -> None:
        # With one call at a time, a question of a handshake-era server must belong to that call.
        at_once = 1 if alone and not settings.url else None
        log = UpstreamLog(reactor, settings.name, settings.secrets())
        super().__init__(reactor, settings, "mcp", log, at_once=at_once, jitter=jitter)
        self.settings: MCPServerSection = settings
        self.isolated = settings.isolation in ("per-agent", "per-session")
        """Whether each caller has a separate instance."""
        self.floor = floor
        """The least assurance of callers that change state, where the operator set none."""
        self.calls = CallTracker(reactor) if calls is None else calls
        """The tracker of calls in flight."""
        self.clock: IReactorTime = reactor
        """The reactor's clock."""

        self._alone = alone
        self._open_link = open_link or link_opener(reactor, settings, environ, self._log)
        approved = Pins("mcp", settings.name, settings.pins) if pins is None else pins
        self.catalogue = ToolCatalogue(reactor, settings, self._bind, approved, self._log, self._tools_changed)
        self.resources = ServerLists(reactor, self, self.catalogue, self._log)
        self.events = Subscribers(self)
        self.listeners = AgentListeners(lambda agent: [each.events for each in self.instances.of_agent(agent)])
        if not alone:
            approved.on_approval = self._recheck
        self.asks_roots = False
        """Whether any process of the server asks for roots outside of any call."""

        offered = alone or settings.isolation != "shared"
        noticed = noticed or self._note_roots
        self.roots = ServerRoots(reactor, settings.roots, alone=alone, offered=offered, noticed=noticed)
        self._attendance = InteractiveCalls(reactor, alone, self.roots)

        def instance(key: Key) -> McpServer:
            lone, older = own_settings(self, key)
            made = McpServer(
                reactor,
                lone,
                environ,
                calls=self.calls,
                open_link=open_link,
                pins=approved,
                jitter=jitter,
                alone=True,
                handshake=older,
                floor=floor,
                noticed=self._note_roots,
            )
            self.listeners.introduce(key[0], made.events)
            return made

        self.instances: CallerInstances[McpServer] = CallerInstances(
            reactor, instance, settings.max_instances, settings.idle_stop
        )
        self.sharing = InstanceChoice(self, self.instances)
        self._handshake = handshake
        self.refused_revision = False
        """Whether the last attempt failed because the server does not speak the required revision."""
        self._session: ClientSession | None = None
        self._peer: JsonRpcPeer | None = None
        self._closing: Deferred[None] = succeed(None)
        self._probe = not handshake

    # The service: see UpstreamService

    async def _establish(self) -> None:
        await self._wait_until_closed()
        # A link may end before its peer is known here; the peer then fails the negotiation.
        peer = self._peer = JsonRpcPeer(
            self._clock, self._open_link, self._take_notification, self._take_loss, self._take_request
        )
        probing, known = self._probe, self.settings
        try:
            able = self._capabilities()
            terms = await negotiate(peer, CLIENT, known.protocol, known.start_timeout, probe=probing, capabilities=able)
        except UpstreamFailure as failure:
            self.refused_revision = isinstance(failure, (NegotiationFailed, UpstreamRefused, ErrorAnswer))
            # Some servers die of a method they do not know, others of its absence: alternate.
            self._probe = not probing and not self._handshake
            raise
        session = ClientSession(peer, terms, CLIENT)
        await self.catalogue.load(session)
        self._session = session

    def _note_up(self, *, first: bool) -> None:
        session = self._session
        assert session is not None, "a server that is up was negotiated with"
        self._log.event(f"up, protocol {session.terms.version}, {len(self.catalogue.bindings)} tools", LogLevel.info)
        self.catalogue.attach(session, notified=not self.settings.url)
        self.events.restore(again=self._attempts > 1)
        if not self._alone:
            self.resources.preload()

    def _release(self) -> None:
        peer, self._peer, self._session = self._peer, None, None
        self.catalogue.detach()
        self.resources.mark_stale()
        self.events.forget_link()
        self.roots.forget_link()
        if peer is not None:
            self._closing = peer.link.close()

    def _wait_until_ended(self) -> Deferred[None]:
        return DeferredList([self._wait_until_closed(), self.instances.stop()]).addCallback(lambda _: None)

    # Calls

    async def wait_until_up(self, seconds: float | None = None) -> None:
        """
        Wait until the server is up; start it if it waits for its first call.

        :param seconds: how long to wait; None: as long as a start may take.
        :raises UpstreamFailure: it is down.
        """
        self.last_used = self._clock.seconds()
        self._at_work += 1
        try:
            if self._session is None:
                await self._wait_for_start(self.settings.start_timeout if seconds is None else seconds)
        finally:
            self._at_work -= 1

    @property
    def terms(self) -> Negotiated | None:
        """The negotiated terms; None while it is not up."""
        return self._session.terms if self._session is not None else None

    @property
    def is_off(self) -> bool:
        """Whether all of it is off: see :class:`agtphost.adapters.mcp.catalogue.ToolCatalogue`."""
        return self.catalogue.is_off

    @property
    def busy(self) -> bool:
        """Whether a call is in flight or suspended, or a caller listens."""
        return bool(self._at_work or self._attendance or self.events)

    def octets_of(self, result: object) -> bytes:
        """Return the JSON of a result that was just received; see :meth:`JsonRpcPeer.octets_of`."""
        return b"" if self._peer is None else self._peer.octets_of(result)

    def instance_of(self, agent_id: str, session_id: str | None) -> McpServer:
        """
        Return what serves a caller: this server, or the caller's own instance.

        :raises agtphost.upstream.failures.UpstreamBusy: the table of instances is full.
        """
        return self if self._alone else self.sharing.find_instance(agent_id, session_id)

    def choose_instance(
        self,
        agent_id: str,
        session_id: str | None,
        meta: Mapping[str, Any],
        seconds: float,
        roots: Roots | None = None,
    ) -> Coroutine[Any, Any, McpServer]:
        """Return what serves one request: see :class:`agtphost.adapters.mcp.instances.InstanceChoice`."""
        return self.sharing.choose_instance(agent_id, session_id, meta, seconds, roots)

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        seconds: float,
        asking: CallContext | None = None,
        caller: Caller = None,
    ) -> Awaitable[Mapping[str, Any]]:
        """
        Call a tool, once; see :meth:`request`.

        :param name: the server's own name of the tool.
        :return: the result of ``tools/call`` as received.
        """

        if asking is None:
            # Nearly every call: one function in place of three.
            def work(left: float) -> Deferred[Any]:
                if self._session is None:
                    raise self._down()
                return self._session.call_tool(self.catalogue.require_tool(name), arguments, meta, left)

            return self.call(seconds, work, None if self._alone else caller)

        def send(session: ClientSession, timeout: float | None) -> Deferred[Any]:
            return session.call_tool(self.catalogue.require_tool(name), arguments, meta, timeout, asking)

        return self.request(send, seconds, asking, caller)

    def request(
        self, send: Send, seconds: float, asking: CallContext | None = None, caller: Caller = None
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        """
        Send a request, once.

        :param send: sends the request.
        :param seconds: how long it may take, including the wait for a turn.
        :param asking: the caller's side of the request, where the caller can be asked or gets notifications.
        :param caller: whose share of the turns it takes; None: it is the host's own request.
        :return: the result as received, or an ``input_required`` result.
        :raises UpstreamFailure: for every other outcome.
        """

        def work(left: float) -> Awaitable[Mapping[str, Any]]:
            session = self._session
            if session is None:
                raise self._down()
            return send(session, left) if asking is None else self._attendance.perform(send, session, left, asking)

        share = None if self._alone else caller
        if asking is None:
            return self.call(seconds, work, share)
        return self.call(seconds, work, share, asking.set_awaited)

    async def resume(
        self,
        pending: PendingCall,
        responses: Mapping[str, Any],
        seconds: float,
        asking: CallContext,
        caller: Caller = None,
    ) -> Mapping[str, Any]:
        """
        Continue a suspended call.

        :param responses: the caller's answers.
        :raises UpstreamFailure: as :meth:`request` does.
        """

        def answer(session: ClientSession, timeout: float | None) -> Deferred[Any]:
            pending.answer(responses)
            return pending.outcome(seconds)

        asking.pending = pending
        return await self.request(answer, seconds, asking, caller)

    def release(self, pending: PendingCall) -> None:
        """Cancel a suspended call."""
        self._attendance.release(pending)

    def post(self, method: str, params: dict[str, Any], seconds: float) -> Deferred[Any]:
        """
        Send a request that no caller waits for.

        :raises UpstreamFailure: through the Deferred.
        """
        return fail(self._down()) if self._session is None else self._session.request(method, params, seconds)

    def listen(self, method: str, params: dict[str, Any]) -> Deferred[Any]:
        """Send a subscription request, which has no deadline; see :meth:`post`."""
        return fail(self._down()) if self._session is None else self._session.request(method, params, None)

    def snapshot(self) -> ServerSnapshot:
        """Return the state for operators, without secrets and without data of callers."""
        peer = self._peer
        moment = self.snapshot_members()
        moment["in_flight"] = peer.in_flight if peer is not None else 0
        return ServerSnapshot(
            **moment,
            transport="http" if self.settings.url else "stdio",
            pid=peer.link.pid if peer is not None else None,
            tools=len(self.catalogue.bindings),
            changed_tools=tuple(sorted(self.catalogue.changed_tools)),
            unmatched_rules=self.catalogue.rendered_rules,
            invalid_tools=self.catalogue.invalid_tools,
            instances=len(self.instances),
            # Of a process that has ended, its last words: they usually say why.
            link={**peer.link.facts(), **peer.facts()} if peer is not None else {"stderr": self._log.lines},
            **terms_members(self.terms),
        )

    def _take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self.catalogue.note_change()
        elif method == "notifications/message":
            self._log.say(f"{params.get('level', 'info')!s}: {params.get('data')!s}"[:1024])
            asking = self._attendance.only_listener(self._session, self._at_work)
            if asking is not None and asking.sink is not None:
                asking.sink(method, params)
        else:
            self.resources.note_change(method)
            self.events.announce(method, params)

    def _note_roots(self) -> None:
        self.asks_roots = True

    def _recheck(self) -> None:
        """Check the tools of all processes again, because approvals have changed."""
        for each in (self, *self.instances.all()):
            each.catalogue.recheck()

    def _bind(self, tool: McpTool) -> Binding:
        return tool_binding(self, tool)

    def _tools_changed(self) -> None:
        self.events.announce("notifications/tools/list_changed", {})

    def _capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that this host declares to a server of the handshake era."""
        # The shared process declares the same as callers' processes, since the list of tools may depend on it.
        if self._alone or self.settings.isolation != "shared":
            # A caller's roots can change while its process runs.
            changing = {"listChanged": True} if self.settings.roots is None else {}
            return {**ANSWERABLE, "roots": changing}
        return NOTHING if self.settings.roots is None else {"roots": {}}

    def _take_request(self, method: str, params: Mapping[str, Any], call_id: int | str, within: int | None) -> bool:
        return self._attendance.take_request(self._peer, method, params, call_id, within)

    def _take_loss(self, failure: UpstreamLost) -> None:
        """End the service's connection; while starting, the attempt's own failure has the same reason."""
        self.note_loss(str(failure))

    def _wait_until_closed(self) -> Deferred[None]:
        """Return a Deferred that fires when the last link is closed."""
        waiter: Deferred[None] = Deferred()

        def fire(result: None) -> None:
            if not waiter.called:
                waiter.callback(None)
            return result

        self._closing.addCallback(fire)
        return waiter


def link_opener(reactor: Any, settings: MCPServerSection, environ: Mapping[str, str], log: UpstreamLog) -> OpenLink:
    """
    Return the function that opens links to a server.

    :param environ: the host's environment, of which a child process gets six names.
    """
    url = settings.url
    if url is not None:
        headers = settings.opened_headers()
        bearer: TokenSource | None = None
        if settings.oauth is not None:
            client = HTTPSClient(reactor, trust_of(settings.ca), addresses=None, connections=1)
            bearer = TokenSource(reactor, client, settings.oauth, log)

        def http(receiver: Receiver) -> McpLink:
            client = HTTPSClient(reactor, trust_of(settings.ca), addresses=None, connections=settings.max_concurrency)
            return HttpLink(reactor, receiver, client, url, headers, log, bearer)

        return http

    environment = child_environment(environ, settings.opened_env())
    command = settings.command or ()

    def stdio(receiver: Receiver) -> McpLink:
        patience = settings.timeout if settings.input_timeout is None else settings.input_timeout
        return StdioLink(reactor, receiver, command, environment, str(settings.cwd), log, patience)

    return stdio
