"""Read the vital signs of a host, :class:`agtphost.vocabulary.vitals.Vitals`, for metrics, readiness and INSPECT."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agtphost import __version__
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.release import OPEN
from agtphost.dispatch.sessions import ESCALATION
from agtphost.host.core import Core
from agtphost.host.drain_delay import DrainDelay
from agtphost.host.expiry_watch import ExpiryWatch
from agtphost.host.registry import VITALS
from agtphost.host.services import HostServices
from agtphost.host.start_files import describe_untaken
from agtphost.host.upstreams import Upstreams
from agtphost.methods.inspection.operator_targets import Overseen
from agtphost.protocols import ListeningService
from agtphost.stores.settings import locate_store
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary.quotas import APPROVAL
from agtphost.vocabulary.vitals import ExpiryVital, QuicVital, UpstreamVital, Vitals, VitalsReader, obstacles

if TYPE_CHECKING:
    from agtphost.protocols.quic.datagrams import QuicEndpoint
    from agtphost.protocols.quic.listener import QuicListeningService

STATES = tuple(state.value for state in UpstreamState)

REPORTED = (
    *("uptime", "serving", "waiting", "connections", "listening", "healthy", "low", "records", "checkpoint_age"),
    *("certificate_ends", "revocation_ends", "free_octets", "recent_calls", "recent_refusals"),
)
"""Members of :class:`agtphost.vocabulary.vitals.Vitals` that INSPECT reports unchanged."""

QUIC_REPORTED = ("port", "connections", "streams")
"""Members of :class:`agtphost.vocabulary.vitals.QuicVital` that INSPECT reports."""


class PendingApprovals:
    """A count of the calls that wait for a person, without a scan of all earlier approvals."""

    def __init__(self, held: StateTable, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}
        held.watch(APPROVAL, self._note_approval)

    def _note_approval(self, key: str, item: StateItem | None) -> None:
        if item is not None and item.brief["status"] == OPEN:
            self._until[key] = float(item.brief["until"])
        else:
            self._until.pop(key, None)

    def count(self) -> int:
        """Return the number of approvals that are open and have not expired."""
        now = self._now()
        return sum(1 for until in self._until.values() if until > now)


def vitals_reader(
    on: HostServices,
    core: Callable[[], Core],
    listening: ListeningService,
    ending: ExpiryWatch,
    draining: DrainDelay,
    quic: QuicListeningService | None = None,
) -> VitalsReader:
    """
    Return a function that reads the host's vital signs; it costs little except one call to the file system.

    Features, which were built before, read with it from now on.

    :param core: returns what answers requests at present.
    :param ending: has the expiry dates.
    :param draining: knows whether the host got SIGTERM.
    :param quic: listens for QUIC.
    """
    evidence, tls, running = on.evidence, on.loaded.tls, on.lasting.running
    approvals = PendingApprovals(evidence.held, on.seconds)
    began = on.seconds()

    def read_vitals() -> Vitals:
        present, now = core(), on.seconds()
        tracer = present.features.tracer
        calls, refused = on.lasting.traffic.last_minute()
        until = tls.revocations.revoked.until
        return Vitals(
            serving=listening.calls,
            waiting=len(running),
            connections=listening.connections,
            listening=listening.address is not None,
            stopping=draining.began,
            healthy=evidence.takes_calls(),
            low=evidence.ledger.low,
            records=evidence.tree.records,
            checkpoint_age=evidence.tree.checkpoint_age(),
            witness_ages=present.features.witness_ages(),
            open_items={APPROVAL: approvals.count(), ESCALATION: evidence.held.open(ESCALATION)},
            certificate_ends=tls.until - now,
            expiries=tuple(
                ExpiryVital(
                    kind=each.kind, name=each.name, ends=each.ends, soon=each.is_soon(now), sentence=each.describe(now)
                )
                for each in ending.upcoming
            ),
            revocation_ends=None if math.isinf(until) else until - now,
            free_octets=_free_octets(on),
            uptime=max(now - began, 0.0),
            recent_calls=calls,
            recent_refusals=refused,
            quic=None if quic is None else read_quic(quic.endpoint, quic.port),
            spans_lost=None if tracer is None else tracer.lost_spans,
            upstreams=tuple(_upstreams(present.connected)),
            states=STATES,
        )

    on.lasting.host.read_vitals_with(read_vitals)
    return read_vitals


def register_vitals(on: HostServices, look: VitalsReader) -> None:
    """Register INSPECT ``target=vitals``, for the page and for ``agtp status``."""
    config, states = on.config, on.evidence.states

    def render_vitals() -> Mapping[str, Any]:
        seen = look()
        known = Counter(states.state_of(agent).status.value for agent in on.loaded.directory.list_known())
        return {
            "version": __version__,
            "server_id": config.host.server_id,
            **{name: getattr(seen, name) for name in REPORTED},
            "free_space_floor": config.store.free_space_floor,
            "agents": dict(known),
            "expiring": [each.sentence for each in seen.expiries if each.soon],
            "untaken": describe_untaken(on.loaded.untaken, on.loaded.left_out, on.loaded.emptied),
            "upstreams": [asdict(each) for each in seen.upstreams],
            "witness_ages": dict(seen.witness_ages),
            "open_items": dict(seen.open_items),
            **({} if seen.quic is None else {"quic": {name: getattr(seen.quic, name) for name in QUIC_REPORTED}}),
            "obstacles": [{"what": each.what, "why": each.why} for each in obstacles(seen)],
        }

    said = "Only operators may see the host's health."
    on.registry.add_targets({VITALS: Overseen(render_vitals, on.authorization, said).read})


def read_quic(endpoint: QuicEndpoint, port: int | None) -> QuicVital:
    """Return the state of a QUIC port, and its counts."""
    counts = endpoint.counts
    return QuicVital(
        port=port,
        connections=endpoint.count_admitted(),
        streams=endpoint.streams,
        handshakes=dict(counts.handshakes),
        dropped=dict(counts.dropped),
        retries=counts.retries,
        lost=endpoint.packets_lost,
        moves=counts.moves,
    )


def _free_octets(on: HostServices) -> int | None:
    try:
        return locate_store(on.config.store).free_space()
    except OSError:
        return None


def _upstreams(connected: Upstreams) -> Iterator[UpstreamVital]:
    for service in connected.services:
        seen = service.snapshot()
        yield UpstreamVital(
            protocol=str(service.name).partition(".")[0],
            name=seen.name,
            state=seen.state,
            restarts=seen.restarts,
            eager=service.settings.start == "eager",
            reason=seen.reason or "",
            next_attempt_in=seen.next_attempt_in,
        )
