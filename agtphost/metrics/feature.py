"""The feature of ``[metrics]``: metrics, health and readiness over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zope.interface import implementer

from agtphost.audit.ledger_watch import LedgerWatch
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.metrics import MetricsSection
from agtphost.config.surfaces import METRICS
from agtphost.features import Contribution, IFeature, Services
from agtphost.http.served_surface import ServedSurface
from agtphost.metrics.call_counts import CallCounts
from agtphost.metrics.exposition import Exposition
from agtphost.metrics.resource import MonitoringResource


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """The surface of a section, and the counts that it serves, which continue over a reload."""

    settings: MetricsSection
    counting: LedgerWatch
    surface: ServedSurface


@implementer(IFeature)
class MetricsFeature:
    """The feature of ``[metrics]``."""

    settings_schema = None

    def check(self, settings: MetricsSection, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks listeners, and whether the package is installed."""
        return ()

    def build(self, settings: MetricsSection, services: Services, previous: Monitoring | None) -> Contribution:
        """Return the surface, and what counts for it; nothing if it is not served."""
        if settings.listen is None:
            return Contribution()
        made = previous
        if made is None or made.settings != settings:
            made = _monitoring(settings, services)
        return Contribution(services=[made.counting], surfaces=[made.surface], carried=made)


def _monitoring(settings: MetricsSection, services: Services) -> Monitoring:
    table = services.table
    methods = frozenset({*table.catalog.methods, *table.policy.custom})
    counts = CallCounts(methods, agents=settings.agents, people=settings.people)
    resource = MonitoringResource(Exposition(counts, services.host.read_vitals), services.host.read_vitals)
    return Monitoring(
        settings=settings,
        counting=LedgerWatch("call counts", services.ledger, counts.count_group),
        surface=ServedSurface(name=METRICS, what="the metrics", resource=resource),
    )
