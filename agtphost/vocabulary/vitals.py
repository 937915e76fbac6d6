"""Define the vital signs of a host, and what of them keeps the host from being ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

READY_STATES = frozenset({"up", "idle"})
"""States in which an upstream takes calls: see :class:`agtphost.upstream.supervision.UpstreamState`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamVital:
    """The state of an upstream."""

    protocol: str
    """The protocol: ``mcp``, ``a2a`` or ``acp``."""

    name: str
    state: str
    restarts: int
    eager: bool
    """Whether it starts with the host, which is ready only once it is up."""

    reason: str = ""
    """Why it is not up, if known."""

    next_attempt_in: float | None = None
    """Seconds until the next attempt; None if none is planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryVital:
    """An item with an expiry date."""

    kind: str
    """The kind: ``agent-certificate``, ``authority``, ``revocation-list``, ``grant`` and others."""

    name: str
    """The operator's name for the item or its owner."""

    ends: float
    """Seconds since the Unix epoch."""

    soon: bool
    """Whether it is close enough for a warning."""

    sentence: str
    """A sentence for operators, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicVital:
    """The state of a QUIC listener, and its counts since the start."""

    port: int | None
    """The UDP port; None while it is not bound."""

    connections: int
    """Connections that are counted for their clients' addresses; part of :attr:`Vitals.connections`."""

    streams: int
    """Requests that are not over."""

    handshakes: Mapping[str, int]
    """By outcome, counted when it is over: ``done``, ``refused``, ``late``, ``limit``, ``ending`` or ``broken``."""

    dropped: Mapping[str, int]
    """Datagrams that were not answered, by reason."""

    retries: int
    lost: int
    """Packets to clients that were lost."""

    moves: int
    """Changes of clients' addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """
    The readings of a host at one moment. Ages and remaining times are in seconds; None means there is nothing to
    measure.
    """

    serving: int
    """Requests in dispatch that came over AGTP."""

    waiting: int
    """Calls whose handler waits for something, with those that other calls made."""

    connections: int
    listening: bool
    stopping: bool
    """Whether the host got SIGTERM, and still accepts."""

    healthy: bool
    """Whether the ledger takes records."""

    low: bool
    """Whether the ledger takes only vital records because its disk is nearly full."""

    records: int
    """Records in the store."""

    checkpoint_age: float | None
    """How long the oldest record without a checkpoint has been waiting; None without records."""

    witness_ages: Mapping[str, float]
    """How long a checkpoint has been waiting for each witness."""

    open_items: Mapping[str, int]
    """State items that wait for a decision, by kind."""

    certificate_ends: float
    """Time until the first of the host's own certificates expires."""

    expiries: Sequence[ExpiryVital] = ()
    """What expires first, soonest first: certificates, authorities, revocation lists and grants."""

    revocation_ends: float | None
    """Time until the first revocation list is out of date."""

    free_octets: int | None
    """Free octets on the store's disk; None if unknown."""

    uptime: float = 0.0
    """Seconds since the host was assembled."""

    recent_calls: int = 0
    """Answered calls of the last minute."""

    recent_refusals: int = 0
    """Refused calls of the last minute."""

    spans_lost: Mapping[str, int] | None = None
    """Spans that no collector has, ``dropped`` for lack of room or ``undelivered``; None without traces."""

    quic: QuicVital | None = None
    """None where the host does not listen for QUIC."""

    upstreams: Sequence[UpstreamVital] = ()
    states: Sequence[str] = field(default=())
    """Every state that an upstream can have."""


VitalsReader = Callable[[], Vitals]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A condition that keeps a host from being ready."""

    what: str
    """The part: ``ledger``, ``host``, ``listener`` or ``upstream``."""

    why: str
    """A sentence for people, which names only what the operator named."""


def obstacles(seen: Vitals) -> Iterator[Obstacle]:
    """Yield the reasons why a host should get no calls now; none if it is ready."""
    if seen.low:
        yield Obstacle(what="ledger", why="the disk is nearly full: only vital records are stored")
    elif not seen.healthy:
        yield Obstacle(what="ledger", why="the store takes no records")
    if seen.stopping:
        yield Obstacle(what="host", why="it is stopping")
    if not seen.listening:
        yield Obstacle(what="listener", why="the AGTP port does not accept")
    for upstream in seen.upstreams:
        if upstream.eager and upstream.state not in READY_STATES:
            yield Obstacle(what="upstream", why=f"{upstream.protocol}.{upstream.name} is {upstream.state}")
