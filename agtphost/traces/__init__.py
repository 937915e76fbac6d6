"""
OpenTelemetry traces, by the official SDK: the extra ``traces``. Nothing else of the host imports this but where
``[traces]`` is configured.

- :mod:`.service`: begins the spans of calls, and stops within a second
- :mod:`.spans`: one call's span, its parts, its requests to upstreams; what each says and what it never says
- :mod:`.export`: how spans leave the process: a thread of the SDK's, a bounded queue, and a collector that may be dead
"""
