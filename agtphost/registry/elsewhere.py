"""
Agents elsewhere, called by cards: over HTTPS as ``[[registry.provider]]`` says, over AGTP as ``[delegation]`` says.

A card makes this host call nothing: its endpoint is called only where the operator has named its origin, with what the
operator wrote there, and for callers with the scopes that the operator asks for there. What is judged is the URL, just
before it is called. What a caller sent of its own, its credentials above all, stays here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.context import EndpointError
from agtphost.handlers.external import ExternalService
from agtphost.registry.card import DEFAULT
from agtphost.registry.catalogue import Target
from agtphost.registry.entry import Entry
from agtphost.vocabulary.reasons import Reason

MOST_KEPT = 256
"""Endpoints whose connections are kept."""

KEY = "idempotency-key"
"""The field that says to an agent that it has had a call before: a draft of the IETF's HTTPAPI group."""

INVOKE = "/invoke"

Judge = Callable[[BuiltInContext, Entry, str], None]
"""Refuses a caller who may not call a URL by a card: :meth:`agtphost.registry.catalogue.Cards.require_call`."""

Make = Callable[[str], ExternalService | None]
"""What calls a URL, and repeats nothing by itself; None where no provider of the operator's is there."""


class Hosts(Protocol):
    """Other hosts of AGTP."""

    def call(
        self, context: BuiltInContext, endpoint: str, card_id: str, action: str | None, given: Mapping[str, Any]
    ) -> Awaitable[tuple[Any, Mapping[str, Any]]]:
        """
        Have a host call an agent of its own.

        :return: the result, and what the record says of the host.
        :raises Refusal: it is none of this host's peers, did not answer, or refused.
        """


class AgentsElsewhere:
    """
    Calls agents that are not hosted here.

    :param make: see :data:`Make`.
    :param hosts: other hosts.
    :param judge: see :data:`Judge`; it is asked before every request, a repeated one and one below the card's URL too.
    """

    def __init__(self, make: Make, hosts: Hosts, judge: Judge) -> None:
        self._make = make
        self._judge = judge
        self._hosts = hosts
        self._services: OrderedDict[str, ExternalService] = OrderedDict()

    async def call(
        self, context: BuiltInContext, target: Target, operation: str, given: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """
        Call one.

        :return: the result, and what the record says besides.
        :raises Refusal: 403 nobody said that it may be called; 408 it did not answer in time; 503 it cannot be reached;
            500 what it answered is nothing to pass on.
        """
        called = target.operations[operation]
        url = called.endpoint or target.endpoint
        if urlsplit(url).scheme == "agtp":
            # What a card without operations has is called as that agent's own card has it.
            named = None if operation == DEFAULT else operation
            self._judge(context, target.entry, url)
            return await self._hosts.call(context, url, target.entry.id, named, given)
        return await self._posted(context, target, operation, url, given), {}

    async def _posted(
        self, context: BuiltInContext, target: Target, operation: str, url: str, given: Mapping[str, Any]
    ) -> Any:
        called = target.operations[operation]
        sent = dict(given)
        properties = {} if called.input_schema is None else called.input_schema.schema.get("properties", {})
        if len(target.operations) > 1 and url == target.endpoint and "operation" not in properties:
            sent["operation"] = operation
        try:
            return await self._asked(url, context, target, sent)
        except EndpointError as error:
            if error.details.get("upstream_status") not in (404, 405) or url.endswith(INVOKE):
                raise _failed(error) from None
        # Cards name the address to post to, or the one above: where nothing is at the first, it is the second.
        try:
            return await self._asked(url.rstrip("/") + INVOKE, context, target, sent)
        except EndpointError as error:
            raise _failed(error) from None

    async def _asked(self, url: str, context: BuiltInContext, target: Target, sent: Mapping[str, Any]) -> Any:
        self._judge(context, target.entry, url)
        service = self._service(url)
        asked = context.narrow()
        asked.input = sent
        try:
            return await service.handle(asked)
        except EndpointError as error:
            # Nobody knows whether it had an effect: only what carries the caller's key is asked for twice.
            lost = error.name == "upstream_connection_error" and "circuit" not in error.details
            if not lost or context.idempotency_key is None:
                raise
        self._judge(context, target.entry, url)
        return await service.handle(asked)

    def _service(self, url: str) -> ExternalService:
        """What calls an address. :raises Refusal: nobody said that it may be called."""
        service = self._services.get(url)
        if service is None:
            service = self._make(url)
            if service is None:
                raise not_provided(url)
            self._services[url] = service
            if len(self._services) > MOST_KEPT:
                _, oldest = self._services.popitem(last=False)
                oldest.close()
        self._services.move_to_end(url)
        return service


def not_provided(url: str) -> Refusal:
    """No provider of the operator's is at an endpoint."""
    parts = urlsplit(url)
    key = "[[delegation.peers]] uri" if parts.scheme == "agtp" else "[[registry.provider]] origin"
    return Refusal(
        Reason.NOT_ENTITLED,
        "The operator of this host lets nobody call agents there.",
        remedy=f"An operator can allow it: {key}.",
        details={"origin": f"{parts.scheme}://{parts.netloc}"[:256]},
    )


def _failed(error: EndpointError) -> Refusal:
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
        return Refusal(Reason.UPSTREAM_CALL_REFUSED, "The agent refuses the input.")
    if status in (429, 503):
        return Refusal(
            Reason.UPSTREAM_DOWN,
            "The agent is busy, or away.",
            remedy="Try again later.",
            headers=(("Retry-After", "5"),),
        )
    if status == 504:
        return Refusal(Reason.UPSTREAM_TIMEOUT)
    return Refusal(Reason.UPSTREAM_FAILED, "The agent could not do it.")
