"""Log the output of one upstream, and events about it: escaped, redacted, bounded, under its name."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from agtphost.upstream.throttle import LogThrottle

KEPT_LINES = 100
"""Last stderr lines kept for the operator."""

LINE_OCTETS = 1024
"""Octets of each line that are kept; the rest is dropped as it arrives."""

SHORTEST_SECRET = 6
"""Configured values at least this long are never shown; shorter ones would redact ordinary words."""

PASSING_SECRETS = 8
"""Redacted values that do not come from the configuration; the newest are kept."""


REDACTED = "[redacted]"


def escape_text(text: str) -> str:
    """Return ``text`` with every character escaped that a terminal or a reader would not show as itself."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


class UpstreamLog:
    """
    The log of one upstream.

    :param clock: for the quota.
    :param server: its name.
    :param secrets: values that never appear, such as those of its environment.
    :param kind: the name of its kind in the host's log.
    """

    def __init__(
        self, clock: IReactorTime, server: str, secrets: Collection[str] = (), kind: str = "MCP server"
    ) -> None:
        self._server = server
        self._format = f"{kind} {{server}}: {{text}}"
        self._log = Logger(namespace="agtphost.mcp" if kind == "MCP server" else "agtphost.upstreams")
        self._quota = LogThrottle(clock)
        self._secrets = sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True)
        self._passing: deque[str] = deque(maxlen=PASSING_SECRETS)
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._partial = b""
        self._skipping = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The last stderr lines, oldest first, also those that the quota kept out of the log."""
        return tuple(map(self.clean, self._kept))

    @property
    def suppressed_lines(self) -> int:
        """Lines that the quota kept out of the log."""
        return self._quota.suppressed_lines

    def conceal(self, secret: str) -> None:
        """Redact a value that the host got later, such as a token; the newest are remembered."""
        if len(secret) < SHORTEST_SECRET:
            return
        if len(self._passing) == PASSING_SECRETS:
            oldest = self._passing[0]
            self._kept = deque((line.replace(oldest, REDACTED) for line in self._kept), maxlen=KEPT_LINES)
        self._passing.append(secret)

    def stderr(self, octets: bytes) -> None:
        """Take output of the process's standard error, with bounded memory."""
        first, *rest = octets.split(b"\n")
        self._add(first)
        for part in rest:
            self._finish()
            self._add(part)

    def end_stderr(self) -> None:
        """Take what the process wrote last as a line, although no line feed follows it."""
        self._finish()

    def say(self, text: str, level: LogLevel = LogLevel.info) -> None:
        """Log one line about or from the server, if the quota admits it."""
        if self._quota.admits():
            self._log.emit(level, self._format, server=self._server, text=self.clean(text))

    def event(self, text: str, level: LogLevel = LogLevel.warn) -> None:
        """Log a change of the server's state; these are few and never suppressed."""
        self._log.emit(level, self._format, server=self._server, text=self.clean(text))

    def clean(self, text: str) -> str:
        """Return ``text`` without secrets and control characters."""
        for secret in (*self._secrets, *self._passing):
            text = text.replace(secret, REDACTED)
        return escape_text(text)

    def _add(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._partial += part[: LINE_OCTETS - len(self._partial) + 1]
        if len(self._partial) > LINE_OCTETS:
            self._partial = self._partial[:LINE_OCTETS]
            self._skipping = True

    def _finish(self) -> None:
        line, cut = self._partial, self._skipping
        self._partial, self._skipping = b"", False
        if not line.strip():
            return
        text = line.decode("utf-8", "replace").rstrip("\r") + (" [cut]" if cut else "")
        # The end of a long traceback says why a process ended, so the quota of the log is not one of the kept lines.
        self._kept.append(text)
        if self._quota.admits():
            shown = self.clean(text)
            self._log.emit(LogLevel.info, "MCP server {server}: stderr: {text}", server=self._server, text=shown)
