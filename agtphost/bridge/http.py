"""
The bridge as Streamable HTTP, on loopback alone.

Whoever can connect acts as the bridge's agent, so: no other address, no
CORS, ``Host`` and ``Origin`` have to be this very address (which is what
stops a web page that a browser shows), session ids are random, and a token
can be demanded, which keeps the other users of the machine out. A session
belongs to the token that opened it.

Connections, sessions, headers, bodies, and what is kept for clients whose
connection breaks (:mod:`.events`), are bounded in number, size and time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agtphost.bridge.connections import Places, bounded_protocol
from agtphost.bridge.events import Journal

ADDRESS = "127.0.0.1"
PATH = "/mcp"

RETRY_MILLISECONDS = 500
"""What clients whose stream broke are told to wait before they resume it."""

_STOP_SECONDS = 2
_PATIENCE = 4
"""Times the largest body: what is read of one that is too large."""


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """What clients may take."""

    idle: float = 1800.0
    """Seconds that a session may be unused."""

    sessions: int = 1000
    """At a time; one more is answered 503."""

    connections: int = 512
    """At a time; one more takes the place of the one that has waited longest without a whole request, if any has."""

    body: int = 4 << 20
    """Octets; more are answered 413."""

    head_seconds: float = 10.0
    """For the header of a request; then the connection is closed."""

    body_seconds: float = 20.0
    """For its body; then it is answered 408."""

    write_seconds: float = 30.0
    """For taking anything of an answer that waits; then the connection is cut."""


def listening(port: int) -> socket.socket:
    """
    A socket on loopback.

    :param port: 0 lets the system choose.
    :raises OSError: if the port is taken.
    """
    # The event loop switches Nagle's algorithm off where a socket says that it is TCP's: 40 ms a call.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


class Sessions(StreamableHTTPSessionManager):
    """The SDK's sessions, each with events of its own: ids of requests, which name streams, are not unique."""

    _journal: Journal

    @property
    def event_store(self) -> EventStore:
        """Read once for each new session."""
        return self._journal.session()

    @event_store.setter
    def event_store(self, _: EventStore | None) -> None:
        self._journal = Journal()


def application(
    server: Server[Any], port: int, tokens: Sequence[str] = (), limits: HttpLimits | None = None
) -> ASGIApp:
    """
    The ASGI application.

    :param port: what ``Host`` and ``Origin`` must name.
    :param tokens: one of which is demanded as ``Authorization: Bearer``; empty: none is.
    """
    limits = limits or HttpLimits()
    hosts = [f"{name}:{port}" for name in (ADDRESS, "localhost")]
    sessions = Sessions(
        app=server,
        retry_interval=RETRY_MILLISECONDS,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        ),
        session_idle_timeout=limits.idle,
        max_sessions=limits.sessions,
        max_request_body_size=limits.body,
    )
    routes = [Route(PATH, endpoint=StreamableHTTPASGIApp(sessions))]
    app: ASGIApp = BodyGate(Starlette(routes=routes, lifespan=lambda _: sessions.run()), limits)
    app = NameGate(app, hosts)
    return TokenGate(app, tokens) if tokens else app


class TokenGate:
    """
    Lets requests through that have a token, and says whose they are.

    :param app: what is behind it.
    :param tokens: each is a client of its own.
    """

    def __init__(self, app: ASGIApp, tokens: Sequence[str]) -> None:
        self._app = app
        self._expected = [
            (f"Bearer {token}".encode(), AuthenticatedUser(AccessToken(token="", client_id=str(number), scopes=[])))
            for number, token in enumerate(tokens)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """401 for every request without one."""
        if scope["type"] == "http":
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            # Every token is compared, so that time says nothing about which it is.
            known = [user for expected, user in self._expected if hmac.compare_digest(b"".join(given[:1]), expected)]
            if len(given) != 1 or not known:
                answer = PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
                await answer(scope, receive, send)
                return
            scope["user"] = known[0]
        await self._app(scope, receive, send)


class _Left(Exception):
    """The client went away in the middle of its body."""


class NameGate:
    """
    Refuses by ``Host`` and ``Origin`` before a body is taken; the SDK looks at them once it has one.

    :param app: what is behind it.
    :param hosts: what ``Host`` may be.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = {host.encode() for host in hosts}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """421 for another host, 403 for another site's page."""
        if scope["type"] == "http":
            fields = {name: value for name, value in scope["headers"] if name in (b"host", b"origin")}
            if fields.get(b"host") not in self._hosts:
                await PlainTextResponse("that host is not here\n", 421, {"Connection": "close"})(scope, receive, send)
                return
            if fields.get(b"origin") not in (None, *self._origins):
                text = "pages of other sites are not served\n"
                await PlainTextResponse(text, 403, {"Connection": "close"})(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyGate:
    """
    Takes a body whole before anything else happens.

    :param app: what is behind it.
    """

    def __init__(self, app: ASGIApp, limits: HttpLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """413 for a body that is too large, 408 for one that takes too long."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await self._body(receive)
        except TimeoutError:
            await PlainTextResponse("the body took too long\n", 408, {"Connection": "close"})(scope, receive, send)
            return
        except _Left:
            # Nobody waits for an answer, and half a body is none.
            return
        if body is None:
            await PlainTextResponse("the body is too large\n", 413, {"Connection": "close"})(scope, receive, send)
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """
        The body; None for one that is too large.

        A little more than may be sent is read, and not kept: a client that is still sending sees no answer.
        """
        parts: list[bytes] = []
        size, too_large = 0, False
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _Left
            part = message.get("body", b"")
            size += len(part)
            if size > self._limits.body:
                too_large = True
                parts.clear()
            elif not too_large:
                parts.append(part)
            if not message.get("more_body", False):
                return None if too_large else b"".join(parts)
            if size > _PATIENCE * self._limits.body:
                return None


class _Listener(uvicorn.Server):
    """Uvicorn, which leaves signals to :func:`serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listener_for(
    server: Server[Any], port: int, tokens: Sequence[str] = (), limits: HttpLimits | None = None
) -> uvicorn.Server:
    """What serves a socket of that port; ``should_exit`` ends it."""
    limits = limits or HttpLimits()
    return _Listener(
        uvicorn.Config(
            application(server, port, tokens, limits),
            log_level="warning",
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
            http=bounded_protocol(Places(limits.connections), limits.head_seconds, limits.write_seconds),
            ws="none",
        )
    )


async def serve(
    server: Server[Any],
    listener: socket.socket,
    ready: Callable[[str], object],
    *,
    tokens: Sequence[str] = (),
) -> None:
    """
    Serve until SIGTERM or SIGINT.

    :param listener: of :func:`listening`; closed at the end.
    :param ready: is given the endpoint's URL.
    """
    port = listener.getsockname()[1]
    http = listener_for(server, port, tokens)

    def stop() -> None:
        http.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        ready(f"http://{ADDRESS}:{port}{PATH}")
        await http.serve(sockets=[listener])
    finally:
        listener.close()
