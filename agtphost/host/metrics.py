"""Metrics, health and readiness over HTTP, where ``[metrics]`` says so."""

from __future__ import annotations

from agtphost.config.surfaces import METRICS
from agtphost.host.foundation import Foundation
from agtphost.host.surfaces import Served
from agtphost.metrics.counting import CallCounts
from agtphost.metrics.exposition import Exposition
from agtphost.metrics.resource import Watched
from agtphost.metrics.vitals import Look


def metrics(on: Foundation, look: Look) -> Served | None:
    """
    The surface of ``[metrics]``, counting from now on; None where it is not served, and nothing is counted.

    :param look: what the host's parts say when they are asked.
    """
    given = on.config.metrics
    if given is None or given.listen is None:
        return None
    counts = CallCounts(
        {*on.loaded.catalog.methods, *on.loaded.policy.custom}, agents=given.agents, people=given.people
    )
    on.evidence.ledger.watch(counts.saw)
    return Served(name=METRICS, what="what the host tells in numbers", resource=Watched(Exposition(counts, look), look))
