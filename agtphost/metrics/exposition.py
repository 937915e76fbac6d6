"""
Expose counts and vitals in the text format of Prometheus, by its official library.

Names and units follow its conventions: seconds, octets (which it calls bytes), ``_total`` for counters.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator
from typing import Any

from agtphost import __version__
from agtphost.metrics.call_counts import CallCounts, Histogram
from agtphost.vocabulary.vitals import QuicVital, Vitals, VitalsReader, obstacles

DAY = 86_400.0


class HostCollector:
    """
    The collector that the library calls at each scrape; see ``prometheus_client.registry.Collector``.

    :param look: reads the present vitals.
    """

    def __init__(self, counts: CallCounts, look: VitalsReader) -> None:
        self._counts = counts
        self._look = look

    def collect(self) -> Iterator[Any]:
        """Yield every metric family."""
        seen = self._look()
        yield from self._call_families(seen)
        yield from self._evidence_families(seen)
        yield from self._upstream_families(seen)
        yield from self._other_families(seen)

    def _call_families(self, seen: Vitals) -> Iterator[Any]:
        counts = self._counts
        calls = ((*map(str, labels), count) for *labels, count in counts.calls())
        text = "Calls that were answered, calls inside calls included."
        yield _counter("agtphost_calls", text, ("method", "status", "reason"), calls)
        yield _histograms(
            "agtphost_call_seconds",
            "From a call's arrival until its answer was on record.",
            [((("method", method),), found) for method, found in counts.latencies.items()],
        )
        called = ((*names, count) for names, count in counts.called.items())
        text = "The same by what was called: a tool, or method and path template."
        yield _counter("agtphost_called", text, ("called", "outcome"), called)
        missing = ((*names, count) for names, count in counts.missing.items())
        text = "Refusals for a missing scope, with the line that asks for it."
        yield _counter("agtphost_missing_scopes", text, ("called", "scope", "rule", "agent"), missing)
        if counts.callers:
            callers = ((label, count) for label, count in counts.callers.items())
            yield _counter("agtphost_agent_calls", "The same by the label of the caller.", ("agent",), callers)
        if counts.operators:
            text = "The same by the name of the operator who called."
            yield _counter("agtphost_operator_calls", text, ("operator",), counts.operators.items())
        if counts.people:
            text = "The same by the person whom the caller acts for, as an identity provider names it."
            yield _counter("agtphost_person_calls", text, ("person",), counts.people.items())
        yield _gauge("agtphost_calls_in_flight", "Requests over AGTP that are not answered yet.", seen.serving)
        yield _gauge("agtphost_calls_waiting", "Calls whose handler waits for something.", seen.waiting)
        text = "Open connections at the AGTP port."
        if seen.quic is None:
            yield _gauge("agtphost_connections", text, seen.connections)
        else:
            carriers = (("tls", seen.connections - seen.quic.connections), ("quic", seen.quic.connections))
            yield _gauges("agtphost_connections", text, ("carrier",), carriers)
            yield from self._quic_families(seen.quic)

    def _quic_families(self, seen: QuicVital) -> Iterator[Any]:
        text = "QUIC connections that are over, by the outcome of their handshake."
        yield _counter("agtphost_quic_handshakes", text, ("outcome",), seen.handshakes.items())
        yield _counter(
            "agtphost_quic_retries", "Clients that were asked to prove their address.", (), [(seen.retries,)]
        )
        text = "Datagrams that were not answered."
        yield _counter("agtphost_quic_datagrams_dropped", text, ("why",), seen.dropped.items())
        yield _counter("agtphost_quic_packets_lost", "Packets to clients that were lost.", (), [(seen.lost,)])
        yield _counter("agtphost_quic_migrations", "Changes of clients' addresses.", (), [(seen.moves,)])
        yield _gauge("agtphost_quic_streams", "Requests over QUIC that are not over.", seen.streams)

    def _evidence_families(self, seen: Vitals) -> Iterator[Any]:
        counts = self._counts
        sealed = (("true", counts.durable), ("false", counts.undurable))
        text = "Records that were sealed since the start, in the store or not."
        yield _counter("agtphost_records_sealed", text, ("durable",), sealed)
        yield _histograms("agtphost_commit_seconds", "What one transaction of the ledger took.", [((), counts.commits)])
        yield _histograms("agtphost_commit_records", "Records of one transaction.", [((), counts.groups)])
        yield _gauge("agtphost_records", "Records in the store.", seen.records)
        yield _gauge("agtphost_ledger_healthy", "1 while the ledger takes records.", int(seen.healthy))
        if seen.checkpoint_age is not None:
            text = "For how long a record waits that no checkpoint covers; 0 while none does."
            yield _gauge("agtphost_checkpoint_age_seconds", text, seen.checkpoint_age)
        ages = ((name, age) for name, age in seen.witness_ages.items())
        text = "For how long a checkpoint waits for each witness; 0 while none does."
        yield _gauges("agtphost_witness_age_seconds", text, ("witness",), ages)
        if seen.free_octets is not None:
            yield _gauge("agtphost_store_free_bytes", "Free on the store's disk.", seen.free_octets)

    def _upstream_families(self, seen: Vitals) -> Iterator[Any]:
        labels = ("protocol", "server")
        states = (
            (each.protocol, each.name, state, int(each.state == state))
            for each in seen.upstreams
            for state in seen.states
        )
        yield _gauges("agtphost_upstream_state", "1 for the state that an upstream is in.", (*labels, "state"), states)
        restarts = ((each.protocol, each.name, each.restarts) for each in seen.upstreams)
        yield _counter("agtphost_upstream_restarts", "Attempts after the first to reach it.", labels, restarts)

    def _other_families(self, seen: Vitals) -> Iterator[Any]:
        for kind, count in seen.open_items.items():
            yield _gauge(f"agtphost_{kind}s_open", f"Items of the kind {kind} that wait for a decision.", count)
        text = "Until the first of the host's own certificates ends."
        yield _gauge("agtphost_certificate_days_left", text, seen.certificate_ends / DAY)
        ends = ((each.kind, each.name, each.ends) for each in seen.expiries if math.isfinite(each.ends))
        text = "When something ends, in seconds since the Unix epoch: of all, the 200 that do so first."
        yield _gauges("agtphost_expiry_timestamp_seconds", text, ("kind", "name"), _first_of_each(ends))
        if seen.revocation_ends is not None:
            text = "Until the first revocation list is out of date."
            yield _gauge("agtphost_revocation_list_days_left", text, seen.revocation_ends / DAY)
        if seen.spans_lost is not None:
            text = "Spans of traces that no collector has: dropped for want of room, or undelivered."
            yield _counter("agtphost_spans_lost", text, ("why",), seen.spans_lost.items())
        yield _gauge("agtphost_ready", "1 while /readyz answers 200.", int(not any(obstacles(seen))))
        built = (__version__, platform.python_version(), 1)
        yield _gauges("agtphost_build_info", "Always 1.", ("version", "python"), [built])


def _first_of_each(rows: Iterable[tuple[str, str, float]]) -> Iterator[tuple[str, str, float]]:
    """Yield only the first row of each kind and name: two samples may not have the same labels."""
    seen = set()
    for kind, name, ends in rows:
        if (kind, name) not in seen:
            seen.add((kind, name))
            yield kind, name, ends


class Exposition:
    """
    The answer to a scrape.

    :param counts: since the start.
    :param look: reads the present vitals.
    :raises ImportError: the library is not installed; ``agtp check`` says what to do (:mod:`agtphost.extras`).
    """

    def __init__(self, counts: CallCounts, look: VitalsReader) -> None:
        from prometheus_client import CollectorRegistry, ProcessCollector

        self._registry = CollectorRegistry()
        collector: Any = HostCollector(counts, look)
        self._registry.register(collector)
        # CPU seconds, memory and open files of the process, from /proc.
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[str, bytes]:
        """
        Return all metrics, at this moment.

        :param accept: the ``Accept`` field: OpenMetrics if it asks for that, else the text format of Prometheus.
        :return: media type and octets.
        """
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(accept)
        return kind, encode(self._registry)


def _counter(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Any:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for *values, count in rows:
        family.add_metric(values, count)
    return family


def _gauges(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for *values, value in rows:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, value: float) -> Any:
    # Infinite values, such as those of a certificate without an end, are left out, because they cannot be drawn.
    return _gauges(name, text, (), [(value,)] if math.isfinite(value) else [])


def _histograms(name: str, text: str, rows: Iterable[tuple[tuple[tuple[str, str], ...], Histogram]]) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    family: Any = None
    for labels, found in rows:
        if family is None:
            family = HistogramMetricFamily(name, text, labels=[label for label, _ in labels])
        family.add_metric([value for _, value in labels], list(found.cumulative()), found.total)
    return HistogramMetricFamily(name, text) if family is None else family
