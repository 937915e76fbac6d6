"""Serve metrics, health and readiness over HTTP, as ``[metrics]`` configures them."""

from __future__ import annotations

from agtphost.config.surfaces import METRICS
from agtphost.host.services import HostServices
from agtphost.http.served_surface import ServedSurface
from agtphost.metrics.call_counts import CallCounts
from agtphost.metrics.exposition import Exposition
from agtphost.metrics.resource import MonitoringResource
from agtphost.vocabulary.vitals import VitalsReader


def build_metrics_surface(services: HostServices, look: VitalsReader) -> ServedSurface | None:
    """
    Return the surface of ``[metrics]``, and start counting; None, without counting, if it is not served.

    :param look: reads the present values of the host's parts.
    """
    given = services.config.metrics
    if given is None or given.listen is None:
        return None
    counts = CallCounts(
        {*services.loaded.catalog.methods, *services.loaded.policy.custom}, agents=given.agents, people=given.people
    )
    services.evidence.ledger.watch(counts.count_group)
    return ServedSurface(name=METRICS, what="the metrics", resource=MonitoringResource(Exposition(counts, look), look))
