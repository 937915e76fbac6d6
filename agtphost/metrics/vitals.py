"""What is asked of the parts of a host when somebody looks, and what of it keeps the host from being ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

READY = frozenset({"up", "idle"})
"""States in which an upstream takes calls: see :class:`agtphost.upstream.supervision.State`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamVital:
    """One upstream."""

    protocol: str
    """``mcp``, ``a2a`` or ``acp``."""

    name: str
    state: str
    restarts: int
    eager: bool
    """Whether it is started with the host, which is ready only once it is up."""

    reason: str = ""
    """Why it is not up, where that is known."""

    next_attempt_in: float | None = None
    """Seconds until it is tried again; None where no time is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """One thing that ends."""

    kind: str
    """``agent-certificate``, ``authority``, ``revocation-list``, ``grant`` ..."""

    name: str
    """Whose it is, or what it is called: the operator's word."""

    ends: float
    """Seconds since the Unix epoch."""

    soon: bool
    """Whether that is told."""

    told: str
    """A sentence for operators, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """A host at one moment. Ages and ends are seconds from then; None is what there is none of."""

    serving: int
    """Requests in dispatch that came over AGTP."""

    waiting: int
    """Calls whose handler waits for something, those that other calls made included."""

    connections: int
    listening: bool
    healthy: bool
    """Whether the ledger takes records."""

    low: bool
    """Whether it takes what is vital alone, because its disk is nearly full."""

    records: int
    """In the store."""

    checkpoint_age: float | None
    """For how long a record waits that no checkpoint covers; None where there are no records."""

    witness_ages: Mapping[str, float]
    """For how long a checkpoint waits for each witness."""

    open_items: Mapping[str, int]
    """State items that wait for somebody, by kind."""

    certificate_ends: float
    """Of the host's own certificates the first."""

    expiries: Sequence[Expiry] = ()
    """What ends first, soonest first: certificates, authorities, revocation lists and grants."""

    revocation_ends: float | None
    """Of the revocation lists the first."""

    free_octets: int | None
    """On the store's disk; None where that cannot be told."""

    uptime: float = 0.0
    """Seconds since the host was put together."""

    recent_calls: int = 0
    """Calls of the last minute that were answered."""

    recent_refusals: int = 0
    """Those of them that were refused."""

    spans_lost: Mapping[str, int] | None = None
    """Spans that no collector has so far, ``dropped`` for want of room or ``undelivered``; None without traces."""

    upstreams: Sequence[UpstreamVital] = ()
    states: Sequence[str] = field(default=())
    """Every state that an upstream can be in."""


Look = Callable[[], Vitals]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps a host from being ready."""

    what: str
    """``ledger``, ``listener`` or ``upstream``."""

    why: str
    """For people; it names what the operator named, and nobody else."""


def obstacles(seen: Vitals) -> Iterator[Obstacle]:
    """Why a host should get no calls now; nothing where it is ready."""
    if seen.low:
        yield Obstacle(what="ledger", why="the disk is nearly full: only what is vital is recorded")
    elif not seen.healthy:
        yield Obstacle(what="ledger", why="the store takes no records")
    if not seen.listening:
        yield Obstacle(what="listener", why="the AGTP port does not accept")
    for upstream in seen.upstreams:
        if upstream.eager and upstream.state not in READY:
            yield Obstacle(what="upstream", why=f"{upstream.protocol}.{upstream.name} is {upstream.state}")
