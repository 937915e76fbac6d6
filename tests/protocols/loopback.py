"""A listening host with a fake dispatcher on a real loopback port, and blocking TLS clients for it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cryptography.x509.oid import ExtendedKeyUsageOID
from twisted.internet.threads import deferToThread

from agtphost.config.tls import TLS
from agtphost.protocols import (
    AGTPServerFactory,
    ConnectionLimits,
    ListeningService,
    ServerTLS,
    server_endpoint,
)
from tests.protocols.authorities import Identity, issue
from tests.protocols.links import FakeDispatcher, ask, at_once

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds that a client waits for anything."""


@dataclass(kw_only=True)
class Site:
    """Where the files of a test's host are, and who is trusted."""

    folder: Path
    root: Identity
    files: TLS

    def client(self, identity: Identity | None = None) -> ssl.SSLContext:
        """A client's TLS settings, with its certificate if it has one."""
        context = ssl.create_default_context(cafile=str(self.folder / "root.pem"))
        if identity is not None:
            certificate, key = identity.save(self.folder, f"client-{id(identity)}")
            context.load_cert_chain(certificate, key)
        return context


def make_site(folder: Path, client_auth: str = "optional", **options: Any) -> Site:
    """An authority and a server certificate of its."""
    root = issue(name="root", authority=True)
    root.save(folder, "root")
    server = issue(root, name="localhost", usage=ExtendedKeyUsageOID.SERVER_AUTH)
    certificate, key = server.save(folder, "server")
    files = TLS(certificate=certificate, key=key, client_auth=client_auth, client_ca=folder / "root.pem", **options)
    return Site(folder=folder, root=root, files=files)


class Host:
    """A started service; ``async with`` stops it."""

    def __init__(
        self, site: Site, dispatcher: FakeDispatcher | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        from twisted.internet import reactor

        self.site = site
        self.reactor: Any = reactor
        self.dispatcher = dispatcher or FakeDispatcher(at_once)
        limits = limits or ConnectionLimits()
        self.factory = AGTPServerFactory(self.dispatcher, limits, self.reactor)
        self.tls = ServerTLS.load(site.files)
        endpoint = server_endpoint(self.reactor, address="127.0.0.1", port=0)
        self.service = ListeningService(endpoint, self.tls, self.factory, self.reactor, limits.drain_timeout)

    @property
    def port(self) -> int:
        address: Any = self.service.address
        return int(address.port)

    async def __aenter__(self) -> Host:
        self.service.startService()
        await self.service.when_listening()
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self.service.running:
            self.factory.cut()
            await self.service.stopService()

    def connect(self) -> socket.socket:
        """A TCP connection; to be called in a thread."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def secure(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        """A TLS connection; to be called in a thread."""
        return context.wrap_socket(self.connect(), server_hostname="localhost")

    def exchange(self, context: ssl.SSLContext, octets: bytes = ask()) -> bytes:
        """Send ``octets`` and read until a message's end; to be called in a thread."""
        with self.secure(context) as connection:
            connection.sendall(octets)
            return read_message(connection)


def read_message(connection: socket.socket) -> bytes:
    """Read until a blank line, or the end."""
    received = b""
    while b"\r\n\r\n" not in received:
        portion = connection.recv(65536)
        if not portion:
            break
        received += portion
    return received


def read_all(connection: socket.socket) -> bytes:
    """Read until the end, however it comes."""
    received = b""
    try:
        while portion := connection.recv(65536):
            received += portion
    except (ConnectionError, ssl.SSLError):
        pass
    return received


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What a blocking client does, while the reactor runs."""
    result: T = await deferToThread(function, *arguments)
    return result
