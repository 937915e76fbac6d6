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

import h11
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
from uvicorn.protocols.http.h11_impl import H11Protocol

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
    """At a time; requests on more are answered 503."""

    body: int = 4 << 20
    """Octets; more are answered 413."""

    head_seconds: float = 10.0
    """For the header of a request; then the connection is closed."""

    body_seconds: float = 20.0
    """For its body; then it is answered 408."""


def listening(port: int) -> socket.socket:
    """
    A socket on loopback.

    :param port: 0 lets the system choose.
    :raises OSError: if the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """
    Uvicorn's protocol, with an end to waiting for a request's header.

    :param seconds: from the connection, or the first octet of a further request.
    """

    class TimedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start()

        def data_received(self, data: bytes) -> None:
            begins = self.conn.their_state is h11.IDLE
            super().data_received(data)
            if self.conn.their_state is h11.IDLE and begins:
                self._start()
            else:
                self._end()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _start(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return TimedProtocol


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
            limit_concurrency=limits.connections,
            http=timed_protocol(limits.head_seconds),
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
