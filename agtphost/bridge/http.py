"""
The bridge as Streamable HTTP, on loopback alone.

Whoever can connect acts as the bridge's agent, so: no other address, no
CORS, ``Host`` and ``Origin`` have to be this very address (which is what
stops a web page that a browser shows), session ids are random, and a token
can be demanded, which keeps the other users of the machine out.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

ADDRESS = "127.0.0.1"
PATH = "/mcp"

IDLE_SECONDS = 1800.0
"""How long a session may be unused."""

MOST_SESSIONS = 1000
MOST_BODY = 4 << 20
_STOP_SECONDS = 2


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


def application(server: Server[Any], port: int, token: str | None = None) -> ASGIApp:
    """
    The ASGI application.

    :param port: what ``Host`` and ``Origin`` must name.
    :param token: demanded as ``Authorization: Bearer``; None: no token.
    """
    hosts = [f"{name}:{port}" for name in (ADDRESS, "localhost")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        ),
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_SESSIONS,
        max_request_body_size=MOST_BODY,
        host=ADDRESS,
    )
    return app if token is None else TokenGate(app, token)


class TokenGate:
    """
    Lets requests through that have the token.

    :param app: what is behind it.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """401 for every request without it."""
        if scope["type"] == "http":
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._expected):
                answer = PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Listener(uvicorn.Server):
    """Uvicorn, which leaves signals to :func:`serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    server: Server[Any], listener: socket.socket, ready: Callable[[str], object], *, token: str | None = None
) -> None:
    """
    Serve until SIGTERM or SIGINT.

    :param listener: of :func:`listening`; closed at the end.
    :param ready: is given the endpoint's URL.
    """
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        application(server, port, token),
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ws="none",
    )
    http = _Listener(config)

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
