"""
Documents that are complete when the host starts, over HTTP.

GET and HEAD of the paths that were given are answered and nothing else: no request
body is taken, no file is opened, and the AGTP side of the host is out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twisted.web.resource import Resource

from agtphost.http.exchange import BoundedRequest, tail_of


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
