"""
The HTTPS server of documents that are complete when it starts.

It answers GET and HEAD of the paths it was given and nothing else: no request
body is taken, no file is opened, and the AGTP side of the host is out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.ssl import CertificateOptions
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from agtphost.http.exchange import BoundedRequest, tail_of
from agtphost.http.site import HTTP_LIMITS, HttpService
from agtphost.http.tls import Connections
from agtphost.protocols import ConnectionLimits

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Page:
    """One document."""

    body: bytes
    content_type: str = "application/json"
    max_age: int = 0
    """Seconds that a client may keep it."""


class Pages(Resource):
    """
    Answers from a table.

    :param pages: by path.
    """

    isLeaf = True

    longest_body = 0
    """Who asks for a page has nothing to say."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pages = {path.encode("ascii"): page for path, page in pages.items()}

    def admit(self, request: BoundedRequest) -> bytes | None:
        """See :class:`agtphost.http.exchange.Gatekeeper`."""
        if request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Only GET and HEAD are answered.\n", ("Allow", "GET, HEAD"))
        return None if request.path in self._pages else tail_of(request, 404, b"Nothing is here.\n")

    def render(self, request: BoundedRequest) -> bytes:
        """The page of the request's path; HEAD gets its fields."""
        refusal = self.admit(request)
        if refusal is not None:
            return refusal
        page = self._pages[request.path]
        return tail_of(request, 200, page.body, kind=page.content_type, cache=f"max-age={page.max_age}")


class Sidecar(HttpService):
    """
    Serves pages over HTTPS.

    :param endpoint: a Twisted endpoint string of kind ``ssl`` without files, such as ``ssl:443``.
    :raises agtphost.errors.ConfigurationError: for an endpoint that is none.
    """

    name = "sidecar"

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        options: CertificateOptions,
        pages: Mapping[str, Page],
        limits: ConnectionLimits = HTTP_LIMITS,
    ) -> None:
        where = f"ssl:{endpoint.removeprefix('ssl:')}"
        super().__init__(reactor, where, Connections(options), Pages(pages), "[wellknown] listen", limits)

    def renew(self, tls: Any) -> None:
        """Show another certificate: from the next connection on."""
        super().renew(Connections(tls))

    def _failed(self, failure: Failure) -> None:
        # The document is a service to those who do not know this host yet; AGTP works without it.
        log.error("the well-known document is not served: {why}", why=failure.getErrorMessage())
