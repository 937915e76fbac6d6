"""``[traces]``: what gives calls their spans, where the operator wants any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agtphost import extras
from agtphost.config import Config
from agtphost.config.traces import EXPORTER

if TYPE_CHECKING:
    from agtphost.traces.service import Traces


def tracing(reactor: Any, config: Config) -> Traces | None:
    """The service; None without the section, and then nothing of OpenTelemetry is imported."""
    if config.traces is None or not extras.is_installed(EXPORTER):
        # Of a package that is missing the configuration's own check tells, and no host starts.
        return None
    from agtphost.traces.service import Traces

    return Traces(reactor, config.traces, config.host.server_id)
