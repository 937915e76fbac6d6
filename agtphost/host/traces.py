"""Build the service of ``[traces]``, which makes spans of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agtphost import extras
from agtphost.config import Config
from agtphost.config.traces import EXPORTER

if TYPE_CHECKING:
    from agtphost.traces.service import TraceService


def build_tracing(reactor: Any, config: Config) -> TraceService | None:
    """Return the service, or None without the section; then nothing of OpenTelemetry is imported."""
    if config.traces is None or not extras.is_installed(EXPORTER):
        # The check of the configuration reports a missing package, and the host does not start.
        return None
    from agtphost.traces.service import TraceService

    return TraceService(reactor, config.traces, config.host.server_id)
