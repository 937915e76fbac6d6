"""What DESCRIBE and the operator's tools show of a hosted server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agtphost.adapters.mcp.failures import CallTimeout, McpFailure

_SMOOTHING = 0.1
"""Weight of the newest call in the mean latency."""


@dataclass(slots=True)
class CallCounters:
    """Calls of one server since the host started."""

    ok: int = 0
    errors: int = 0
    timeouts: int = 0
    latency: float = 0.0
    """Seconds of a successful call, moving average; 0 before the first."""

    def succeeded(self, seconds: float) -> None:
        """Count a result."""
        self.ok += 1
        self.latency = seconds if self.ok == 1 else self.latency + _SMOOTHING * (seconds - self.latency)

    def failed(self, failure: McpFailure) -> None:
        """Count a call without a result."""
        self.errors += 1
        self.timeouts += isinstance(failure, CallTimeout)


@dataclass(frozen=True, kw_only=True)
class ServerSnapshot:
    """One server at one moment."""

    name: str
    transport: str
    """``stdio`` or ``http``."""

    state: str
    pid: int | None
    era: str | None
    """``stateless`` or ``handshake``; None while not up."""

    version: str | None
    """The protocol version in use."""

    server: Mapping[str, Any]
    """Name and version as the server says itself."""

    tools: int
    changed_tools: tuple[str, ...]
    """Tools that are off until their new definition is approved."""

    restarts: int
    up_for: float | None
    """Seconds."""

    next_attempt_in: float | None
    """Seconds; None while up, starting or stopped."""

    reason: str
    """Why it is down; empty while up."""

    in_flight: int
    waiting: int
    calls: CallCounters = field(default_factory=CallCounters)
    link: Mapping[str, object] = field(default_factory=dict)
    """Counters of the link, and the last stderr lines under ``stderr``: for operators only."""

    def public(self) -> dict[str, object]:
        """The members that any caller of DESCRIBE may see."""
        shown = asdict(self)
        for name in ("link", "reason"):
            del shown[name]
        return shown
