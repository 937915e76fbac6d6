"""
Who an A2A client is: by its certificate, by a token that the operator gave it, or by an identity provider's token.

What a message says of its sender is never looked at. A certificate with an AGTP identity makes its agent the caller,
as on AGTP itself. Every other client calls in the name of the agent that the operator chose, vouched for by this front
(assurance ``gateway``); a provider's token adds on whose behalf (core v08 section 8.6), and nothing else.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from twisted.web.server import Request

from agtphost.http.exchange import field_of
from agtphost.identity.peer import Peer, PeerCertificate, Withdrawable
from agtphost.vocabulary import scopes, trace_context
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE

Certified = Callable[[Any, str], PeerCertificate | None]
"""The verified client certificate of a connection: takes its transport and the peer's address."""

Principal = Callable[[str], str]
"""Whom a provider's token stands for, by issuer and claim; fails with ValueError for one that is not to be believed."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client, proven."""

    key: str
    """Whose tasks are whose."""

    address: str
    certificate: PeerCertificate | None = None
    fields: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Header fields that its calls carry; none of them is the client's own word."""

    trace: tuple[tuple[str, str], ...] = ()
    """The trace that its request belongs to: the one thing it says itself, and nothing is decided by it."""

    proven: bool = True
    """Whether it has shown anything that proves who it is."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Everything that its calls carry."""
        return (*self.fields, *self.trace)

    def peer(self) -> Peer:
        """The other end of one call."""
        return Peer(
            address=self.address,
            transport="gateway" if self.certificate is None else "a2a",
            certificate=self.certificate,
            link=Withdrawable(client=self.key),
        )


class NotAdmitted(Exception):
    """A client that may not call; the message is one sentence for it."""


class Clients:
    """
    Admits clients.

    :param agent_id: in whose name those without a certificate call; empty: they may not.
    :param claimed: what that agent claims for their calls.
    :param tokens: of admitted clients.
    :param certified: None where certificates count for nothing.
    :param principal: None where no provider's tokens are accepted.
    """

    def __init__(
        self,
        agent_id: str,
        claimed: tuple[str, ...],
        tokens: tuple[str, ...],
        certified: Certified | None,
        principal: Principal | None,
    ) -> None:
        fields = (("Agent-ID", agent_id),)
        self._fields = (*fields, ("Authority-Scope", scopes.render(claimed))) if claimed else fields
        self._vouched = bool(agent_id)
        self._tokens = tuple(token.encode() for token in tokens)
        self._certified = certified
        self._principal = principal
        self.guarded = bool(tokens) or principal is not None
        self.certified = certified is not None

    def of(self, request: Request) -> Client:
        """
        Who sent a request.

        :raises NotAdmitted: nobody who may.
        """
        client = self._proven(request)
        # One that stands twice is malformed; of a tracestate the parts add up.
        values = (request.requestHeaders.getRawHeaders(name) for name in (TRACEPARENT, TRACESTATE))
        traceparent, tracestate = (None if each is None else ",".join(each) for each in values)
        place = trace_context.read(traceparent, tracestate)
        if place is None or traceparent is None:
            return client
        state = ((TRACESTATE, place.state),) if place.state else ()
        return replace(client, trace=((TRACEPARENT, traceparent), *state))

    def _proven(self, request: Request) -> Client:
        peer: object = request.getClientAddress()  # type: ignore[no-untyped-call]
        address = str(getattr(peer, "host", "a2a-front"))
        scheme, _, token = (field_of(request, "authorization") or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if not token.isascii():
            raise NotAdmitted("The bearer token is not ASCII")
        certificate = self._certificate(request, address)
        if certificate is not None:
            return self._agent(certificate, address, token)
        if not self._vouched:
            raise NotAdmitted("A client certificate with an AGTP identity is needed")
        if not self.guarded and not self.certified:
            return Client(key="anybody", address=address, fields=self._fields, proven=False)
        known = [mine for mine in self._tokens if hmac.compare_digest(mine, token.encode())]
        if known:
            return Client(key=sha256(known[0]).hexdigest()[:32], address=address, fields=self._fields)
        if self._principal is None or not token:
            raise NotAdmitted("A bearer token is needed")
        credential = ("Authorization", f"Bearer {token}")
        return Client(key=self._behalf(token), address=address, fields=(*self._fields, credential))

    def _certificate(self, request: Request, address: str) -> PeerCertificate | None:
        if self._certified is None or request.channel is None:
            return None
        found = self._certified(request.channel.transport, address)
        # A certificate that names no agent proves nothing here; one that cannot be read is refused by the gates.
        return found if found is not None and (found.agent_id is not None or found.malformed) else None

    def _agent(self, certificate: PeerCertificate, address: str, token: str) -> Client:
        key, fields = f"agent:{certificate.agent_id}", ()
        if token and self._principal is not None:
            key, fields = f"{key} {self._behalf(token)}", (("Authorization", f"Bearer {token}"),)  # type: ignore[assignment]
        return Client(key=key, address=address, certificate=certificate, fields=fields)

    def _behalf(self, token: str) -> str:
        assert self._principal is not None, "somebody believes tokens"
        try:
            return f"principal:{sha256(self._principal(token).encode()).hexdigest()[:32]}"
        except ValueError as error:
            raise NotAdmitted(str(error)) from None
