"""``[traces]``: OpenTelemetry traces of calls, sent to a collector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.upstreams import header_name, web_url
from agtphost.config.values import FilePath, HeaderValue, Line, Section, Table

EXPORTER = "opentelemetry.exporter.otlp.proto.http"
"""What the section needs."""


class TracesSection(Section):
    """The section ``[traces]``: OpenTelemetry traces; without this section there are none, and they cost nothing."""

    endpoint: Annotated[str, BeforeValidator(web_url)] = ""
    """
    Where the collector takes OTLP over HTTP, such as ``http://127.0.0.1:4318``: spans are posted to ``/v1/traces``,
    or to the path given here. Required.
    """

    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of traces that are recorded, of those that begin here; of others the caller's decision counts."""

    service_name: Line = "agtphost"
    """``service.name`` of all spans; ``service.instance.id`` is the ``server_id``."""

    agents: bool = True
    """Whether spans tell the label of the calling agent."""

    timeout: Annotated[float, Field(gt=0, le=60)] = 10.0
    """Seconds until spans that were not taken, tried again or not, are given up. No call waits for that."""

    headers: Table[Annotated[str, AfterValidator(header_name)], HeaderValue] = Field(default_factory=dict)
    """Sent with every request to the collector, such as its key."""

    ca: FilePath | None = None
    """PEM file of the only authorities trusted for the endpoint; None: this machine's."""

    def opened_headers(self) -> Mapping[str, str]:
        """Return the header fields of every request, secrets opened: for the one place that sends them."""
        return {name: value.reveal() for name, value in self.headers.items()}


def traces_faults(traces: TracesSection | None) -> Iterator[ConfigFault]:
    """Check rules that span several keys of ``[traces]``."""
    if traces is None:
        return
    if not traces.endpoint:
        yield ConfigFault(
            location=("traces", "endpoint"),
            message="is missing",
            hint='name the collector, such as endpoint = "http://127.0.0.1:4318"',
        )
    if traces.ca is not None and not traces.ca.is_file():
        yield ConfigFault(location=("traces", "ca"), message=f"does not exist: {traces.ca}")
