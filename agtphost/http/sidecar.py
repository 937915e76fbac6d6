"""
A small HTTPS server for documents that are complete when it starts.

It answers GET and HEAD of the paths it was given and nothing else: no request
body is kept, no file is opened, and the AGTP side of the host is out of reach.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort, IOpenSSLServerConnectionCreator
from twisted.internet.ssl import CertificateOptions
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Request, Site
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem

log = Logger()

CONNECTIONS = 256
"""At once: the documents are small and cached, so more is somebody's mistake or malice."""

PATIENCE = 15.0
"""Seconds without an octet until a connection is closed."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One document."""

    body: bytes
    content_type: str = "application/json"
    max_age: int = 0
    """Seconds that a client may keep it."""


class Discarded(io.BytesIO):
    """Takes a request's body and keeps nothing of it."""

    def write(self, octets: Any) -> int:
        """Forget."""
        return len(octets)


class PageRequest(Request):
    """A request whose body, if it has one, is never stored."""

    def gotLength(self, length: int | None) -> None:
        """Whatever was announced, it is not kept."""
        self.content = Discarded()


class Pages(Resource):
    """
    Answers from a table.

    :param pages: by path.
    """

    isLeaf = True

    def __init__(self, pages: Mapping[str, Page]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pages = {path.encode("ascii"): page for path, page in pages.items()}

    def render(self, request: Request) -> bytes:
        """The page of the request's path; HEAD gets its fields."""
        if request.method not in (b"GET", b"HEAD"):
            return _plain(request, 405, b"Only GET and HEAD are answered.\n", ("Allow", "GET, HEAD"))
        page = self._pages.get(request.path)
        if page is None:
            return _plain(request, 404, b"Nothing is here.\n")
        fields = (("Content-Type", page.content_type), ("Cache-Control", f"max-age={page.max_age}"))
        return _answer(request, page.body, fields)


def _plain(request: Request, status: int, text: bytes, *fields: tuple[str, str]) -> bytes:
    request.setResponseCode(status)
    return _answer(request, text, (("Content-Type", "text/plain"), *fields))


def _answer(request: Request, body: bytes, fields: Iterable[tuple[str, str]]) -> bytes:
    for name, value in (*fields, ("Content-Length", str(len(body)))):
        request.responseHeaders.setRawHeaders(name, [value])
    return b"" if request.method == b"HEAD" else body


def https_options(certificate: Path, key: Path) -> CertificateOptions:
    """
    TLS 1.2 or newer with a certificate from PEM files.

    :param certificate: the certificate, and after it its intermediates.
    :raises agtphost.errors.ConfigurationError: for files that cannot be used.
    """
    try:
        leaf, *chain = [
            crypto.X509.from_cryptography(found)
            for found in x509.load_pem_x509_certificates(certificate.read_bytes())
        ]
        private = crypto.PKey.from_cryptography_key(
            load_pem_private_key(key.read_bytes(), password=None)  # type: ignore[arg-type]
        )
        options = CertificateOptions(privateKey=private, certificate=leaf, extraCertChain=chain)
        options.getContext().check_privatekey()
    except (OSError, ValueError, TypeError, SSL.Error) as error:
        raise ConfigurationError(
            [
                Problem(
                    message=f"[wellknown] certificate and key cannot be used: {error}",
                    file=str(certificate),
                    hint="both are PEM files, the certificate first, its intermediates after it",
                )
            ]
        ) from None
    return options


@implementer(IOpenSSLServerConnectionCreator)
class Connections:
    """
    The TLS side of connections, by one set of settings.

    :param options: such as :func:`https_options` gives.
    """

    def __init__(self, options: CertificateOptions) -> None:
        self._options = options

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        """What Twisted asks for at each new connection."""
        return SSL.Connection(self._options.getContext(), None)


@implementer(IOpenSSLServerConnectionCreator)
class Renewable:
    """
    The TLS side of connections to come; those that are open keep theirs.

    :param creator: in force until :meth:`renew`.
    """

    def __init__(self, creator: IOpenSSLServerConnectionCreator) -> None:
        self._creator = creator

    def renew(self, creator: IOpenSSLServerConnectionCreator) -> None:
        """Use this from now on."""
        self._creator = creator

    def serverConnectionForTLS(self, protocol: object) -> Any:
        """See :class:`IOpenSSLServerConnectionCreator`."""
        return self._creator.serverConnectionForTLS(protocol)  # type: ignore[arg-type]


class LimitedTLS(TLSMemoryBIOFactory):
    """TLS for no more than :data:`CONNECTIONS` at once; one beyond that is closed unanswered."""

    def buildProtocol(self, addr: Any) -> Any:
        """A connection, if there is room."""
        return None if len(self.protocols) >= CONNECTIONS else super().buildProtocol(addr)


class Sidecar(Service):
    """
    Serves pages over HTTPS.

    :param endpoint: a Twisted endpoint string of kind ``ssl`` without files, such as ``ssl:443``.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
    """

    name = "sidecar"

    def __init__(
        self, reactor: Any, endpoint: str, options: CertificateOptions, pages: Mapping[str, Page]
    ) -> None:
        self._options = Renewable(Connections(options))
        self._reactor = reactor
        self._site = Site(Pages(pages), PageRequest, timeout=PATIENCE, reactor=reactor)  # type: ignore[no-untyped-call]
        self._site.noisy = False
        self._site.log = lambda request: None  # type: ignore[method-assign]
        try:
            # The listener is a TCP one; TLS goes on top of it here, with the options above.
            description = f"tcp:{endpoint.removeprefix('ssl:')}"
            self._endpoint = serverFromString(reactor, description)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(
                [Problem(message=f"[wellknown] listen is not an endpoint: {error}", hint='such as "ssl:443"')]
            ) from None
        self._port: IListeningPort | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before."""
        return 0 if self._port is None else int(getattr(self._port.getHost(), "port", 0))

    def renew(self, options: CertificateOptions) -> None:
        """Show another certificate: from the next connection on."""
        self._options.renew(Connections(options))

    def startService(self) -> None:
        """Listen."""
        super().startService()  # type: ignore[no-untyped-call]
        factory = LimitedTLS(self._options, False, self._site, self._reactor)
        self._endpoint.listen(factory).addCallbacks(self._bound, self._failed)

    def stopService(self) -> Deferred[None]:
        """Listen no more."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._port is None:
            return succeed(None)
        stopping: Deferred[None] = Deferred.fromCoroutine(_stopped(self._port))
        return stopping

    def _bound(self, port: IListeningPort) -> None:
        self._port = port
        log.info("the well-known document is served over HTTPS on port {port}", port=self.port)

    def _failed(self, failure: Failure) -> None:
        # The document is a service to those who do not know this host yet; AGTP works without it.
        log.error("the well-known document is not served: {why}", why=failure.getErrorMessage())


async def _stopped(port: IListeningPort) -> None:
    stopping: object = port.stopListening()
    if isinstance(stopping, Deferred):
        await stopping
