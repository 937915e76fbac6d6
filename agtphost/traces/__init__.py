"""
Trace calls with OpenTelemetry, by the official SDK: the extra ``traces``. The host imports this package only if
``[traces]`` is configured.

- :mod:`.feature`: what the host takes, where the section is there
- :mod:`.service`: begins the spans of calls, and stops within seconds
- :mod:`.spans`: the span of a call, its parts, and its requests to upstreams; what they contain and never contain
- :mod:`.span_export`: delivery of spans: a thread of the SDK, a bounded queue, and a collector that may be unavailable
"""
