"""
Serve the HTTP gateway: any HTTP client calls every endpoint and every tool, as AGTP's own clients do.

A request becomes one request to the dispatcher (:mod:`.translation`), made by the client that has proven its identity
(:mod:`agtphost.http.clients`); its answer, sealed and durable, becomes the response. The gateway itself answers only
paths below ``/.well-known/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.gateway import translation
from agtphost.gateway.gateway_events import GatewayEvents
from agtphost.gateway.translation import (
    FORWARDED,
    FORWARDED_CERTIFIED,
    RefusedRequest,
    TranslatedRequest,
    TranslationRules,
    UntranslatableRequest,
)
from agtphost.http.bounded_request import LONGEST_BODY, BoundedRequest, field_of
from agtphost.http.client_heads import ClientHeads
from agtphost.http.clients import ClaimedSender, ClientRefused, HttpClient, HttpClients
from agtphost.http.conditional import is_unchanged
from agtphost.http.cross_origin import CrossOriginRules
from agtphost.http.event_stream import prefers_events
from agtphost.http.refusals import refuse, refuse_unproven
from agtphost.iagtp import IDispatcher
from agtphost.identity.peer import Peer
from agtphost.protocols.coroutines import drive
from agtphost.protocols.peers import call_each
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE
from agtphost.wire.events import Request, Response
from agtphost.wire.heads import PER_CALL

log = Logger()

OWN_PREFIX = "/.well-known/"
"""The prefix of the paths that the gateway answers itself."""

HOST = "agtphost"
"""The ``User-Agent`` of hosts: a gateway is for clients, not for hops between hosts."""

HTTP_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
"""Methods of HTTP that AGTP lacks."""


REQUEST_FIELDS = ("Authorization", "X-AGIS-Method", "X-AGIS-Grammar", "X-AGIS-Namespace", "traceparent", "tracestate")
"""Fields that pages of listed origins may send, in addition to the forwarded ones."""

ANSWER_FIELDS = (
    *("AGTP-Status", "Audit-ID", "Attribution-Record", "Server-ID", "Response-ID", "Agent-ID", "Owner-ID"),
    *("Task-ID", "Session-ID", "AGTP-API-Version", "AGTP-Endpoint-Warning", "Document-Signature", "Supported-Methods"),
    *("Trust-Tier", "Trust-Warning", "Verification-Path", "Cost-Estimate", "ETag", "Allow", "Location", "Link"),
    *("Retry-After", "WWW-Authenticate", "Audit-Summary"),
)
"""Fields of answers that these pages may read."""

MOST_HEADS = 256
"""Heads of all clients that gates learn of."""

LONGEST_HEAD = 1024
"""Octets of a head that gates learn of, as on an AGTP connection."""

OF_ONE_CALL = frozenset({*(name for name in FORWARDED.values() if name.lower() in PER_CALL), TRACEPARENT, TRACESTATE})
"""Fields of the requests made here that name one call."""

DispatcherCall = Callable[[BoundedRequest, HttpClient, Request], int]
"""Has an AGTP request answered in a client's name; returns ``NOT_DONE_YET``."""


class OwnDocument(Protocol):
    """
    A document at one path below ``/.well-known/``; it answers GET and HEAD.

    If it has a true ``public``, the dispatcher is asked for anonymous clients too.
    """

    def answer(self, request: BoundedRequest, client: HttpClient | None, ask: DispatcherCall) -> bytes | int:
        """
        Return the body, made by :func:`agtphost.http.bounded_request.tail_of`, or ``NOT_DONE_YET``.

        :param client: None for a client that may not call.
        :param ask: has a request answered by the dispatcher.
        """


@dataclass(frozen=True, kw_only=True)
class GatewayFacts:
    """Clients, rules and documents of the gateway; a reload replaces them."""

    clients: HttpClients
    rules: TranslationRules
    stream: bool = True
    """Whether answers are streamed to clients that ask for it."""

    own: Mapping[str, OwnDocument] = field(default_factory=dict)
    """The documents by path."""


class GatewayResource(Resource):
    """
    The HTTP resource for every path of its listener that no other surface has.

    :param facts: those at the start; :meth:`turn_to` replaces them.
    :param longest_body: of a request, in octets.
    """

    isLeaf = True

    def __init__(self, facts: GatewayFacts, dispatcher: IDispatcher, longest_body: int = LONGEST_BODY) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest_body = min(longest_body, LONGEST_BODY)
        self._dispatcher = dispatcher
        self._facts = facts
        self._heads = ClientHeads(MOST_HEADS)

    def turn_to(self, facts: GatewayFacts) -> None:
        """Apply other facts from the next request on."""
        self._facts = facts

    def admit(self, request: BoundedRequest) -> bytes | None:
        """
        Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`. A client that may not call
        sends no body.
        """
        method = request.method.decode("ascii", "replace")
        if method in translation.HTTP_ONLY_METHODS:
            said = f"The gateway does not accept {method}: it concerns HTTP, not what is called."
            return refuse(request, 405, Reason.METHOD_NOT_ALLOWED, said, ("Allow", HTTP_METHODS))
        if _is_host(field_of(request, "user-agent")):
            said = "The request comes from an AGTP host. The gateway is for HTTP clients."
            return refuse(request, 421, Reason.NOT_ENTITLED, said, remedy="Call this host over AGTP.")
        own = request.path.startswith(OWN_PREFIX.encode())
        try:
            client = self._facts.clients.identify(request)
        except ClientRefused as error:
            if own:
                return self._own(request, None)
            return refuse_unproven(request, error)
        if client.proven:
            request.channel.note_proven()
        if own:
            return self._own(request, client)
        request.admission = client
        return None

    def _own(self, request: BoundedRequest, client: HttpClient | None) -> bytes | None:
        document = self._facts.own.get(request.path.decode("ascii", "replace"))
        if document is None:
            said = "No document has this path: the gateway reserves /.well-known for its own."
            return refuse(request, 404, Reason.NOT_FOUND, said)
        if request.method not in (b"GET", b"HEAD"):
            said = "Read the gateway's own documents by GET."
            return refuse(request, 405, Reason.METHOD_NOT_ALLOWED, said, ("Allow", "GET, HEAD"))
        if client is None and getattr(document, "public", False):
            if field_of(request, "authorization") is not None:
                return refuse_unproven(request, ClientRefused("This host does not know the token."))
            client = self._facts.clients.anonymous_client(request)
        request.admission = document, client
        return None

    def cross_origin(self) -> CrossOriginRules:
        """Return what pages of listed origins may send and read."""
        fields = (*FORWARDED_CERTIFIED.values(), *self._facts.rules.forward.values())
        return CrossOriginRules(fields=dict.fromkeys((*REQUEST_FIELDS, *fields)), exposed=ANSWER_FIELDS)

    def find_claimed_sender(self, request: BoundedRequest) -> ClaimedSender | None:
        """Return the sender of a refused request: the gateway seals each refusal, as AGTP does."""
        return self._facts.clients.find_claimed_sender(request, strangers=True)

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer a request."""
        if request.admission is None:
            refusal = self.admit(request)  # A request without a body was not admitted before.
            if refusal is not None:
                return refusal
        admitted = request.admission
        if type(admitted) is tuple:
            document, client = admitted
            answered: bytes | int = document.answer(request, client, self.ask)
            return answered
        drive(self._call(request, admitted))
        return NOT_DONE_YET

    def ask(self, request: BoundedRequest, client: HttpClient, asked: Request) -> int:
        """Answer with the dispatcher's response to a request that the gateway made itself."""
        drive(self._answer_asked(request, client, asked))
        return NOT_DONE_YET

    async def _answer_asked(self, request: BoundedRequest, client: HttpClient, asked: Request) -> None:
        rules = self._facts.rules
        try:
            response = await self._dispatcher.dispatch(asked, _peer(request, client))
            self._answer(request, client, response, rules)
        except Exception:
            log.failure("a document of the gateway could not be written; its connection is cut")
            request.channel.cut()

    async def _call(self, request: BoundedRequest, client: HttpClient) -> None:
        facts, peer = self._facts, _peer(request, client)
        try:
            try:
                asked = _read(request, client, facts.rules)
            except UntranslatableRequest as fault:
                refusal = self._dispatcher.refuse(fault.reason, fault.explanation, peer, fault.line)
                self._answer(request, client, await refusal, facts.rules)
                return
            except RefusedRequest as fault:
                response = await self._dispatcher.turn_away(fault.request, fault.refusal, peer)
                self._answer(request, client, response, facts.rules)
                return
            if asked.forwarded:
                peer.forwarded = asked.forwarded
            if facts.stream and prefers_events(field_of(request, "accept")):
                await self._stream(request, client, asked, peer, facts.rules)
                return
            self._share_head(asked.request, client)
            response = await self._dispatcher.dispatch(asked.request, peer)
            self._answer(request, client, response, facts.rules)
        except Exception:
            log.failure("a request over HTTP could not be answered; its connection is cut")
            request.channel.cut()

    def _share_head(self, called: Request, client: HttpClient) -> None:
        """Give a request what it has in common with the earlier ones of its client that repeat its head."""
        fields = [each for each in called.headers.fields if each[0] not in OF_ONE_CALL]
        if len(called.line) + sum([len(value) for _, value in fields]) <= LONGEST_HEAD:
            called.headers.common = self._heads.find_common(client, (client.method, called.line, *fields))

    async def _stream(
        self, request: BoundedRequest, client: HttpClient, asked: TranslatedRequest, peer: Peer, rules: TranslationRules
    ) -> None:
        """Stream the answer from its first event on; a refusal before that is answered like any other."""
        peer.stream = True
        events = GatewayEvents(request, rules)
        response = await self._dispatcher.dispatch(asked.request, peer, events.interim)
        if not request.is_disconnected:
            request.channel.greeted = request.channel.greeted or peer.greeted
        client.note_answer(response.status, response.audit_id)
        if not events.has_begun and (response.status >= 400 or response.status in (204, 262, 304)):
            if not events.is_gone:
                self._answer(request, client, response, rules)
        else:
            events.result(response)

    def _answer(self, request: BoundedRequest, client: HttpClient, response: Response, rules: TranslationRules) -> None:
        client.note_answer(response.status, response.audit_id)
        if request.is_disconnected:
            return
        status, fields = translation.answer(response, rules)
        asked_again = status == 200 and request.method in (b"GET", b"HEAD")
        if asked_again and is_unchanged(response.headers.get("etag") or "", field_of(request, "if-none-match")):
            # The call has its record, like every call; the client has these octets already.
            request.answer(304, fields, b"")
        else:
            request.answer(status, fields, response.body)


def _read(request: BoundedRequest, client: HttpClient, rules: TranslationRules) -> TranslatedRequest:
    content = request.content
    assert content is not None, "it is complete"
    return translation.read(
        request.method.decode("ascii"),
        request.uri.decode("ascii"),
        request.requestHeaders.by_name.get,
        content.read(),
        client.headers,
        rules,
        certified=client.certificate is not None,
    )


def _peer(request: BoundedRequest, client: HttpClient) -> Peer:
    """Return the other end of a call; a client that disconnects leaves the call, as in AGTP."""
    peer = client.peer()
    peer.greeted, request.channel.greeted = request.channel.greeted, True

    def note_disconnect() -> None:
        call_each(peer.leaving)

    request.on_disconnect = note_disconnect
    return peer


def _is_host(agent: str | None) -> bool:
    return agent is not None and agent.strip().lower().partition("/")[0].partition(" ")[0] == HOST
