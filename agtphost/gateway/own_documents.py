"""Choose the documents that the gateway answers itself, below ``/.well-known/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agtphost.config import Config
from agtphost.config.presence import http_apis, root_of
from agtphost.gateway.gateway import DispatcherCall, OwnDocument
from agtphost.gateway.gateway_documents import (
    CARD,
    CATALOG,
    OPENAPI,
    OPENAPI_LINK,
    SUMMARY,
    VIEWER,
    AgentCardDocument,
    ApiCatalog,
    CallableDocument,
    ReadyDocument,
)
from agtphost.gateway.viewer_files import viewer_documents
from agtphost.http.bounded_request import BoundedRequest
from agtphost.http.clients import HttpClient
from agtphost.identity.agents import Agent

Summary = Callable[[], bytes | None]
"""Returns the present octets of ``agis.json``; None if anonymous clients may not see it."""


class _SummaryDocument:
    """``agis.json`` as a document of the gateway."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._ready = ReadyDocument(body=b"")

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        octets = self._summary()
        if octets is None:
            text = b"This host describes itself to known callers only: call DISCOVER / as an agent.\n"
            return ReadyDocument(body=text, content_type="text/plain", status=404).answer(request, client, ask)
        if octets != self._ready.body:
            self._ready = ReadyDocument(body=octets)
        return self._ready.answer(request, client, ask)


def own_documents(config: Config, summary: Summary, hosted: Sequence[Agent]) -> Mapping[str, OwnDocument]:
    """
    Return the documents that the gateway answers itself, by path.

    :param hosted: the agents here; if there is exactly one, and a registry, its card is among the documents.
    """
    found: dict[str, OwnDocument] = {SUMMARY: _SummaryDocument(summary)}
    # Anonymous clients are refused this document, so the link would not help them.
    told = [("service-meta", SUMMARY, "application/json")] if config.policies.anonymous_discovery else []
    if config.registry is not None and len(hosted) == 1:
        found[CARD] = AgentCardDocument(f"agent:{hosted[0].name}")
    if config.gateway.openapi:
        found[OPENAPI] = CallableDocument()
        found.update(viewer_documents())
        told = [OPENAPI_LINK, ("service-doc", VIEWER, "text/html"), *told]
    found[CATALOG] = ApiCatalog(
        url=config.gateway.url or "",
        host=root_of(config),
        documents=told,
        apis=[entry for entry in http_apis(config) if entry.get("base_url") != config.gateway.base],
    )
    return found
