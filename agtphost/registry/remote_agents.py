"""
Calls of remote agents by their cards: over HTTPS as ``[[registry.provider]]`` sets, over AGTP as ``[delegation]`` sets.

A card alone makes this host call nothing. An endpoint is called only if the operator has configured its origin, with
the credentials configured there, and for callers with the scopes required there. The URL is checked immediately before
each call. The caller's credentials are never sent on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList

from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.context import EndpointError
from agtphost.registry.card import DEFAULT
from agtphost.registry.catalogue import Target
from agtphost.registry.entry import CardEntry
from agtphost.upstream.external import ExternalService
from agtphost.vocabulary.reasons import Reason

MAX_SERVICES = 256
"""Endpoints whose connections are kept open."""

KEY = "idempotency-key"
"""The header field by which an agent recognizes a repeated call (draft of the IETF's HTTPAPI group)."""

INVOKE = "/invoke"

Judge = Callable[[BuiltInContext, CardEntry, str], None]
"""Refuses a caller who may not call a URL by a card: :meth:`agtphost.registry.catalogue.Cards.require_call`."""

Make = Callable[[str], ExternalService | None]
"""Returns a service that calls a URL without retries; None if no configured provider has the URL."""


class PeerHosts(Protocol):
    """Other AGTP hosts that can be called."""

    def call(
        self, context: BuiltInContext, endpoint: str, card_id: str, action: str | None, given: Mapping[str, Any]
    ) -> Awaitable[tuple[Any, Mapping[str, Any]]]:
        """
        Have another host call an agent that it hosts.

        :return: the result, and what the record states about the host.
        :raises Refusal: the host is not one of this host's peers, did not answer, or refused.
        """


class RemoteAgentClient(Service):
    """
    Client of agents that are not hosted here; a service, whose connections end with its configuration.

    :param make: see :data:`Make`.
    :param hosts: other hosts.
    :param judge: see :data:`Judge`; it is asked before every request, including retries and paths below the card's URL.
    """

    def __init__(self, make: Make, hosts: PeerHosts, judge: Judge) -> None:
        self._make = make
        self._judge = judge
        self._hosts = hosts
        self._services: OrderedDict[str, ExternalService] = OrderedDict()

    def stopService(self) -> Deferred[Any]:
        """Close all connections."""
        super().stopService()  # type: ignore[no-untyped-call]
        closing = [service.close() for service in self._services.values()]
        self._services.clear()
        return DeferredList(closing, consumeErrors=True)

    async def call(
        self, context: BuiltInContext, target: Target, operation: str, given: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """
        Call an operation of a remote agent.

        :return: the result, and further members of the record.
        :raises Refusal: 403 if no provider has the URL; 408 if the agent did not answer in time; 503 if it cannot be
            reached; 500 if its answer cannot be passed on.
        """
        called = target.operations[operation]
        url = called.endpoint or target.endpoint
        if urlsplit(url).scheme == "agtp":
            # The single operation of a card without operations is called as the agent's own card describes it.
            named = None if operation == DEFAULT else operation
            self._judge(context, target.entry, url)
            return await self._hosts.call(context, url, target.entry.id, named, given)
        return await self._post(context, target, operation, url, given), {}

    async def _post(
        self, context: BuiltInContext, target: Target, operation: str, url: str, given: Mapping[str, Any]
    ) -> Any:
        called = target.operations[operation]
        sent = dict(given)
        properties = {} if called.input_schema is None else called.input_schema.schema.get("properties", {})
        if len(target.operations) > 1 and url == target.endpoint and "operation" not in properties:
            sent["operation"] = operation
        try:
            return await self._request(url, context, target, sent)
        except EndpointError as error:
            if error.details.get("upstream_status") not in (404, 405) or url.endswith(INVOKE):
                raise _to_refusal(error) from None
        # A card names either the URL to post to or the one above it: if the first has no resource, try the second.
        try:
            return await self._request(url.rstrip("/") + INVOKE, context, target, sent)
        except EndpointError as error:
            raise _to_refusal(error) from None

    async def _request(self, url: str, context: BuiltInContext, target: Target, sent: Mapping[str, Any]) -> Any:
        self._judge(context, target.entry, url)
        service = self._service(url)
        asked = context.narrow()
        asked.input = sent
        try:
            return await service.handle(asked)
        except EndpointError as error:
            # Whether the call had an effect is unknown, so only calls with the caller's idempotency key are repeated.
            lost = error.name == "upstream_connection_error" and "circuit" not in error.details
            if not lost or context.idempotency_key is None:
                raise
        self._judge(context, target.entry, url)
        return await service.handle(asked)

    def _service(self, url: str) -> ExternalService:
        """
        Return the service that calls an address.

        :raises Refusal: 403 if no provider has the URL.
        """
        service = self._services.get(url)
        if service is None:
            service = self._make(url)
            if service is None:
                raise not_provided(url)
            self._services[url] = service
            if len(self._services) > MAX_SERVICES:
                _, oldest = self._services.popitem(last=False)
                oldest.close()
        self._services.move_to_end(url)
        return service


def not_provided(url: str) -> Refusal:
    """Return the refusal of an endpoint that no configured provider has."""
    parts = urlsplit(url)
    key = "[[delegation.peers]] uri" if parts.scheme == "agtp" else "[[registry.provider]] origin"
    return Refusal(
        Reason.NOT_ENTITLED,
        "This host's operator has not allowed calls to agents at this origin.",
        remedy=f"Ask the operator to allow the origin with {key}.",
        details={"origin": f"{parts.scheme}://{parts.netloc}"[:256]},
    )


def _to_refusal(error: EndpointError) -> Refusal:
    status = error.details.get("upstream_status", 0)
    if error.name == "upstream_timeout":
        return Refusal(Reason.UPSTREAM_TIMEOUT)
    if error.name == "upstream_connection_error":
        again = error.details.get("retry_after", 5)
        return Refusal(
            Reason.UPSTREAM_DOWN,
            "The agent cannot be reached.",
            remedy="Try again later.",
            headers=(("Retry-After", str(again)),),
        )
    if error.name == "upstream_malformed_response":
        return Refusal(Reason.UPSTREAM_ANSWER_REFUSED)
    if status in (400, 422):
        return Refusal(Reason.UPSTREAM_CALL_REFUSED, "The agent refused the input.")
    if status in (429, 503):
        return Refusal(
            Reason.UPSTREAM_DOWN,
            "The agent is busy or not available.",
            remedy="Try again later.",
            headers=(("Retry-After", "5"),),
        )
    if status == 504:
        return Refusal(Reason.UPSTREAM_TIMEOUT)
    return Refusal(Reason.UPSTREAM_FAILED, "The agent failed to carry out the call.")
