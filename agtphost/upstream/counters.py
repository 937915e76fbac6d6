"""Calls of one upstream, counted: what operators and DESCRIBE are shown, whatever protocol it speaks."""

from __future__ import annotations

from dataclasses import dataclass

from agtphost.upstream.failures import Timeout, UpstreamFailure

SMOOTHING = 0.1
"""Weight of the newest call in the mean latency."""


@dataclass(slots=True)
class Counters:
    """Since the host started."""

    ok: int = 0
    errors: int = 0
    timeouts: int = 0
    latency: float = 0.0
    """Seconds of a successful call, moving average; 0 before the first."""

    def succeeded(self, seconds: float) -> None:
        """Count a result."""
        self.ok += 1
        self.latency = seconds if self.ok == 1 else self.latency + SMOOTHING * (seconds - self.latency)

    def failed(self, failure: UpstreamFailure) -> None:
        """Count a call without a result."""
        self.errors += 1
        self.timeouts += isinstance(failure, Timeout)
