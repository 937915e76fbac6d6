"""Serve further documents below ``/.well-known/``, at the gateway and at ``[wellknown]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.agis.endpoints import capability_of
from agtphost.agis.summary import agis_summary
from agtphost.config import Config
from agtphost.config.presence import http_apis, mcp_front_url, namespace_of, root_of
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
from agtphost.host.methods import Disclosure
from agtphost.host.services import HostServices
from agtphost.http.bounded_request import BoundedRequest
from agtphost.http.clients import HttpClient
from agtphost.identity.agents import Agent
from agtphost.negotiation.data_classes import is_negotiable
from agtphost.vocabulary import jsontext

Summary = Callable[[], bytes | None]
"""Returns the present octets of ``agis.json``; None if anonymous clients may not see it."""


def summary_renderer(services: HostServices, shown: Disclosure) -> Summary:
    """
    Return a function that renders ``agis.json`` (AGIS v01 section 12.2).

    :param shown: has the tools that are published.
    """
    config = services.config

    def summary() -> bytes | None:
        if not config.policies.anonymous_discovery:
            return None
        bound = [binding for binding in services.registry.admitted_bindings() if binding.tier == "B"]
        tools = [tool for adapter in shown.adapters for tool in adapter.tools()]
        blocks = [(binding.method, binding.details.get("semantic", {})) for binding in bound]
        return jsontext.encode(
            agis_summary(
                service=config.agis.service or config.host.server_id,
                root=root_of(config),
                domain=config.agis.domain or None,
                namespace=namespace_of(config),
                related=config.agis.related,
                endpoints=[(method, *_consequence(block)) for method, block in blocks],
                tools=bool(tools),
                tools_list=mcp_front_url(config),
                negotiable=is_negotiable(config, services.loaded.endpoints),
                confirms=any(binding.approval for binding in (*bound, *tools)),
                data_classes=[entry.name for entry in config.data_class],
                anonymous=True,
                version=shown.publication.current_version(),
            )
        )

    return summary


def _consequence(block: Mapping[str, Any]) -> tuple[str, bool]:
    """Return what an endpoint is able to do, in the terms of AGIS, and whether it only reads."""
    impact = str(block.get("impact", ""))
    return capability_of(str(block.get("capability", "mechanics")), impact), impact == "informational"


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
    if config.gateway.listen is None:
        return {}
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
