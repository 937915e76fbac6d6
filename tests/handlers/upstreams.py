"""Real HTTPS servers on loopback, honest and hostile, under an authority of the test's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL
from twisted.internet import ssl
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHostnameResolver
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from tests.protocols.authorities import Identity, issue

Script = Callable[["Heard", Any], None]
"""What a server does with one request: the request, and the transport to answer on."""


@dataclass
class Heard:
    """One request as the upstream got it."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The number of the connection it came on."""

    def json(self) -> Any:
        return json.loads(self.body)


def answer(status: int, body: bytes | Any = b"", *fields: str, kind: str = "application/json") -> bytes:
    """A response with its length."""
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(octets)}", f"Content-Type: {kind}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + octets


def says(octets: bytes) -> Script:
    """Answer every request alike."""
    return lambda heard, transport: transport.write(octets)


class _Connection(Protocol):
    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._number = number
        self._held = b""

    def dataReceived(self, data: bytes) -> None:
        self._held += data
        while b"\r\n\r\n" in self._held:
            head, _, rest = self._held.partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self._held = rest[length:]
            heard = Heard(line, headers, rest[:length], self._number)
            self._server.heard.append(heard)
            self._server.script(heard, self.transport)

    def connectionLost(self, reason: Any = None) -> None:
        self._server.lost += 1


@dataclass
class Server:
    """One upstream."""

    reactor: Any
    identity: Identity
    script: Script
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0
    lost: int = 0
    port: Any = None

    def listen(self) -> Server:
        key = ssl.KeyPair.load(self.identity.key_pem(), SSL.FILETYPE_PEM)
        certificate = ssl.PrivateCertificate.load(self.identity.pem(), key, SSL.FILETYPE_PEM)
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = self._build  # type: ignore[method-assign]
        self.port = self.reactor.listenSSL(0, factory, certificate.options(), interface="127.0.0.1")
        return self

    def _build(self, address: Any) -> Protocol:
        self.connections += 1
        return _Connection(self, self.connections)

    @property
    def number(self) -> int:
        return int(self.port.getHost().port)


class Authority:
    """The root of a test's upstreams."""

    def __init__(self) -> None:
        self.root = issue(name="test root", authority=True)
        self.trust = ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(self.root.pem())])

    def server(self, reactor: Any, script: Script) -> Server:
        identity = issue(self.root, name="localhost", usage=ExtendedKeyUsageOID.SERVER_AUTH)
        return Server(reactor, identity, script).listen()

    def save(self, folder: Path) -> Path:
        path = folder / "upstream-ca.pem"
        path.write_bytes(self.root.pem())
        return path


@implementer(IHostnameResolver)
class Names:
    """Answers look-ups from a list, one entry each time, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def resolveHostName(self, receiver: Any, hostName: str, portNumber: int = 0, *rest: Any, **more: Any) -> Any:
        self.asked.append(hostName)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        receiver.resolutionBegan(self)
        for address in addresses:
            receiver.addressResolved(IPv4Address("TCP", address, portNumber))
        receiver.resolutionComplete()
        return self


PLACE = re.compile(r"^([A-Z]+) (\S+) HTTP/1\.1$")


def target(heard: Heard) -> tuple[str, str]:
    """Method and target of a request."""
    match = PLACE.match(heard.line)
    assert match is not None, heard.line
    return match[1], match[2]
