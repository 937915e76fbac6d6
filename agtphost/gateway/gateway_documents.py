"""
Answer the gateway's own documents below ``/.well-known/``: who it is, what may be called, and pages for people.

The OpenAPI document depends on the caller: the dispatcher makes it in the caller's name, with a record. All other
documents are the same for every client, and ready when the host starts or reloads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from agtphost.gateway.gateway import DispatcherCall
from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.http.clients import HttpClient
from agtphost.http.conditional import is_unchanged
from agtphost.http.refusals import PROOF, refuse
from agtphost.vocabulary import jsontext, media_types, paths
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers

OPENAPI = "/.well-known/openapi.json"
CATALOG = "/.well-known/api-catalog"
SUMMARY = "/.well-known/agis.json"
VIEWER = "/.well-known/openapi"
CARD = "/.well-known/agent-card.json"
"""The paths of the documents."""

LINKSET = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'


class CallableDocument:
    """The document of what a client may call, an :class:`~agtphost.gateway.gateway.OwnDocument`."""

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        if client is None:
            said = "This document lists what you may call, so it needs to know who you are."
            return refuse(
                request, 401, Reason.AGENT_UNAUTHENTICATED, said, ("WWW-Authenticate", "Bearer"), remedy=PROOF
            )
        query = "format=openapi"
        given = request.uri.partition(b"?")[2].decode("ascii", "replace")
        try:
            built_ins = paths.parse_query(given).get("built_ins") == "true"
        except paths.PathError:
            built_ins = False
        if built_ins:
            query += "&built_ins=true"
        line = f"AGTP/1.0 DISCOVER /methods?{query}\r\n".encode()
        asked = Request(
            method="DISCOVER", path="/methods", query=query, headers=Headers(list(client.headers)), body=b"", line=line
        )
        return ask(request, client, asked)


@dataclass(frozen=True)
class AgentCardDocument:
    """The card of the only agent here, for every client (:class:`~agtphost.gateway.gateway.OwnDocument`)."""

    card_id: str
    public = True

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        assert client is not None, "who has shown nothing is a stranger"
        path = f"/cards/{self.card_id}"
        headers, line = Headers(list(client.headers)), f"AGTP/1.0 QUERY {path}\r\n".encode()
        return ask(request, client, Request(method="QUERY", path=path, headers=headers, body=b"", line=line))


@dataclass(frozen=True, kw_only=True)
class ReadyDocument:
    """A document that is the same for every client (:class:`~agtphost.gateway.gateway.OwnDocument`)."""

    body: bytes
    content_type: str = "application/json"
    max_age: int = 0
    fields: tuple[tuple[str, str], ...] = ()
    status: int = 200
    guarded: bool = False
    """Whether only clients with a proven identity may read it."""

    @cached_property
    def tag(self) -> str:
        """Return its strong validator."""
        return f'"{sha256(self.body).hexdigest()[:40]}"'

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        if self.guarded and client is None:
            said = "Only clients that prove their identity may read this document."
            return refuse(
                request, 401, Reason.AGENT_UNAUTHENTICATED, said, ("WWW-Authenticate", "Bearer"), remedy=PROOF
            )
        fields, cache = (("ETag", self.tag), *self.fields), f"max-age={self.max_age}" if self.max_age else "no-cache"
        if self.status == 200 and is_unchanged(self.tag, field_of(request, "if-none-match")):
            return tail_of(request, 304, b"", *fields, kind=self.content_type, cache=cache)
        return tail_of(request, self.status, self.body, *fields, kind=self.content_type, cache=cache)


@dataclass(frozen=True, kw_only=True)
class ApiCatalog:
    """
    The document ``/.well-known/api-catalog``: RFC 9727, a set of links (RFC 9264).

    :param url: the URL of the gateway for clients; empty: the address that the client called.
    :param host: the URI of the AGTP side.
    :param documents: further documents of the gateway: relation, path, type.
    :param apis: the operator's other APIs: entries of ``DISCOVER /apis``.
    """

    url: str
    host: str
    documents: Sequence[tuple[str, str, str]] = ()
    apis: Sequence[Mapping[str, str]] = ()

    def links(self, base: str) -> dict[str, object]:
        """Return the document, for a gateway at ``base``."""
        described: dict[str, object] = {"anchor": f"{base}/"}
        for relation, path, kind in self.documents:
            links = described.setdefault(relation, [])
            assert isinstance(links, list)
            links.append({"href": base + path, "type": kind})
        others = []
        for entry in self.apis:
            told: dict[str, object] = {"anchor": entry["base_url"]}
            for relation, member in (("service-desc", "openapi_url"), ("service-doc", "documentation_url")):
                if member in entry:
                    told[relation] = [{"href": entry[member]}]
            others.append(told)
        items = [{"href": f"{base}/"}, *({"href": str(each["anchor"])} for each in others)]
        listed = {"anchor": base + CATALOG, "item": [*items, {"href": self.host, "title": "The same over AGTP"}]}
        return {"linkset": [listed, described, *(each for each in others if len(each) > 1)]}

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        base = self.url or _called_address(request)
        body = jsontext.encode(self.links(base))
        link = ("Link", f'<{base}{CATALOG}>; rel="api-catalog"')
        return ReadyDocument(body=body, content_type=LINKSET, fields=(link,)).answer(request, client, ask)


def _called_address(request: BoundedRequest) -> str:
    """Return the address at which the client called the gateway; its host name was checked before."""
    scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
    return f"{scheme}://{(field_of(request, 'host') or 'localhost').strip().lower()}"


OPENAPI_LINK = ("service-desc", OPENAPI, media_types.OPENAPI)
