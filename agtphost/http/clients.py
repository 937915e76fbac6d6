"""
Identify HTTP clients, for every surface: by certificate, by token, or by an identity provider's token.

What a message says of its sender is ignored. A certificate with an AGTP identity makes its agent the caller, as on
AGTP. A token of ``[[http.client]]`` makes that agent the caller to which the operator gave it; the token ends with the
agent. A client with another proof calls in the name of the agent that the operator chose for the surface; a provider's
token adds on whose behalf (core v08 section 8.6), and nothing else. This host vouches for all of these (assurance
``gateway``), but not for a client without a proof (assurance ``header``).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from twisted.web.server import Request

from agtphost.errors import Refusal
from agtphost.http.bounded_request import field_of
from agtphost.identity.encoding import decode_padded
from agtphost.identity.peer import Assurance, ClientLink, Peer, PeerCertificate, Withdrawable
from agtphost.vocabulary import jsontext, scopes, trace_context
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE

CertificateFinder = Callable[[Any, str], PeerCertificate | None]
"""Returns the verified client certificate of a connection, given its transport and the peer's address."""

PrincipalCheck = Callable[[str], str]
"""Returns issuer and principal of a provider's token; raises Refusal for a token that is not trusted."""

NO_DETAILS: Mapping[str, Any] = MappingProxyType({})

Fields = tuple[tuple[str, str], ...]

_PARENT, _STATE = TRACEPARENT.encode(), TRACESTATE.encode()

CALLS_OVER_AGTP = (
    "The client certificate names no agent. An operator calls over AGTP, with agtp, or uses the page of [admin]. "
    "A person of [notify.people] does the same, with QUERY /escalations, CONFIRM and REPLY, or in the page's Inbox. "
    "An agent calls here with its own client certificate, or with Authorization: Bearer and a token of [[http.client]]."
)
"""
The remedy for a client certificate without an AGTP identity, such as an operator's or a person's.

It does not act here: browsers present it with requests that pages of other origins make.
"""

LONGEST_CLAIM = 128
"""Characters of an issuer's and a subject's name in the record of a rejected token."""


@dataclass(frozen=True, kw_only=True)
class HttpClientToken:
    """An entry of ``[[http.client]]``."""

    name: str
    token: str = field(repr=False)
    agent_id: str
    """The agent that calls with the token."""

    scopes: tuple[str, ...] = ()
    """The scopes claimed for its calls; if empty, all that the agent's document grants."""

    @cached_property
    def key(self) -> str:
        """Return the key of its tasks; see :attr:`HttpClient.key`."""
        return f"client:{self.name}"

    @cached_property
    def fields(self) -> Fields:
        """Return the header fields of its calls; see :attr:`HttpClient.fields`."""
        return _identity_fields(self.agent_id, self.scopes)


@dataclass(frozen=True, kw_only=True)
class HttpClient:
    """The sender of a request."""

    key: str
    """The owner of tasks: a client sees only tasks with its own key."""

    address: str
    certificate: PeerCertificate | None = None
    shown: PeerCertificate | None = None
    """A certificate without an AGTP identity, for the record alone."""

    fields: Fields = field(default=(), repr=False)
    """Header fields that its calls carry; the client chooses none of them."""

    trace: Fields = ()
    """The trace that its request belongs to. Only this comes from the client, and nothing is decided by it."""

    proven: bool = True
    """Whether it has proven its identity."""

    surface: str = "a2a"
    name: str = ""
    """The operator's name for it; empty if it has none."""

    method: str = ""
    """The method of the HTTP request."""

    request: Any = field(default=None, repr=False, compare=False)
    """The request itself; its access line names the last record that it was answered from."""

    @property
    def assurance(self) -> Assurance:
        """
        Return how its identity is established: by certificate, by a token that this host checks, or not at all.

        A certificate that cannot be read counts here, and is refused by the gates.
        """
        if self.certificate is not None:
            return Assurance.CERTIFICATE
        return Assurance.GATEWAY if self.proven else Assurance.HEADER

    @property
    def agent_id(self) -> str:
        """Return the Agent-ID that its calls are made with; empty if it has none."""
        if self.certificate is not None:
            return self.certificate.agent_id or ""
        return dict(self.fields).get("Agent-ID", "")

    @property
    def headers(self) -> Fields:
        """Return all header fields that its calls carry."""
        return (*self.fields, *self.trace)

    def note_answer(self, status: object, audit_id: object) -> None:
        """Note the status and the record of an answer, for the HTTP response and its access line."""
        if self.request is not None and isinstance(status, int):
            self.request.agtp_status = status
            self.request.audit_id = audit_id if isinstance(audit_id, str) else ""

    def peer(self, link: ClientLink | None = None) -> Peer:
        """
        Return the other end of a call.

        :param link: None: one by which the call can be withdrawn.
        """
        return Peer(
            address=self.address,
            transport="http",
            certificate=self.certificate,
            shown=self.shown,
            vouched=self.proven and self.certificate is None,
            http={"surface": self.surface, "client": self.name, "method": self.method},
            link=Withdrawable(client=self.key) if link is None else link,
        )


class ClientRefused(Exception):
    """
    The refusal of a client that may not call; the message is a sentence for it.

    :param details: further members of the answer.
    :param remedy: what to do; empty: send a proof.
    """

    def __init__(
        self,
        message: str,
        reason: Reason = Reason.AGENT_UNAUTHENTICATED,
        details: Mapping[str, Any] = NO_DETAILS,
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details
        self.remedy = remedy


@dataclass(frozen=True, kw_only=True)
class ClaimedSender:
    """The sender of a request that is refused before anything is called, for the record."""

    peer: Peer
    fields: Fields = field(default=(), repr=False)
    """Header fields that say who it is; no credential."""

    cause: str = ""
    """What was wrong with its proof; empty for a known client."""


class HttpClients:
    """
    The clients of one surface, and their admission.

    :param surface: its name, for records.
    :param agent_id: the agent in whose name clients without an agent call; empty: they may not.
    :param claimed: scopes that this agent claims for their calls.
    :param tokens: tokens of clients without a name.
    :param keyholders: clients whose tokens belong to agents.
    :param certified: finds certificates; None where they are not accepted.
    :param principal: checks provider's tokens; None where they are not accepted.
    :param anonymous: whether a client without any credential calls in that agent's name although others have one.
    """

    def __init__(
        self,
        surface: str,
        *,
        agent_id: str = "",
        claimed: tuple[str, ...] = (),
        tokens: Sequence[str] = (),
        keyholders: Sequence[HttpClientToken] = (),
        certified: CertificateFinder | None = None,
        principal: PrincipalCheck | None = None,
        anonymous: bool = False,
    ) -> None:
        self._surface = surface
        self._fields = _identity_fields(agent_id, claimed)
        self._vouched = bool(agent_id)
        self._anonymous = anonymous and bool(agent_id)
        self._has_tokens = bool(keyholders)
        self._known: tuple[tuple[bytes, HttpClientToken | None], ...] = (
            *((_digest(holder.token), holder) for holder in keyholders),
            *((_digest(token), None) for token in tokens),
        )
        self._certified = certified
        self._principal = principal
        self.guarded = bool(tokens) or bool(keyholders) or principal is not None
        self.certified = certified is not None

    def identify(self, request: Request) -> HttpClient:
        """
        Return the sender of a request.

        :raises ClientRefused: the sender may not call.
        """
        came = self._origin_of(request)
        shown = field_of(request, "authorization")
        scheme, _, token = (shown or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if not token.isascii():
            raise ClientRefused("The bearer token is not ASCII.")
        certificate = self._find_certificate(request, came["address"])
        # One that cannot be read is refused by the gates.
        if certificate is not None and (certificate.agent_id is not None or certificate.malformed):
            return self._agent(certificate, came, token)
        came["shown"] = certificate
        if self._anonymous and shown is None:
            return HttpClient(key="anybody", fields=self._fields, proven=False, **came)
        if not self._vouched and not self._has_tokens:
            raise _refuse("A client certificate with an AGTP identity is required.", certificate)
        if not self.guarded and not self.certified:
            return HttpClient(key="anybody", fields=self._fields, proven=False, **came)
        return self._bearer(token, came)

    def anonymous_client(self, request: Request) -> HttpClient:
        """Return the sender of a request as an anonymous client, for requests about public content."""
        return HttpClient(key="anybody", fields=(), proven=False, **self._origin_of(request))

    def _origin_of(self, request: Request) -> dict[str, Any]:
        """Return the address, surface, trace and method of a request."""
        peer: object = request.getClientAddress()  # type: ignore[no-untyped-call]
        return {
            "address": str(getattr(peer, "host", self._surface)),
            "surface": self._surface,
            "request": request,
            "trace": _trace(request),
            "method": request.method.decode("ascii", "replace")[:32],
        }

    def find_claimed_sender(self, request: Request, *, strangers: bool = False) -> ClaimedSender | None:
        """
        Return the sender that a refused request names.

        :param strangers: whether a request without a proof is recorded too, by its address.
        :return: None for a request without a proof, unless ``strangers``.
        """
        try:
            client = self.identify(request)
        except ClientRefused as error:
            peer: object = request.getClientAddress()  # type: ignore[no-untyped-call]
            address = str(getattr(peer, "host", self._surface))
            # That of an operator proves who it is as well, though only agents call here.
            certificate = self._find_certificate(request, address)
            shown = field_of(request, "authorization")
            if certificate is None and shown is None and not strangers:
                return None
            said = {"surface": self._surface, "client": "", "method": request.method.decode("ascii", "replace")[:32]}
            named = _claimed_principal(shown or "")
            http = {**said, "claimed": named} if named else said
            cause = ""
            if shown is not None:
                cause = "token-invalid" if error.reason is Reason.OAUTH_INVALID else "token-unknown"
            return ClaimedSender(
                peer=Peer(address=address, transport="http", certificate=certificate, http=http), cause=cause
            )
        if not client.proven and not strangers:
            return None
        known = tuple(each for each in client.fields if each[0] != "Authorization")
        return ClaimedSender(peer=client.peer(), fields=known)

    def _bearer(self, token: str, came: dict[str, Any]) -> HttpClient:
        shown = _digest(token)
        # Every digest is compared, so that the time reveals nothing about the tokens.
        found = [(digest, holder) for digest, holder in self._known if hmac.compare_digest(digest, shown)]
        if found:
            digest, holder = found[0]
            if holder is not None:
                return HttpClient(key=holder.key, name=holder.name, fields=holder.fields, **came)
            return HttpClient(key=digest.hex()[:32], fields=self._fields, **came)
        if self._principal is None or not token or not self._vouched:
            raise _refuse("A bearer token is required.", came["shown"])
        credential = ("Authorization", f"Bearer {token}")
        return HttpClient(key=self._principal_key(token), fields=(*self._fields, credential), **came)

    def _find_certificate(self, request: Request, address: str) -> PeerCertificate | None:
        channel: Any = request.channel
        if self._certified is None or channel is None:
            return None
        found: PeerCertificate | None = channel.find_certificate(self._certified, address)
        return found

    def _agent(self, certificate: PeerCertificate, came: dict[str, Any], token: str) -> HttpClient:
        key, fields = f"agent:{certificate.agent_id}", Fields()
        if token and self._principal is not None:
            key, fields = f"{key} {self._principal_key(token)}", (("Authorization", f"Bearer {token}"),)
        return HttpClient(key=key, certificate=certificate, fields=fields, **came)

    def _principal_key(self, token: str) -> str:
        assert self._principal is not None, "provider's tokens are accepted"
        try:
            return f"principal:{sha256(self._principal(token).encode()).hexdigest()[:32]}"
        except Refusal as refusal:
            raise ClientRefused(refusal.explanation, Reason.OAUTH_INVALID, refusal.details) from None


def _refuse(message: str, certificate: PeerCertificate | None) -> ClientRefused:
    """Return the refusal of a client that no agent is known for; a certificate that it presented names none."""
    return ClientRefused(message, remedy="" if certificate is None else CALLS_OVER_AGTP)


def _claimed_principal(credential: str) -> str:
    """Return issuer and subject that a rejected provider's token claims, bounded; empty for any other credential."""
    parts = credential.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = jsontext.decode(decode_padded(parts[1]))
    except ValueError:
        return ""
    told = [claims.get(name) for name in ("iss", "sub")] if isinstance(claims, dict) else []
    said = " ".join(each[:LONGEST_CLAIM] for each in told if isinstance(each, str))
    return said if said.isascii() and said.isprintable() else ""


def _trace(request: Request) -> Fields:
    given = request.requestHeaders.getRawHeaders(_PARENT)
    if given is None:
        return ()
    # A repeated traceparent is malformed; the parts of a tracestate are joined.
    state = request.requestHeaders.getRawHeaders(_STATE, ())
    traceparent, tracestate = (b",".join(values).decode("ascii", "replace") for values in (given, state))
    place = trace_context.read(traceparent, tracestate)
    if place is None:
        return ()
    return ((TRACEPARENT, traceparent), *(((TRACESTATE, place.state),) if place.state else ()))


def _identity_fields(agent_id: str, claimed: tuple[str, ...]) -> Fields:
    fields = (("Agent-ID", agent_id),)
    return (*fields, ("Authority-Scope", scopes.render(claimed))) if claimed else fields


def _digest(token: str) -> bytes:
    """Return a digest of fixed length, so that comparisons take the same time."""
    return sha256(token.encode()).digest()
