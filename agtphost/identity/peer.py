"""Who is at the other end of a connection, as far as the transport can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agtphost.identity.delegation import Lineage
    from agtphost.identity.keys import VerifyingKey


TLS = "tls"
"""The carrier that every host has; records and access lines name only others."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


INTERNAL = "internal"
"""The transport of calls that are made inside this host, in the course of another."""


class Assurance(IntEnum):
    """
    The ways in which a caller's identity was established, weakest first (security invariant 8).

    Every record names it, and an endpoint may demand a minimum.
    """

    NONE = 0
    """No Agent-ID at all."""

    HEADER = 1
    """The Agent-ID header alone: core v08 section 10.2, level 1. A front that asks for no proof says no more."""

    GATEWAY = 2
    """A front of this host has proven its client, by a token or by an identity provider's."""

    CERTIFICATE = 3
    """A verified client certificate whose Agent-ID equals the header's: level 3."""

    @property
    def label(self) -> str:
        """The lower-case word used in records and configuration."""
        return _LABELS[self]


_LABELS = tuple(each.name.lower() for each in Assurance)
"""By number: every record has one, and asking an enumeration for a name takes as long as signing a tenth of it."""


def state_owner(agent_id: str, assurance: Assurance) -> str:
    """
    Return the name under which state is kept for a caller: its sessions, messages, tasks, contracts, quotas ...

    Only a caller that proved to be the agent uses the agent's own name. One that merely claims it has separate state,
    under a name that no agent has.

    :return: 64 hexadecimal digits.
    """
    return agent_id if assurance is Assurance.CERTIFICATE else _separate_owner(assurance.label, agent_id)


@lru_cache(1024)
def _separate_owner(label: str, agent_id: str) -> str:
    return sha256(f"{label}:{agent_id}".encode()).hexdigest()


def trial_owner(agent_id: str) -> str:
    """Return the name under which state is kept for calls that operators make with an agent's rights: never its own."""
    return sha256(f"trial:{agent_id}".encode()).hexdigest()


def state_owners(agent_id: str) -> tuple[str, ...]:
    """
    Return every name under which state of an agent's callers is kept, one for each assurance.

    For what happens to an agent itself, such as its revocation: it concerns every caller in its name.
    """
    return tuple(state_owner(agent_id, assurance) for assurance in Assurance if assurance)


def counted_as(agent_id: str, assurance: Assurance) -> str:
    """
    Return the name under which is counted what a caller does: its requests, turns and concurrent calls.

    Every credential that proves an agent counts for that agent, so that a token beside a certificate gives it no second
    share. Whoever merely says the name counts apart, and uses up nothing of the agent's.

    :return: 64 hexadecimal digits.
    """
    return agent_id if assurance >= Assurance.GATEWAY else state_owner(agent_id, assurance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCertificate:
    """A client certificate that passed chain verification: AGTP-CERT."""

    fingerprint: str
    """SHA-256 of the 32 raw Ed25519 public-key octets, hex; empty for other key types (companion section 1)."""

    sha256: str
    """SHA-256 of the DER certificate, hex."""

    serial: str
    """The serial number, hex."""

    subject: str
    """RFC 4514 form of the subject."""

    not_before: datetime
    """UTC."""

    not_after: datetime
    """UTC; compared on every request, not at the handshake alone."""

    agent_id: str | None = None
    """``subject-agent-id``; None where the certificate has no AGTP identity."""

    principal_id: str | None = None
    """``principal-id``: the owner."""

    commitment: frozenset[str] | None = None
    """``authority-scope-commitment``; None where absent, empty where nothing is allowed."""

    governance_zone: str | None = None
    trust_tier: int | None = None
    archetype: str | None = None
    activation_certificate_id: str | None = None
    key: VerifyingKey | None = None
    """The public key that :attr:`fingerprint` is of; None for other key types. Delegation tokens are signed with it."""

    valid_from: float = field(init=False, default=0.0)
    """``not_before`` in seconds since the epoch, for the comparison on every request."""

    valid_to: float = field(init=False, default=0.0)
    """``not_after`` in the same form."""

    links: tuple[str, ...] = ()
    """
    The keys of revocation lists for it and for the intermediate certificates above it: issuer and serial number each.
    """

    authorities: tuple[str, ...] = ()
    """SHA-256, hex, of each certificate above it, the trusted one included: on whose word it counts."""

    malformed: str = ""
    """Why an AGTP extension could not be read; empty if all could. Such a peer is refused with 401."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "valid_from", self.not_before.timestamp())
        object.__setattr__(self, "valid_to", self.not_after.timestamp())


@dataclass(slots=True, kw_only=True, eq=False)
class ClientLink:
    """
    The link of a front's client; it takes the place of the connection as :attr:`Peer.link`.

    Only this host's own code makes one, so its client was authenticated.
    """

    client: str = ""
    """Which of the front's clients calls, the same after a restart; empty: the calling agent itself."""


@dataclass(slots=True, kw_only=True, eq=False)
class Withdrawable(ClientLink):
    """A call that its front may withdraw."""

    keeps: int = 0
    """Octets of its answer that the front keeps durably, at the most: they are charged with the record of the call."""

    stops: set[Callable[[], None]] = field(default_factory=set, repr=False)
    """What ends the call while it waits."""

    def add(self, stop: Callable[[], None], /) -> None:
        """Have ``stop`` called when the call is withdrawn."""
        self.stops.add(stop)

    def discard(self, stop: Callable[[], None], /) -> None:
        """Do not call ``stop`` any more."""
        self.stops.discard(stop)

    def withdraw(self) -> bool:
        """End the call if it is waiting; return whether it was."""
        stops = tuple(self.stops)
        for stop in stops:
            stop()
        return bool(stops)


class FollowUp(Protocol):
    """Further changes in the transaction of a call's record, besides those of the call itself."""

    def changes(self, status: int, reason: str, body: bytes) -> tuple[Any, ...]:
        """
        Return the state items, :class:`agtphost.audit.drafts.Change`; asked again where the answer becomes another one.

        :param body: of the answer that is about to be sealed.
        """

    def mark_durable(self) -> None:
        """Note that the changes are durable."""


@dataclass(slots=True, kw_only=True)
class Peer:
    """The other end of a connection. Only ``greeted``, ``leaving`` and ``inside`` ever change."""

    address: str
    """IP address without port, for logs and limits."""

    transport: str = "agtp"
    """``agtp``, ``http`` (a front of this host) or ``internal`` (a step or adapter inside this host)."""

    carrier: str = TLS
    """What carries ``agtp``: ``tls`` (over TCP) or ``quic``."""

    certificate: PeerCertificate | None = None
    """The verified client certificate; None where none was presented."""

    shown: PeerCertificate | None = None
    """
    With ``http``: a verified certificate without an AGTP identity, of a client that calls as an agent of the
    configuration. It gives no right; the record names the operator whose it is.
    """

    vouched: bool = False
    """Whether a front of this host has proven, by something else than a certificate, who calls."""

    http: Mapping[str, str] | None = None
    """
    For the record, of a request that came over HTTP: ``surface``, ``client``, and ``method``, or ``browser``: the
    SHA-256 of the certificate that a browser has shown.
    """

    stream: bool = False
    """With ``http``: whether interim messages are heard, as where the body's context has ``stream``."""

    forwarded: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """With ``http``: the fields that the operator lets endpoints see, by name in lower case."""

    server_name: str | None = None
    """The name the client asked for by SNI."""

    loopback: bool = False
    """Whether the address is one of this machine's loopback addresses."""

    depth: int = 0
    """Calls inside calls: 0 for a request from outside."""

    link: object = field(default_factory=object, compare=False, repr=False)
    """Identifies the connection: one object for all its requests, and for the calls that these make inside the host."""

    acting_principal: str | None = None
    """With ``internal``: on whose behalf the outer call is made."""

    delegation: Lineage | None = None
    """The delegation that calls inside this host run under; None for all others."""

    granted: str = ""
    """With ``internal``: the token of AUTHORIZE that the outer call is made under; empty where under none."""

    approved: str = ""
    """With ``internal``: the approval of the recipe that the call is a step of, which is for it too; else empty."""

    rights_of: str = ""
    """
    The Agent-ID with whose rights a call of an operator is judged (:mod:`agtphost.dispatch.trial_calls`); empty for all
    others. Only the operators' page sets it: no part of a request says so.
    """

    follow: FollowUp | None = field(default=None, repr=False, compare=False)
    """With ``internal``: what becomes true with the record of this very call, as the end of a workflow's step does."""

    greeted: bool = field(default=False)
    """Whether a response with Supported-Methods went out on this connection."""

    leaving: set[Callable[[], None]] = field(default_factory=set, repr=False, compare=False)
    """Called once the answer is not awaited any more, as when the connection is lost: work for it alone may stop."""

    parting: set[Callable[[], None]] | None = field(default=None, repr=False, compare=False)
    """Called once the connection is lost; None: as ``leaving``, where a connection has one call at a time."""

    inside: object = field(init=False, default=None, repr=False, compare=False)
    """What the dispatcher keeps of the calls that this host makes in the course of its requests; never copied."""

    recorded: Mapping[str, object] | None = field(init=False, default=None, repr=False, compare=False)
    """Members of its records that say how a call came, if not over TLS: made once for each connection."""

    def __post_init__(self) -> None:
        if self.http is not None:
            self.recorded = {"http": self.http}
        elif self.carrier != TLS:
            self.recorded = {"carrier": self.carrier}

    def is_alike(self, other: Peer) -> bool:
        """
        Return whether two peers differ in nothing but the call that they make, as two requests of a front's client.

        The link, and what is called when the client leaves, belong to a single call.
        """
        return self.http is not None and _LASTING(self) == _LASTING(other)


_LASTING = attrgetter(
    "address",
    "transport",
    "carrier",
    "certificate",
    "shown",
    "vouched",
    "http",
    "stream",
    "forwarded",
    "server_name",
    "loopback",
    "depth",
    "acting_principal",
    "delegation",
    "granted",
    "approved",
    "rights_of",
)


def client_of(peer: Peer | None) -> str:
    """Return which client of a front calls; empty where the calling agent itself does."""
    link = None if peer is None else peer.link
    return link.client if isinstance(link, ClientLink) else ""
