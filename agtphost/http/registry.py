"""
Serve the registry over HTTP (HAIDIP): cards, search, registration and calls.

This module only translates: each request becomes one request to the dispatcher, made in the name that the client has
proven, and its answer becomes the response. A client without a proof calls anonymously, and sees what is public.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from agtphost.http import registry_calls as calls
from agtphost.http import registry_errors as errors
from agtphost.http.bounded_request import LONGEST_BODY, BoundedRequest, field_of, host_of, tail_of
from agtphost.http.clients import CertificateFinder, ClaimedSender, ClientRefused, HttpClient, HttpClients
from agtphost.http.event_stream import EventWriter, prefers_events
from agtphost.http.refusals import refuse, refuse_unproven
from agtphost.http.registry_calls import RegistryAnswer, RegistryCall
from agtphost.http.registry_document import document
from agtphost.http.registry_routes import CARD, DOCUMENT, InvalidRegistryRequest, RegistryRoute, routes_of
from agtphost.http.status import FIELD
from agtphost.iagtp import IDispatcher
from agtphost.protocols.coroutines import drive
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import phrase_of
from agtphost.wire.events import Response

log = Logger()

READ_FIELDS = (
    *("Accept", "If-None-Match", "If-Modified-Since", "If-Match"),
    *calls.FORWARDED,
)
"""Header fields of a request that are read."""

_READ_NAMES = {name.lower().encode("ascii"): name for name in READ_FIELDS}

SEND_JSON = "Send Content-Type: application/json."
SEE_DOCUMENT = "GET /openapi.json below the registry's path tells every path, verb and member."

PROFILE = "profile=haidip"
"""The ``Accept`` parameter that asks for the card of HAIDIP instead of A2A's."""


@dataclass(frozen=True, kw_only=True)
class RegistryFacts:
    """Address and clients of the registry; a reload replaces them."""

    path: str
    """The prefix of ``/agents``; empty, or without a slash at its end."""

    url: str
    """The URL of that prefix for clients; empty: the address that the client called."""

    clients: HttpClients
    """Admits clients."""

    certified: CertificateFinder | None = None
    """Returns the client certificate of a connection; None where none is asked for."""

    agent: str = ""
    """The id of the card at :data:`CARD`; empty for none."""

    title: str = ""
    """The host's name, for the OpenAPI document."""


@dataclass(frozen=True, slots=True)
class _AdmittedRegistryRequest:
    """The result of reading a request's head."""

    route: RegistryRoute | None
    """The route of the request; None for the registry's own document."""

    client: HttpClient | None


class RegistryResource(Resource):
    """The HTTP resource of the registry, below one path, and of the card of one agent."""

    isLeaf = True

    longest_body = LONGEST_BODY

    def __init__(self, facts: RegistryFacts, dispatcher: IDispatcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dispatcher = dispatcher
        self.turn_to(facts)

    def turn_to(self, facts: RegistryFacts) -> None:
        """Apply other facts from the next request on."""
        self._facts = facts

    def base(self, request: Request) -> str:
        """Return the URL of the registry, as the client reaches it."""
        if self._facts.url:
            return self._facts.url
        # The requested host name belongs to this host: others were refused.
        name = field_of(request, "host")
        scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
        return f"{f'{scheme}://{name}' if name else host_of(request)}{self._facts.path}"

    def admit(self, request: BoundedRequest) -> bytes | None:
        """
        Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`. A client that may not call
        sends no body.
        """
        path = request.path.decode("ascii", "replace")
        below = path.removeprefix(self._facts.path)
        if path == CARD:
            routes: Mapping[str, RegistryRoute] | None = self._card()
        elif below in (DOCUMENT, "", "/"):
            # Catalogs of APIs name the base URL, so it leads to the registry's own document.
            routes = {}
        else:
            routes = routes_of(below) if path.startswith(self._facts.path) else None
        if routes is None:
            return refuse(
                request,
                404,
                Reason.NOT_FOUND,
                "There is nothing at this path.",
                remedy=f"Try {self._facts.path}/agents.",
            )
        verb = request.method.decode("ascii", "replace")
        route = routes.get("GET" if verb == "HEAD" else verb)
        if route is None and (routes or verb not in ("GET", "HEAD")):
            return _not_allowed(request, routes or {"GET": None})
        if route is None:
            request.admission = _AdmittedRegistryRequest(None, None)
            return None
        if route.takes and not _accepts_type(request, route):
            said = "Send the body as application/json."
            return refuse(
                request, 415, Reason.UNSUPPORTED_MEDIA_TYPE, said, ("Accept", "application/json"), remedy=SEND_JSON
            )
        try:
            client = self._client(request)
        except ClientRefused as error:
            return refuse_unproven(request, error)
        if client.proven:
            request.channel.note_proven()
        request.admission = _AdmittedRegistryRequest(route, client)
        return None

    def _card(self) -> Mapping[str, RegistryRoute] | None:
        if not self._facts.agent:
            return None
        return _only_read(f"/agents/{self._facts.agent}")

    def _client(self, request: BoundedRequest) -> HttpClient:
        """
        Return the sender of a request, an anonymous one if it has no credential.

        :raises ClientRefused: its credential proves nothing.
        """
        try:
            return self._facts.clients.identify(request)
        except ClientRefused as error:
            if field_of(request, "authorization") is not None:
                # Here an operator's certificate is enough.
                error.remedy = "Leave Authorization out: the client certificate is enough." if error.remedy else ""
                raise
        at: object = request.getClientAddress()  # type: ignore[no-untyped-call]
        address = str(getattr(at, "host", "registry"))
        # Operators are known by their key and are not agents.
        reads = self._facts.certified
        certificate = (
            None if reads is None or request.channel is None else request.channel.find_certificate(reads, address)
        )
        return HttpClient(
            key="anybody" if certificate is None else f"key:{certificate.sha256}",
            address=address,
            certificate=certificate,
            proven=certificate is not None,
            surface="registry",
            method=request.method.decode("ascii", "replace")[:32],
            request=request,
        )

    refusal_form = staticmethod(errors.refusal_form)

    def find_claimed_sender(self, request: BoundedRequest) -> ClaimedSender | None:
        """Return the sender that a refused request names."""
        return self._facts.clients.find_claimed_sender(request)

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer a request."""
        if request.admission is None:
            refusal = self.admit(request)
            if refusal is not None:
                return refusal
        admitted: _AdmittedRegistryRequest = request.admission
        if admitted.route is None or admitted.client is None:
            octets = jsontext.encode(document(self.base(request), self._facts.title))
            return tail_of(request, 200, octets, kind=media_types.JSON, cache="max-age=300")
        said = _read_fields(request)
        wanted = admitted.route.method == "EXECUTE" and prefers_events(said.get("Accept"))
        body = request.content.read() if request.content is not None else b""
        query = request.uri.partition(b"?")[2]
        route, client = admitted.route, admitted.client
        try:
            asked = calls.read(route, query, body, client.headers, said, stream=wanted)
        except InvalidRegistryRequest as error:
            details = {"parameter": error.field} if error.field else {}
            return refuse(request, 400, Reason.INVALID_INPUT, str(error), remedy=SEE_DOCUMENT, details=details)
        answering = self._stream if asked.stream else self._answer
        drive(_log_failure_of(answering(request, route, client, asked, said)))
        return NOT_DONE_YET

    async def _answer(
        self,
        request: BoundedRequest,
        route: RegistryRoute,
        client: HttpClient,
        asked: RegistryCall,
        said: Mapping[str, str],
    ) -> None:
        response = await self._dispatcher.dispatch(asked.request, client.peer())
        client.note_answer(response.status, response.audit_id)
        if not request.is_disconnected:
            _finish(request, response, calls.answer(route, response, self.base(request), said, batch=asked.batch))

    async def _stream(
        self,
        request: BoundedRequest,
        route: RegistryRoute,
        client: HttpClient,
        asked: RegistryCall,
        said: Mapping[str, str],
    ) -> None:
        """Stream events from the first interim message on; a call that fails before any is answered like any other."""
        writer = EventWriter(request)
        response = await self._dispatcher.dispatch(asked.request, client.peer(), _event_writer(writer))
        client.note_answer(response.status, response.audit_id)
        if writer.is_gone:
            return
        if not writer.has_begun and not errors.is_success(response):
            _finish(request, response, calls.answer(route, response, self.base(request), said))
            return
        writer.begin()
        if errors.is_success(response):
            writer.write(_event("result", response, calls.result_of(response)))
        else:
            writer.write(_event("error", response, errors.fault_of(response).document))
        writer.finish()


async def _log_failure_of(answering: Awaitable[None]) -> None:
    """Log the failure of an answer, since no caller waits for it."""
    try:
        await answering
    except Exception:
        log.failure("a client of the registry cannot be answered")


def _read_fields(request: BoundedRequest) -> dict[str, str]:
    """Return the header fields that are read, in one pass over those that were sent."""
    found = {}
    for name, values in request.requestHeaders.getAllRawHeaders():
        known = _READ_NAMES.get(name.lower())
        if known is not None:
            found[known] = values[-1].decode("ascii", "replace")
    return found


def _only_read(path: str) -> Mapping[str, RegistryRoute]:
    found = routes_of(path)
    assert found is not None, "it is the path of a card"
    return {"GET": found["GET"]}


def _accepts_type(request: BoundedRequest, route: RegistryRoute) -> bool:
    """Return whether the body's type is accepted: only JSON is. An optional body may be empty and without a type."""
    given = field_of(request, "content-type")
    if given is None:
        return route.takes == "maybe" and not field_of(request, "transfer-encoding")
    kind = media_types.essence(given)
    return kind == media_types.JSON or (route.method == "REGISTER" and kind == calls.CARD_TYPE)


def _event_writer(writer: EventWriter) -> Callable[[Response], None]:
    def tell(response: Response) -> None:
        result = calls.result_of(response)
        event = result.get("event") if isinstance(result, dict) else result
        writer.write(_event("", response, event))

    return tell


def _event(kind: str, response: Response, value: Any) -> bytes:
    """Return a server-sent event; its id is the Audit-ID of its record."""
    audit_id = response.audit_id
    head = (f"event: {kind}\n" if kind else "") + (f"id: {audit_id}\n" if audit_id else "")
    return head.encode("ascii") + b"data: " + jsontext.encode(value) + b"\n\n"


def _finish(request: BoundedRequest, response: Response, answer: RegistryAnswer) -> None:
    cache = "no-cache" if any(name == "ETag" for name, _ in answer.fields) else "no-store"
    status = f"{response.status} {response.text or phrase_of(response.status)}"
    own = (("Content-Type", answer.kind), ("Cache-Control", cache), (FIELD, status))
    request.answer(answer.status, (*own, *answer.fields), answer.octets)


def _not_allowed(request: BoundedRequest, routes: Mapping[str, object]) -> bytes:
    allowed = [each for verb in routes for each in ((verb, "HEAD") if verb == "GET" else (verb,))]
    said = f"Send a {' or a '.join(routes)}."
    return refuse(request, 405, Reason.METHOD_NOT_ALLOWED, said, ("Allow", ", ".join(allowed)), remedy=SEE_DOCUMENT)


def asks_for_haidip(request: Request) -> bool:
    """Return whether a request for an agent's card asks for HAIDIP's."""
    accepted = (field_of(request, "accept") or "").lower().replace(" ", "").replace('"', "")
    return PROFILE in accepted
