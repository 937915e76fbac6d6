"""``agtp mcp-bridge`` for tests: over stdio, and over HTTP in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mcp import StdioServerParameters

from tests import forking
from tests.system.hosting import BIN, Host, until

FIXTURE = Path(__file__).resolve().parents[1] / "bridge" / "conformance_server.py"
READY = re.compile(r"agtp mcp-bridge ready: (\S+)")


def fixture(name: str, *lines: str) -> str:
    """A ``[[mcp.server]]`` that is the fixture server."""
    return "\n".join(
        (
            "",
            "[[mcp.server]]",
            f'name = "{name}"',
            f"command = {json.dumps(forking.mcp_server(FIXTURE))}",
            *lines,
            "",
        )
    )


def stdio(host: Host, *words: str) -> StdioServerParameters:
    """How the official client starts the bridge."""
    command, *args = forking.agtp("mcp-bridge", *words)
    return StdioServerParameters(command=command, args=args, cwd=host.config.parent, env=dict(os.environ))


class HttpBridge:
    """One bridge that serves HTTP."""

    def __init__(self, host: Host, *words: str, environ: Mapping[str, str] | None = None) -> None:
        self.url = ""
        self.lines: list[str] = []
        self.process = forking.start(
            [str(BIN / "agtp"), "mcp-bridge", "--http", "0", *words],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=host.config.parent,
            env={**os.environ, **(environ or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            self.lines.append(line)
            found = READY.search(line)
            if found:
                self.url = found.group(1)

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self._reader.join(5)
        return status


@contextmanager
def http_bridge(host: Host, *words: str, environ: Mapping[str, str] | None = None) -> Iterator[HttpBridge]:
    """
    A bridge that is ready, and gone afterwards.

    :param environ: further variables.
    """
    bridge = HttpBridge(host, *words, environ=environ)
    try:
        until(lambda: bridge.url or bridge.process.poll() is not None)
        assert bridge.url, bridge.lines
        yield bridge
    finally:
        bridge.stop()
