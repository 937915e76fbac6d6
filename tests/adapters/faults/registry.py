"""
What an upstream can do wrong: one named script each, and what the host then answers, by carrier.

Carriers are written as letters: ``P`` MCP over pipes (stdio), ``H`` MCP over HTTP, ``S`` an external service over
HTTPS, ``A`` an A2A agent, ``C`` an ACP server. The scripts play on a :class:`.stages.Carrier`; the host's answers are
the five that AGTP-API section 12.3 mandates, by the names that each carrier has for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

CARRIERS = {"P": "stdio", "H": "mcp", "S": "https", "A": "a2a", "C": "acp"}

Answers = dict[str, tuple[str, ...]]
"""Status and reason by carrier; several where the timing of the upstream decides."""

OK: Answers = dict.fromkeys("PHSAC", ("200",))


def _answers(hosted: str, service: str) -> Answers:
    return {**dict.fromkeys("PHAC", (hosted,)), "S": (f"422 {service}",)}


LATE = _answers("408 upstream-timeout", "upstream_timeout")
LOST = _answers("503 upstream-lost", "upstream_connection_error")
UNREADABLE = _answers("500 upstream-answer-refused", "upstream_malformed_response")
TOO_LONG = _answers("500 upstream-answer-too-long", "upstream_malformed_response")
REFUSED = _answers("503 upstream-refused", "upstream_error")
DENIED = _answers("503 upstream-refused", "upstream_authentication_failed")
DOWN = _answers("503 upstream-down", "upstream_connection_error")
ERROR: Answers = {"P": ("500 tool-failed",), "H": ("500 tool-failed",), "A": ("500 a2a-error",)}


def either(*answers: Answers) -> Answers:
    """One or the other."""
    return {carrier: tuple(dict.fromkeys(sum((each.get(carrier, ()) for each in answers), ()))) for carrier in "PHSAC"}


class Fault(NamedTuple):
    """One script."""

    name: str
    does: str
    carriers: str
    answers: Answers
    play: Callable[[Any], None]
    at: str = "tools/call"
    """Where it plays: that, ``tools/list``, ``initialize`` (for A2A the card, for ACP the list), or ``exec``."""

    port: str = ""
    """The listening port that plays it, where it is below HTTP."""

    streamed: bool = False
    """Whether the caller asks for a stream."""

    resumed: bool = False
    """Whether it plays once more where its stream is resumed."""

    heavy: bool = False
    """It keeps the host busy, and so is played alone."""

    stubborn: bool = False
    """It ignores SIGTERM."""

    listed: Callable[[list[Any]], list[Any]] | None = None
    """What becomes of the list of tools."""

    settings: str = ""
    """More of the upstream's configuration."""

    @property
    def early(self) -> bool:
        """Whether the upstream never gets up."""
        return self.at in ("initialize", "exec", "tools/list") or bool(self.port)


FAULTS: dict[str, Fault] = {}

Play = Callable[[Any], None]


def fault(name: str, carriers: str, answers: Answers, does: str, **more: Any) -> Callable[[Play], Play]:
    """Enter a script."""
    own = {key: more.pop(key) for key in "PHSAC" if key in more}
    answers = answers | {key: (value,) if isinstance(value, str) else value for key, value in own.items()}

    def enter(play: Play) -> Play:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, does, carriers, {key: answers[key] for key in carriers}, play, **more)
        return play

    return enter


def says(name: str, carriers: str, answers: Answers, does: str, make: Callable[[Any], bytes], **more: Any) -> None:
    """Enter a script that answers once, whole, with other octets."""
    fault(name, carriers, answers, does, **more)(lambda out: out.say(make(out)))
