"""AGTP octets over a TLS connection of the standard library: nothing of the host's own code is on this side."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

JSON = "application/vnd.agtp+json"


class Truncated(Exception):
    """The connection ended in the middle of a message."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One whole response."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""

    body: bytes

    @property
    def audit_id(self) -> str:
        return self.headers["audit-id"]

    @property
    def record(self) -> str:
        """The JWS."""
        return self.headers["attribution-record"]

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str | None:
        """The token of a refusal."""
        return self.json().get("reason") if self.body else None


def request(method: str, path: str, body: object = None, **headers: str) -> bytes:
    """One request; ``Request_ID="x"`` becomes the header ``Request-ID: x``."""
    octets = b"" if body is None else json.dumps(body).encode()
    lines = [f"AGTP/1.0 {method} {path}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if octets:
        lines += [f"Content-Type: {JSON}", f"Content-Length: {len(octets)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + octets


class Reachable(Protocol):
    """A host with its state directory; :class:`tests.system.hosting.Host` is one."""

    @property
    def port(self) -> int: ...

    @property
    def state(self) -> Path: ...


def client_context(host: Reachable, *, identified: bool = True, agent: str = "demo") -> ssl.SSLContext:
    """What trusts the host's authority and, if ``identified``, shows the certificate of ``agent``."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    if identified:
        own = host.state / "agents" / agent
        context.load_cert_chain(own / "agent.pem", own / "agent.key")
    return context


class RawLink:
    """
    One connection.

    :param context: made by :func:`client_context`; one for many connections saves time and memory.
    :param receive_buffer: octets that the system keeps for a peer that does not read.
    :param source: the address that the connection comes from, such as 127.0.0.2; None: the system's choice.
    """

    def __init__(
        self,
        host: Reachable,
        *,
        context: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        receive_buffer: int | None = None,
        source: str | None = None,
    ) -> None:
        raw = socket.socket()
        try:
            raw.settimeout(timeout)
            if receive_buffer is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            if source is not None:
                raw.bind((source, 0))
            raw.connect(("127.0.0.1", host.port))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.tls = (context or client_context(host)).wrap_socket(raw, server_hostname="localhost")
        except BaseException:
            raw.close()
            raise
        self._buffer = bytearray()

    def __enter__(self) -> RawLink:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Without a word."""
        self.tls.close()

    def send(self, octets: bytes) -> None:
        """All of them."""
        self.tls.sendall(octets)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """One request and its answer."""
        self.send(request(method, path, body, **headers))
        answer = self.answer()
        assert answer is not None, "the host closed the connection instead of answering"
        return answer

    def answer(self) -> Answer | None:
        """
        The next response; None where the connection ended between two.

        :raises Truncated: it ended within one.
        :raises TimeoutError: nothing came.
        """
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._more():
                return None
        status, *lines = bytes(self._buffer[:end]).decode("ascii").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        whole = end + 4 + int(headers.get("content-length", "0"))
        while len(self._buffer) < whole:
            self._more()
        body = bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        return Answer(status=int(status.split(" ")[1]), headers=headers, body=body)

    def wait(self) -> None:
        """Read the first octets of an answer, or a few more of them."""
        assert self._more(), "the host closed the connection instead of answering"

    def _more(self) -> bool:
        try:
            octets = self.tls.recv(65_536)
        except TimeoutError:
            raise
        except OSError:
            octets = b""
        if not octets and self._buffer:
            raise Truncated(bytes(self._buffer[:200]))
        self._buffer += octets
        return bool(octets)
