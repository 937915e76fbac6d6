"""The feature of ``[traces]``, which makes spans of calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zope.interface import implementer

from agtphost import extras
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.config.traces import EXPORTER, TracesSection
from agtphost.features import Contribution, IFeature, Services

if TYPE_CHECKING:
    from agtphost.traces.service import TraceService


@implementer(IFeature)
class TracesFeature:
    """The feature of ``[traces]``. Without the section, nothing of OpenTelemetry is imported."""

    settings_schema = None

    def check(self, settings: TracesSection, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section, and whether the packages are installed."""
        return ()

    def build(self, settings: TracesSection, services: Services, previous: TraceService | None) -> Contribution:
        """Return the service, which is also the tracer; the same one as long as the section does not change."""
        if not extras.is_installed(EXPORTER):
            # `agtp check` examines the rest of a configuration that does not start for this reason.
            return Contribution()
        from agtphost.traces.service import TraceService

        service = previous
        if service is None or service.settings != settings:
            service = TraceService(services.reactor, settings, services.config.host.server_id)
        return Contribution(services=[service], tracer=service, carried=service)
