"""A small TLS server that answers as a test tells it to: standard library sockets and the wire core."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.identity import jws
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire import Connection, Headers, Request, Response, Role
from tests.client.credentials import Credentials, Pair

PATIENCE = 60.0


class Exchange:
    """One request, and the connection to answer it on."""

    def __init__(self, request: Request, channel: ssl.SSLSocket, wire: Connection, number: int) -> None:
        self.request = request
        self.channel = channel
        self.wire = wire
        self.number = number
        """Of the connection, counted from 1."""

    def send(self, response: Response, *, final: bool = True) -> None:
        """Send a whole response."""
        self.channel.sendall(self.wire.send(response, final=final))

    def raw(self, octets: bytes) -> None:
        """Send octets as they are."""
        self.channel.sendall(octets)

    def quiet(self, seconds: float) -> bool:
        """Whether nothing arrives for that long: neither octets nor the end of the client's side."""
        self.channel.settimeout(seconds)
        try:
            self.channel.recv(1)
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            self.channel.settimeout(PATIENCE)
        return False

    def hang_up(self) -> None:
        """End the connection."""
        self.channel.close()


Script = Callable[[Exchange], None]


class ScriptedHost:
    """
    Listens on loopback while its ``with`` block runs.

    :param script: answers each request.
    """

    def __init__(
        self, credentials: Credentials, script: Script, *, pair: Pair | None = None, client_auth: bool = False
    ) -> None:
        self.script = script
        self.refusing = 0
        """How many connections are ended before a handshake, as by a load balancer without a server behind it."""

        self.requests: list[Request] = []
        self.connections = 0
        """TCP connections accepted."""

        self.octets = 0
        """Application octets received."""

        self.certificates: list[bytes | None] = []
        """Of the client, by connection."""

        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = pair or credentials.server
        self.context.load_cert_chain(pair.cert, pair.key)
        self.context.load_verify_locations(credentials.trust)
        self.context.verify_mode = ssl.CERT_REQUIRED if client_auth else ssl.CERT_OPTIONAL
        self.context.verify_flags |= 0x10  # the agents' critical extensions
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._channels: set[socket.socket] = set()

    @property
    def uri(self) -> str:
        """Where it is, by name."""
        return f"agtp://localhost:{self.port}"

    def __enter__(self) -> ScriptedHost:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for channel in list(self._channels):
            with contextlib.suppress(OSError):
                # Not the method of SSLSocket, which would leave its thread reading cleartext.
                socket.socket.shutdown(channel, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads)

    async def settle(self) -> None:
        """Wait until every connection so far has ended."""
        end = time.monotonic() + PATIENCE / 2
        while self._channels:
            assert time.monotonic() < end, "a connection stayed open"
            await pause(0.005)

    def _spawn(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.connections <= self.refusing:
                raw.close()
                continue
            self._channels.add(raw)
            self._spawn(self._serve, raw, self.connections)

    def _serve(self, raw: socket.socket, number: int) -> None:
        channel: socket.socket = raw
        try:
            raw.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                channel = self.context.wrap_socket(raw, server_side=True)
                self._channels.add(channel)
                self.certificates.append(channel.getpeercert(binary_form=True))
                self._converse(channel, number)
        finally:
            raw.close()
            channel.close()
            self._channels -= {raw, channel}

    def _converse(self, channel: ssl.SSLSocket, number: int) -> None:
        wire = Connection(Role.SERVER)
        while True:
            octets = channel.recv(65536)
            if not octets:
                return
            self.octets += len(octets)
            wire.receive(octets)
            while isinstance(event := wire.next_event(), Request):
                self.requests.append(event)
                self.script(Exchange(event, channel, wire, number))
                if channel.fileno() < 0:
                    return


async def pause(seconds: float) -> None:
    """Let the reactor run."""
    from twisted.internet import reactor

    done: Deferred[None] = Deferred()
    reactor.callLater(seconds, done.callback, None)  # type: ignore[attr-defined]
    await done


def answer(result: Any = None, status: int = 200, **headers: str) -> Response:
    """An unsigned response; header names are written with underscores."""
    body = jsontext.encode({"status": status, "result": result})
    fields = [("Server-ID", "test-host"), ("Content-Type", media_types.AGTP_JSON)]
    fields.extend((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(status=status, headers=Headers(fields), body=body)


def refuse(status: int, reason: str, **members: Any) -> Response:
    """A refusal's response."""
    body = jsontext.encode({"status": status, "reason": reason, **members})
    fields = [("Server-ID", "test-host"), ("Content-Type", media_types.AGTP_JSON)]
    return Response(status=status, headers=Headers(fields), body=body)


def sealed(request: Request, key: SigningKey | None, result: Any = None, **payload: Any) -> Response:
    """A response with a record, as a host seals it; ``payload`` overrides members of the record."""
    body = jsontext.encode({"status": 200, "result": result})
    record = {
        "audit_record_version": "1",
        "server_id": "test-host",
        "agent_id": "",
        "response_id": "01970000-0000-7000-8000-000000000001",
        "status": 200,
        "method": request.method,
        "path": request.path,
        "request_hash": hashlib.sha256(request.line + request.body).hexdigest(),
        "result_hash": hashlib.sha256(body).hexdigest(),
        **payload,
    }
    text = jws.compact(jws.protected_header(key), jsontext.encode(dict(sorted(record.items()))), key)
    fields = [
        ("Server-ID", "test-host"),
        ("Response-ID", "01970000-0000-7000-8000-000000000001"),
        ("Audit-ID", hashlib.sha256(text.encode()).hexdigest()),
        ("Attribution-Record", text),
        ("Content-Type", media_types.AGTP_JSON),
    ]
    return Response(status=200, headers=Headers(fields), body=body)


def echo(exchange: Exchange) -> None:
    """The script of a host that answers everything with what it was asked."""
    request = exchange.request
    body = jsontext.decode(request.body) if request.body else {}
    heard = {"method": request.method, "path": request.path, "query": request.query, "body": body}
    exchange.send(answer(heard))
