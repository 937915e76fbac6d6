"""What DESCRIBE and the operator's tools show of a hosted server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.upstream.failures import Timeout, UpstreamFailure

if TYPE_CHECKING:
    from agtphost.adapters.mcp.eras import Terms

MAX_INSTRUCTIONS = 8192
"""Characters of a server's instructions that are shown."""

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

    def failed(self, failure: UpstreamFailure) -> None:
        """Count a call without a result."""
        self.errors += 1
        self.timeouts += isinstance(failure, Timeout)


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

    unmatched_rules: tuple[str, ...]
    """Tools, prompts and resources that the configuration has rules for and the server lacks: for operators."""

    invalid_tools: Mapping[str, tuple[str, ...]]
    """Those that are off because a schema of theirs is none, with what is wrong with it: for operators."""

    restarts: int
    capabilities: Mapping[str, Any]
    """As the server declares them; empty while not up."""

    instructions: str
    instances: int
    """Processes or sessions that belong to one caller each, besides this."""

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

    def told(self) -> dict[str, object]:
        """What DESCRIBE says besides name and version: AGTP-API section 8.6."""
        return {
            "state": self.state,
            "era": self.era,
            "capabilities": dict(self.capabilities),
            "server_info": dict(self.server),
            "instructions": self.instructions,
            "tools": self.tools,
            "changed_tools": list(self.changed_tools),
            "restarts": self.restarts,
            "next_attempt_in": None if self.next_attempt_in is None else round(self.next_attempt_in, 3),
            "latency": round(self.calls.latency, 6),
        }

    def full(self) -> dict[str, object]:
        """Everything, for operators."""
        shown = asdict(self)
        shown["latency"] = self.calls.latency
        shown["link"] = {name: list(v) if isinstance(v, tuple) else v for name, v in self.link.items()}
        shown["changed_tools"] = list(self.changed_tools)
        shown["unmatched_rules"] = list(self.unmatched_rules)
        shown["invalid_tools"] = {name: list(said) for name, said in self.invalid_tools.items()}
        return shown

    def public(self) -> dict[str, object]:
        """The members that any caller of DESCRIBE may see."""
        shown = asdict(self)
        for name in ("link", "reason", "unmatched_rules", "invalid_tools"):
            del shown[name]
        return shown


def agreed(terms: Terms | None) -> dict[str, Any]:
    """The members of :class:`ServerSnapshot` that tell what was agreed with a server; None: it is not up."""
    return {
        "era": None if terms is None else terms.era,
        "version": None if terms is None else terms.version,
        "server": {} if terms is None else terms.server,
        "capabilities": {} if terms is None else terms.capabilities,
        "instructions": "" if terms is None else terms.instructions[:MAX_INSTRUCTIONS],
    }
