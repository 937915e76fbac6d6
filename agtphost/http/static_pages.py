"""
Serve documents that are the same for every client, over HTTP.

Only GET and HEAD of the given paths are answered: no request body is read, no file is opened, and no request reaches
the AGTP side of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twisted.web.resource import Resource

from agtphost.http.bounded_request import BoundedRequest, tail_of


@dataclass(frozen=True, kw_only=True)
class StaticPage:
    """A document that is served from memory."""

    body: bytes
    content_type: str = "application/json"
    max_age: int = 0
    """Seconds that a client may cache it."""


class PageTable(Resource):
    """
    The HTTP resource that answers from a table.

    :param pages: by path; a function is called for each request, and returns None for a page that does not exist now.
    """

    isLeaf = True

    longest_body = 0
    """Requests for a page have no body."""

    def __init__(self, pages: Mapping[str, StaticPage | Callable[[], StaticPage | None]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pages = {path.encode("ascii"): page for path, page in pages.items()}

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`."""
        if request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Only GET and HEAD are answered.\n", ("Allow", "GET, HEAD"))
        return None if self._page(request) is not None else tail_of(request, 404, b"There is nothing at this path.\n")

    def _page(self, request: BoundedRequest) -> StaticPage | None:
        found = self._pages.get(request.path)
        return found if found is None or isinstance(found, StaticPage) else found()

    def render(self, request: BoundedRequest) -> bytes:
        """Answer with the page of the request's path."""
        refusal = self.admit(request)
        if refusal is not None:
            return refusal
        page = self._page(request)
        assert page is not None, "it was not refused"
        return tail_of(request, 200, page.body, kind=page.content_type, cache=f"max-age={page.max_age}")
