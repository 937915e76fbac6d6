"""
Who an HTTP client is, for every surface: by its certificate, by a token, or by an identity provider's token.

What a message says of its sender is never looked at. A certificate with an AGTP identity makes its agent the caller,
as on AGTP itself. A token of ``[[http.client]]`` makes the agent the caller that the operator gave it to: a key is an
agent, and ends with it. Whoever has another proof calls in the name of the agent that the operator chose for the
surface; a provider's token adds on whose behalf (core v08 section 8.6), and nothing else. All of these are vouched for
by this host (assurance ``gateway``); who has shown nothing is not (assurance ``header``).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from twisted.web.server import Request

from agtphost.http.exchange import field_of
from agtphost.identity.encoding import decode_padded
from agtphost.identity.peer import Assurance, Peer, PeerCertificate, Withdrawable
from agtphost.vocabulary import jsontext, scopes, trace_context
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE

Certified = Callable[[Any, str], PeerCertificate | None]
"""The verified client certificate of a connection: takes its transport and the peer's address."""

Principal = Callable[[str], str]
"""Whom a provider's token stands for, by issuer and claim; fails with ValueError for one that is not to be believed."""

Fields = tuple[tuple[str, str], ...]

_PARENT, _STATE = TRACEPARENT.encode(), TRACESTATE.encode()

LONGEST_CLAIM = 128
"""Signs of an issuer's and of a subject's name, in the record of a token that is not believed."""


@dataclass(frozen=True, kw_only=True)
class Keyholder:
    """One ``[[http.client]]``."""

    name: str
    token: str = field(repr=False)
    agent_id: str
    """Who calls with it."""

    scopes: tuple[str, ...] = ()
    """What is claimed for its calls; none: all that the agent's document grants."""

    @cached_property
    def key(self) -> str:
        """See :attr:`Client.key`."""
        return f"client:{self.name}"

    @cached_property
    def fields(self) -> Fields:
        """See :attr:`Client.fields`."""
        return _named(self.agent_id, self.scopes)


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who sent one request."""

    key: str
    """Whose tasks are whose."""

    address: str
    certificate: PeerCertificate | None = None
    fields: Fields = field(default=(), repr=False)
    """Header fields that its calls carry; none of them is the client's own word."""

    trace: Fields = ()
    """The trace that its request belongs to: the one thing it says itself, and nothing is decided by it."""

    proven: bool = True
    """Whether it has shown anything that proves who it is."""

    surface: str = "a2a"
    name: str = ""
    """As the operator calls it; empty for one who has no name."""

    method: str = ""
    """Of the HTTP request."""

    request: Any = field(default=None, repr=False, compare=False)
    """The request itself: its access line names the last record that it was answered from."""

    @property
    def assurance(self) -> Assurance:
        """How surely its calls are known to be its agent's, if nothing is wrong with what it shows."""
        if self.certificate is not None:
            return Assurance.CERTIFICATE
        return Assurance.GATEWAY if self.proven else Assurance.HEADER

    @property
    def headers(self) -> Fields:
        """Everything that its calls carry."""
        return (*self.fields, *self.trace)

    def note(self, status: object, audit_id: object) -> None:
        """What it asked was answered, and a record made of that: for the HTTP response and its access line."""
        if self.request is not None and isinstance(status, int):
            self.request.agtp_status = status
            self.request.audit_id = audit_id if isinstance(audit_id, str) else ""

    def peer(self) -> Peer:
        """The other end of one call."""
        return Peer(
            address=self.address,
            transport="http",
            certificate=self.certificate,
            vouched=self.proven and self.certificate is None,
            http={"surface": self.surface, "client": self.name, "method": self.method},
            link=Withdrawable(client=self.key),
        )


class NotAdmitted(Exception):
    """A client that may not call; the message is one sentence for it."""

    def __init__(self, message: str, reason: Reason = Reason.AGENT_UNAUTHENTICATED) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Who sent a request that is refused before anything is called, for the record."""

    peer: Peer
    fields: Fields = field(default=(), repr=False)
    """Header fields that say who it is; no credential."""

    cause: str = ""
    """What was wrong in what it showed; empty for somebody who is known."""


class Clients:
    """
    Admits the clients of one surface.

    :param surface: its name, for records.
    :param agent_id: in whose name those call who have no agent of their own; empty: they may not.
    :param claimed: what that agent claims for their calls.
    :param tokens: of clients without a name.
    :param keyholders: clients whose tokens are agents.
    :param certified: None where certificates count for nothing.
    :param principal: None where no provider's tokens are accepted.
    :param anonymous: whether who shows no credential calls in that agent's name although others have one.
    """

    def __init__(
        self,
        surface: str,
        *,
        agent_id: str = "",
        claimed: tuple[str, ...] = (),
        tokens: Sequence[str] = (),
        keyholders: Sequence[Keyholder] = (),
        certified: Certified | None = None,
        principal: Principal | None = None,
        anonymous: bool = False,
    ) -> None:
        self._surface = surface
        self._fields = _named(agent_id, claimed)
        self._vouched = bool(agent_id)
        self._anonymous = anonymous and bool(agent_id)
        self._held = bool(keyholders)
        self._known: tuple[tuple[bytes, Keyholder | None], ...] = (
            *((_digest(holder.token), holder) for holder in keyholders),
            *((_digest(token), None) for token in tokens),
        )
        self._certified = certified
        self._principal = principal
        self.guarded = bool(tokens) or bool(keyholders) or principal is not None
        self.certified = certified is not None

    def of(self, request: Request) -> Client:
        """
        Who sent a request.

        :raises NotAdmitted: nobody who may.
        """
        came = self._came(request)
        shown = field_of(request, "authorization")
        scheme, _, token = (shown or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if not token.isascii():
            raise NotAdmitted("The bearer token is not ASCII")
        certificate = self._certificate(request, came["address"])
        if certificate is not None:
            return self._agent(certificate, came, token)
        if self._anonymous and shown is None:
            return Client(key="anybody", fields=self._fields, proven=False, **came)
        if not self._vouched and not self._held:
            raise NotAdmitted("A client certificate with an AGTP identity is needed")
        if not self.guarded and not self.certified:
            return Client(key="anybody", fields=self._fields, proven=False, **came)
        return self._bearer(token, came)

    def stranger(self, request: Request) -> Client:
        """Return who sent a request as one who has shown nothing: what everybody is told is asked for in that name."""
        return Client(key="anybody", fields=(), proven=False, **self._came(request))

    def _came(self, request: Request) -> dict[str, Any]:
        """How a request came."""
        peer: object = request.getClientAddress()  # type: ignore[no-untyped-call]
        return {
            "address": str(getattr(peer, "host", self._surface)),
            "surface": self._surface,
            "request": request,
            "trace": _trace(request),
            "method": request.method.decode("ascii", "replace")[:32],
        }

    def tried(self, request: Request, *, strangers: bool = False) -> Tried | None:
        """
        Whom a request names that is refused at the door.

        :param strangers: whether a request that shows nothing is put on record too, by its address.
        :return: None for one that shows nothing, without ``strangers``.
        """
        try:
            client = self.of(request)
        except NotAdmitted as error:
            peer: object = request.getClientAddress()  # type: ignore[no-untyped-call]
            address = str(getattr(peer, "host", self._surface))
            certificate = self._certificate(request, address)
            shown = field_of(request, "authorization")
            nothing = certificate is None and shown is None
            if nothing and not strangers:
                return None
            said = {"surface": self._surface, "client": "", "method": request.method.decode("ascii", "replace")[:32]}
            named = _claimed(shown or "")
            http = {**said, "claimed": named} if named else said
            if nothing:
                cause = ""
            else:
                cause = "token-invalid" if error.reason is Reason.OAUTH_INVALID else "token-unknown"
            return Tried(peer=Peer(address=address, transport="http", certificate=certificate, http=http), cause=cause)
        if not client.proven and not strangers:
            return None
        known = tuple(each for each in client.fields if each[0] != "Authorization")
        return Tried(peer=client.peer(), fields=known)

    def _bearer(self, token: str, came: dict[str, Any]) -> Client:
        shown = _digest(token)
        # Each is looked at, whichever it is, in a time that tells nothing of it.
        found = [(digest, holder) for digest, holder in self._known if hmac.compare_digest(digest, shown)]
        if found:
            digest, holder = found[0]
            if holder is not None:
                return Client(key=holder.key, name=holder.name, fields=holder.fields, **came)
            return Client(key=digest.hex()[:32], fields=self._fields, **came)
        if self._principal is None or not token or not self._vouched:
            raise NotAdmitted("A bearer token is needed")
        credential = ("Authorization", f"Bearer {token}")
        return Client(key=self._behalf(token), fields=(*self._fields, credential), **came)

    def _certificate(self, request: Request, address: str) -> PeerCertificate | None:
        channel: Any = request.channel
        if self._certified is None or channel is None:
            return None
        found = channel.shown(self._certified, address)
        # A certificate that names no agent proves nothing here; one that cannot be read is refused by the gates.
        return found if found is not None and (found.agent_id is not None or found.malformed) else None

    def _agent(self, certificate: PeerCertificate, came: dict[str, Any], token: str) -> Client:
        key, fields = f"agent:{certificate.agent_id}", Fields()
        if token and self._principal is not None:
            key, fields = f"{key} {self._behalf(token)}", (("Authorization", f"Bearer {token}"),)
        return Client(key=key, certificate=certificate, fields=fields, **came)

    def _behalf(self, token: str) -> str:
        assert self._principal is not None, "somebody believes tokens"
        try:
            return f"principal:{sha256(self._principal(token).encode()).hexdigest()[:32]}"
        except ValueError as error:
            raise NotAdmitted(str(error), Reason.OAUTH_INVALID) from None


def _claimed(credential: str) -> str:
    """Whom a provider's token that is not believed claims to stand for: issuer and subject, bounded; else empty."""
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
    # One that stands twice is malformed; of a tracestate the parts add up.
    state = request.requestHeaders.getRawHeaders(_STATE, ())
    traceparent, tracestate = (b",".join(values).decode("ascii", "replace") for values in (given, state))
    place = trace_context.read(traceparent, tracestate)
    if place is None:
        return ()
    return ((TRACEPARENT, traceparent), *(((TRACESTATE, place.state),) if place.state else ()))


def _named(agent_id: str, claimed: tuple[str, ...]) -> Fields:
    fields = (("Agent-ID", agent_id),)
    return (*fields, ("Authority-Scope", scopes.render(claimed))) if claimed else fields


def _digest(token: str) -> bytes:
    """Of one length, so that comparing takes one time."""
    return sha256(token.encode()).digest()
