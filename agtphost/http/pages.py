"""
Documents that are the same for everybody, over HTTP.

GET and HEAD of the paths that were given are answered and nothing else: no request
body is taken, no file is opened, and the AGTP side of the host is out of reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    :param pages: by path; what is told anew each time it is asked for says None for a page that is not there now.
    """

    isLeaf = True

    longest_body = 0
    """Who asks for a page has nothing to say."""

    def __init__(self, pages: Mapping[str, Page | Callable[[], Page | None]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pages = {path.encode("ascii"): page for path, page in pages.items()}

    def admit(self, request: BoundedRequest) -> bytes | None:
        """See :class:`agtphost.http.exchange.Gatekeeper`."""
        if request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Only GET and HEAD are answered.\n", ("Allow", "GET, HEAD"))
        return None if self._page(request) is not None else tail_of(request, 404, b"Nothing is here.\n")

    def _page(self, request: BoundedRequest) -> Page | None:
        found = self._pages.get(request.path)
        return found if found is None or isinstance(found, Page) else found()

    def render(self, request: BoundedRequest) -> bytes:
        """The page of the request's path; HEAD gets its fields."""
        refusal = self.admit(request)
        if refusal is not None:
            return refusal
        page = self._page(request)
        assert page is not None, "it was not refused"
        return tail_of(request, 200, page.body, kind=page.content_type, cache=f"max-age={page.max_age}")
