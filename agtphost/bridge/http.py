"""
Serve the bridge as Streamable HTTP, on loopback only.

Every client that can connect acts as the bridge's agent. So it listens on this address only, without CORS.
``Host`` and ``Origin`` have to be this address (which stops web pages in a browser), session ids are random, and a
token keeps the other users of the machine out. Processes of the bridge's own user can read the agent's key anyway,
so they may leave the token out where the operator has set none. A session belongs to the token that opened it.

Connections, heads and bodies are bounded as those of the host's own HTTP listeners (:mod:`agtphost.http`). Sessions and
the messages kept for broken connections are bounded as those of the front (:mod:`agtphost.mcp.sessions`).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from agtphost.bridge.peer_user import belongs_to_this_user
from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.http.http_service import HTTP_LIMITS, HttpService
from agtphost.http.mounts import Mount
from agtphost.mcp.context import ClientConversation
from agtphost.mcp.server import Server
from agtphost.mcp.sessions import McpSessions
from agtphost.mcp.streamable_http import LONGEST_BODY, StatelessEndpoint, is_of_a_session
from agtphost.protocols.limits import ConnectionLimits
from agtphost.vocabulary.mount_paths import MountPath

ADDRESS = "127.0.0.1"
PATH = "/mcp"

WITHOUT_TOKEN = ""
"""The owner of sessions that were opened without a token."""


@dataclass(frozen=True, kw_only=True)
class BridgeHttpLimits:
    """The limits for clients."""

    idle: float = 1800.0
    """Seconds that a session may be unused."""

    sessions: int = 1000
    """Sessions at a time; one more is answered 503."""

    connections: int = 512
    """Connections at a time; one more replaces the one that has waited longest without a complete request, if any."""

    body: int = LONGEST_BODY
    """Octets of a body; more are answered 413."""

    head_seconds: float = 10.0
    """Seconds for the header of a request; then the connection is closed."""

    body_gap: float = 20.0
    """Seconds that a body may pause; then it is answered 408."""

    write_seconds: float = 30.0
    """Seconds in which a client must read some of a waiting answer; then the connection is cut."""

    def connection_limits(self) -> ConnectionLimits:
        """Return the limits for each connection."""
        return HTTP_LIMITS.model_copy(
            update={
                "connections": self.connections,
                "header_timeout": self.head_seconds,
                "body_gap_timeout": self.body_gap,
                "write_timeout": self.write_seconds,
            }
        )


class BridgeResource(Resource):
    """
    The HTTP resource of the bridge's endpoint.

    :param tokens: one of them is demanded as ``Authorization: Bearer``, and each is a separate client; empty: none is.
    :param trust_own_user: whether processes of the user that runs the bridge need no token.
    """

    isLeaf = True

    def __init__(
        self,
        server: Server,
        clock: IReactorTime,
        tokens: Sequence[str] = (),
        limits: BridgeHttpLimits | None = None,
        *,
        trust_own_user: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        limits = limits or BridgeHttpLimits()
        self.longest_body = limits.body
        self._server = server
        self._trust_own_user = trust_own_user
        self._own: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        self._expected = [(f"Bearer {token}".encode(), str(number)) for number, token in enumerate(tokens)]
        self._sessions = McpSessions(clock, most=limits.sessions, most_of_one=limits.sessions, idle=limits.idle)
        self._alone = StatelessEndpoint(server, ClientConversation(), clock)

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Refuse a request without a token before its body; see :class:`agtphost.http.bounded_request.Gatekeeper`."""
        request.admission = self._owner(request)
        if request.admission is None:
            text = b"send Authorization: Bearer with the token that the bridge printed, or one of its --token-file\n"
            return tail_of(request, 401, text, ("WWW-Authenticate", "Bearer"))
        return None

    def _owner(self, request: BoundedRequest) -> str | None:
        if not self._expected:
            return WITHOUT_TOKEN
        given = request.requestHeaders.getRawHeaders(b"authorization") or []
        if not given and self._trust_own_user and self._is_own(request):
            return WITHOUT_TOKEN
        # Every token is compared, so that the time does not reveal which one matches.
        known = [owner for expected, owner in self._expected if hmac.compare_digest(b"".join(given[:1]), expected)]
        return known[0] if len(given) == 1 and known else None

    def _is_own(self, request: BoundedRequest) -> bool:
        """Return whether the connection is of the bridge's own user; looked up once per connection."""
        found = self._own.get(request.channel)
        if found is None:
            found = self._own[request.channel] = belongs_to_this_user(request.transport)
        return found

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer one HTTP request."""
        if request.admission is None:
            refusal = self.admit(request)
            if refusal is not None:
                return refusal
        if is_of_a_session(request):
            return self._sessions.take(request, request.admission, None, lambda: self._server)
        return self._alone.take(request)

    def end(self) -> None:
        """Cancel all requests and end all sessions."""
        self._alone.end()
        self._sessions.end_all()


class BridgeListener(HttpService):
    """
    The service that listens on the bridge's port.

    :param port: the port; 0: the system chooses.
    :param tokens: see :class:`BridgeResource`, as for ``trust_own_user``.
    """

    def __init__(
        self,
        reactor: Any,
        server: Server,
        port: int,
        tokens: Sequence[str] = (),
        limits: BridgeHttpLimits | None = None,
        *,
        trust_own_user: bool = False,
    ) -> None:
        limits = limits or BridgeHttpLimits()
        self._resource = BridgeResource(server, reactor, tokens, limits, trust_own_user=trust_own_user)
        mount = Mount(surface="mcp", path=MountPath(PATH, below=False), resource=self._resource, own_origin=True)
        listen = f"tcp:{port}:interface={ADDRESS}"
        super().__init__(reactor, listen, None, (mount,), ("the bridge",), limits.connection_limits())
        self._refused: BaseException | None = None

    @property
    def url(self) -> str:
        """The URL of the endpoint, once it listens."""
        return f"http://{ADDRESS}:{self.port}{PATH}"

    def take_port(self) -> None:
        """
        Begin to listen, before the service starts.

        :raises OSError: the port is taken, or needs privileges.
        """
        self.privilegedStartService()
        if isinstance(self._refused, CannotListenError):
            raise self._refused.socketError

    def _note_failure(self, failure: Failure) -> None:
        self._refused = failure.value

    def stopService(self) -> Any:
        """
        End the resource's requests and stop listening; see :class:`agtphost.protocols.listener.ListeningService`.
        """
        self._resource.end()
        return super().stopService()
