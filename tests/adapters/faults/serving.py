"""Every fault over HTTP: one server, honest up to the point where the fault of a path plays."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

from tests.adapters.faults import http_scripts, scripts
from tests.adapters.faults.carriers import SocketCarrier
from tests.adapters.faults.program import serve
from tests.adapters.faults.registry import FAULTS, Fault

assert scripts

CERTIFICATES = ("good", "expired", "stranger", "misnamed")
TLS = ("tls-never-shakes-hands", "tls-shakes-hands-slowly", "tls-speaks-plainly", "tls-closes-at-once")
"""Faults before there is TLS; each has a port of its own."""


class Exchange:
    """Reads requests of one connection, and has each answered."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._held = b""
        self._heard = b""

    def run(self) -> None:
        try:
            while self._one():
                continue
        except (OSError, ValueError):
            pass
        finally:
            self._connection.close()

    def _one(self) -> bool:
        while b"\r\n\r\n" not in self._held:
            octets = self._connection.recv(65536)
            if not octets:
                return False
            self._held += octets
        head, _, rest = self._held.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        length = int(headers.get("content-length", "0"))
        while len(rest) < length:
            rest += self._connection.recv(65536)
        self._held = rest[length:]
        self._heard = head
        method, path, _ = line.split(" ")
        self._answer(method, path, rest[:length])
        return self._connection.fileno() >= 0

    def _answer(self, method: str, path: str, body: bytes) -> None:
        carrier, name, *more = path.partition("?")[0].strip("/").split("/")
        fault = FAULTS[name]
        message = json.loads(body) if body else {}
        numbered = carrier in ("mcp", "a2a") and method == "POST"
        out = SocketCarrier(carrier, message.get("id") if numbered else None, self._connection, path)
        beginning = {"a2a": ".well-known", "acp": "agents"}.get(carrier)
        if carrier == "mcp":
            self._mcp(out, fault, method, message)
        elif more and more[0] == beginning:
            if fault.at in ("initialize", "exec"):
                fault.play(out)
            else:
                out.say(self._introduction(carrier, name))
        else:
            fault.play(out)

    def _mcp(self, out: SocketCarrier, fault: Fault, method: str, message: dict[str, Any]) -> None:
        if method == "GET" and fault.resumed and b"last-event-id" in self._heard.lower():
            fault.play(out)
        elif method != "POST":
            out.reply("405 Method Not Allowed", b"")
        elif "id" not in message or "method" not in message:
            out.reply("202 Accepted", b"", kind="")
        else:
            serve(out, fault, message)

    def _introduction(self, carrier: str, name: str) -> bytes:
        if carrier == "acp":
            return b'{"agents":[{"name":"faulty","description":"Works."}]}'
        secure = "s" if isinstance(self._connection, ssl.SSLSocket) else ""
        url = f"http{secure}://127.0.0.1:{self._connection.getsockname()[1]}/a2a/{name}/rpc"
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {"name": "faulty", "description": "Works.", "version": "1", "supportedInterfaces": [interface]}
        return json.dumps({**card, "capabilities": {"streaming": True}, "skills": []}).encode()


def listen(answer: Any) -> int:
    """A port on which every connection gets a thread."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=200)

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listening.getsockname()[1])


def secured(certificate: Path) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(connection: socket.socket) -> None:
        try:
            wrapped = context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        Exchange(wrapped).run()

    return answer


def unsecured(fault: Fault) -> Any:
    def answer(connection: socket.socket) -> None:
        try:
            fault.play(SocketCarrier("https", None, connection))
        except OSError:
            pass
        finally:
            connection.close()

    return answer


def http(folder: Path) -> None:
    ports = {"plain": listen(lambda connection: Exchange(connection).run())}
    ports |= {name: listen(secured(folder / f"{name}.pem")) for name in CERTIFICATES}
    ports |= {name: listen(unsecured(FAULTS[name])) for name in TLS}
    http_scripts.bomb()
    print(json.dumps(ports), flush=True)
    # Until whoever started this has gone.
    sys.stdin.buffer.read()
    os._exit(0)
