"""
The multi-tenant MCP front: ``/mcp`` for all that a caller may use, ``/mcp/SERVER`` for one server by its own names.

The caller is determined by the head of each HTTP request, by its proof (:mod:`agtphost.http.clients`), and by nothing
in a message. Every caller has a separate MCP server: names, sessions and streams are not shared.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.client.mcp.endpoints import Catalogue
from agtphost.client.requests import new_session_id
from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.http.clients import ClaimedSender, ClientRefused, HttpClient, HttpClients
from agtphost.http.cross_origin import CrossOriginRules
from agtphost.http.refusals import refuse, refuse_unproven
from agtphost.iagtp import IDispatcher
from agtphost.mcp import protected_resource
from agtphost.mcp.context import ClientConversation
from agtphost.mcp.in_process import SENDER, InProcessLink, Manifest, may_use_any
from agtphost.mcp.messages import render_early_refusal
from agtphost.mcp.server import Server
from agtphost.mcp.sessions import McpSessions
from agtphost.mcp.streamable_http import LONGEST_BODY, StatelessEndpoint, is_of_a_session
from agtphost.protocols.coroutines import drive
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor

log = Logger()

SESSIONS = 1000
"""Sessions of all callers at a time."""

SESSIONS_OF_ONE = 100
IDLE = 1800.0
"""Seconds that a session may be unused."""

CALLERS = 1024
"""Callers whose names are remembered; the least recently seen one that has nothing open is forgotten first."""

CROSS_ORIGIN = CrossOriginRules(
    fields=(
        *("Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "MCP-Protocol-Version"),
        *("Mcp-Method", "Mcp-Name", "traceparent", "tracestate"),
    ),
    prefixes=("mcp-param-",),
    exposed=(
        *("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After", "AGTP-Status", "Audit-ID"),
        *("Server-ID", "ETag", "Allow"),
    ),
    methods="GET, POST, DELETE",
    other_methods=False,
)
"""What pages of listed origins may send to the front, and read."""

_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)

Prepare = Callable[[Server], None]
"""Takes each new server before it is used."""


@dataclass(frozen=True, kw_only=True)
class McpFrontFacts:
    """The settings of the front, which can be replaced while it serves."""

    path: str
    """The path of the front, such as ``/mcp``."""

    url: str
    """The URL at which clients reach it, without the path; empty: the address of their request."""

    clients: HttpClients
    """Authenticates clients."""

    issuers: tuple[str, ...] = ()
    """Identity providers whose tokens are accepted."""

    manifest: Manifest
    """Returns the manifest of the host's own endpoints."""

    offload: Executor
    """Runs slow functions off the reactor."""

    approval_wait: float = 0.0
    """Seconds for which a call that needs approval waits for it."""

    search: bool = False
    """Whether two search tools are shown instead of all tools."""

    hint: Callable[[HttpClient], str] = lambda client: ""
    """Returns why a client may not see some tool, without a word on which; empty where it may see all."""

    holders: Mapping[str, object] = field(default_factory=dict)
    """The properties of each named client, by its key; a client whose properties change has to begin again."""

    prepare: Prepare = lambda server: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdmittedRequest:
    """The result of the checks of a request's head."""

    client: HttpClient | None
    """None for who asks for the metadata."""

    server: str | None
    """The server that is named; None: all."""


class FrontCaller:
    """A caller at one path of the front."""

    def __init__(self, agent_id: str, server: Server, conversation: ClientConversation, clock: IReactorTime) -> None:
        self.agent_id = agent_id
        self.server = server
        self.has_access = False  # whether the caller was found to have access to something of its one server
        self.stateless = StatelessEndpoint(server, conversation, clock)

    def end(self) -> None:
        """End everything of the caller."""
        self.stateless.end()
        self.server.end()


class McpFrontResource(Resource):
    """
    The resource that answers MCP clients.

    :param dispatcher: handles every request.
    """

    isLeaf = True

    longest_body = LONGEST_BODY

    def __init__(self, facts: McpFrontFacts, dispatcher: IDispatcher, clock: IReactorTime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dispatcher = dispatcher
        self._clock = clock
        self._facts = facts
        self._callers: OrderedDict[tuple[str, str | None], FrontCaller] = OrderedDict()
        self._catalogue = Catalogue()
        self.sessions = McpSessions(clock, most=SESSIONS, most_of_one=SESSIONS_OF_ONE, idle=IDLE)

    def __len__(self) -> int:
        """Return the number of callers that are remembered."""
        return len(self._callers)

    def turn_to(self, facts: McpFrontFacts) -> None:
        """Use other settings from the next request on; cut off clients whose key changed its holder."""
        former, self._facts = self._facts, facts
        for key in {key for key, _ in self._callers}:
            if former.holders.get(key) != facts.holders.get(key):
                self._end(key)
        for caller in self._callers.values():
            caller.has_access = False  # servers may have been added or removed

    def end_agent(self, agent_id: str) -> None:
        """End everything that an agent has open here, because the agent was stopped."""
        for key in {key for (key, _), caller in self._callers.items() if caller.agent_id == agent_id}:
            self._end(key)

    def resume_agent(self, agent_id: str) -> None:
        """Let the clients of an agent that may call again hear of changes from now on, which began in the meantime."""
        for caller in self._callers.values():
            if caller.agent_id == agent_id:
                caller.server.changes.hurry()

    def end_streams(self) -> None:
        """End what waits for changes, as the host stops: it has no end otherwise. Requests in progress are answered."""
        self.sessions.end_listening()
        for caller in self._callers.values():
            caller.server.end_streams()

    def _end(self, key: str) -> None:
        for session in self.sessions.list_of_owner(key):
            self.sessions.end(session)
        for place in [place for place in self._callers if place[0] == key]:
            self._callers.pop(place).end()

    # HTTP

    def admit(self, request: BoundedRequest) -> bytes | None:
        """
        Check the head of a request, so that a caller without rights sends no body; see

        :class:`agtphost.http.bounded_request.Gatekeeper`.
        """
        path = request.path.decode("ascii", "replace")
        facts = self._facts
        document = protected_resource.find_resource(path)
        place = path if document is None else document or facts.path
        server = place[len(facts.path) + 1 :] if place.startswith(f"{facts.path}/") else None
        server = None if server == "" else server
        known = place.rstrip("/") == facts.path or (server is not None and _SERVER.fullmatch(server) is not None)
        if not known:
            remedy = f"Try {facts.path}, or {facts.path}/SERVER."
            return refuse(request, 404, Reason.NOT_FOUND, "The MCP front has nothing at this path.", remedy=remedy)
        if document is not None:
            if request.method not in (b"GET", b"HEAD"):
                return refuse(
                    request,
                    405,
                    Reason.METHOD_NOT_ALLOWED,
                    "This document is only read, with GET or HEAD.",
                    ("Allow", "GET, HEAD"),
                )
            request.admission = _AdmittedRequest(client=None, server=server)
            return None
        try:
            client = facts.clients.identify(request)
        except ClientRefused as error:
            challenge = protected_resource.challenge(
                self._address_of_front(request), path, bool(field_of(request, "authorization"))
            )
            return refuse_unproven(request, error, ("WWW-Authenticate", challenge))
        if client.proven:
            request.channel.note_proven()
        request.admission = _AdmittedRequest(client=client, server=server)
        return None

    def cross_origin(self) -> CrossOriginRules:
        """Return what pages of listed origins may send, and read."""
        return CROSS_ORIGIN

    refusal_form = staticmethod(render_early_refusal)

    def find_claimed_sender(self, request: BoundedRequest) -> ClaimedSender | None:
        """Return the client that a request names although it is refused."""
        return self._facts.clients.find_claimed_sender(request)

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer one HTTP request."""
        if request.admission is None:
            refusal = self.admit(request)
            if refusal is not None:
                return refusal
        admitted: _AdmittedRequest = request.admission
        if admitted.client is None:
            path = self._facts.path if admitted.server is None else f"{self._facts.path}/{admitted.server}"
            octets = protected_resource.document(self._address_of_front(request) + path, self._facts.issuers)
            return tail_of(request, 200, octets, kind="application/json", cache="no-cache")
        token = SENDER.set(admitted.client)
        try:
            return self._take(request, admitted.client, admitted.server)
        finally:
            SENDER.reset(token)

    def _take(self, request: BoundedRequest, client: HttpClient, server: str | None) -> bytes | int:
        known = self._callers.get((client.key, server))
        if server is not None and (known is None or not known.has_access):
            drive(self._check_access(request, client, server))
            return NOT_DONE_YET
        return self._dispatch(request, client, server)

    async def _check_access(self, request: BoundedRequest, client: HttpClient, server: str) -> None:
        """
        Answer a caller that has not been shown anything of a server yet.

        Only callers that may use something of a server learn that it exists. A caller that was shown that keeps its
        access, without another check.
        """
        try:
            shown = await may_use_any(self._link(server), new_session_id())
            client.note_answer(0, None)  # the lists are not an answer
            if request.is_disconnected:
                return
            if shown is False:
                more = f"Try {self._facts.path}, which has all that you may use; ask the operator for more."
                remedy = f"{more} {self._facts.hint(client)}".rstrip()
                said = f"You may not use an MCP server {server} here."
                answered: bytes | int = refuse(request, 404, Reason.UNKNOWN_MCP_SERVER, said, remedy=remedy)
            else:
                self._caller(client, server).has_access = bool(shown)
                answered = self._dispatch(request, client, server)
            if type(answered) is bytes and not request.record_refusal(request.complete):
                request.complete(answered)
        except Exception:
            log.failure("a request of an MCP client could not be answered; its connection is cut")
            request.channel.cut()

    def _dispatch(self, request: BoundedRequest, client: HttpClient, server: str | None) -> bytes | int:
        if is_of_a_session(request):
            return self.sessions.take(request, client.key, server, lambda: self._caller(client, server).server)
        return self._caller(client, server).stateless.take(request)

    def _caller(self, client: HttpClient, server: str | None) -> FrontCaller:
        place = (client.key, server)
        caller = self._callers.get(place)
        if caller is not None:
            self._callers.move_to_end(place)
            return caller
        if len(self._callers) >= CALLERS:
            self._forget()
        link = self._link(server)
        made = Server(
            link,
            self._clock,
            server=server,
            catalogue=self._catalogue,
            search=self._facts.search,
            hint=lambda: self._facts.hint(client),
        )
        self._facts.prepare(made)
        # A caller of single requests keeps what servers hold for a session from one request to the next.
        named = sha256(f"mcp\n{client.key}\n{server or ''}".encode()).hexdigest()[:32]
        caller = FrontCaller(client.agent_id, made, ClientConversation(session_id=f"mcp-{named}"), self._clock)
        self._callers[place] = caller
        return caller

    def _link(self, server: str | None) -> InProcessLink:
        path = "/" if server is None else f"/mcp/{server}"
        return InProcessLink(
            self._dispatcher,
            path,
            lambda: self._facts.manifest(),
            lambda: self._facts.approval_wait,
            lambda function, *given: self._facts.offload(function, *given),
        )

    def _forget(self) -> None:
        for place, caller in self._callers.items():
            if not caller.stateless.streams and not self.sessions.list_of_owner(place[0]):
                caller.end()
                del self._callers[place]
                return

    def _address_of_front(self, request: BoundedRequest) -> str:
        """Return the address of this front, without a path, as the client sees it."""
        if self._facts.url:
            return self._facts.url
        scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
        return f"{scheme}://{field_of(request, 'host') or 'localhost'}"


__all__: Sequence[str] = ["FrontCaller", "McpFrontFacts", "McpFrontResource"]
