"""
One agent, and one MCP server that does as it is told, against everybody else who shares that server.

Honest callers call ``files.list_files`` meanwhile. Here ``files`` is :mod:`tests.attacks.hostile_upstream`, or that is
another server beside it, where it could answer nobody any more.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import MIB, Attack, Target
from tests.system.raw_link import RawLink, client_context

SERVER = Path(__file__).resolve().parents[1] / "hostile_upstream.py"
COMMAND = f"command = {json.dumps([sys.executable, '-S', str(SERVER)])}"
CALLERS = 30
"""More than the turns of a server, fewer than may wait: a storm of refusals is another attack."""

PAUSE = 0.2
"""Seconds between two calls of one caller."""


def shared(folder: Path) -> None:
    """``files`` is the server that does as it is told."""
    file = folder / "host.toml"
    text, hits = re.subn(r"(?m)^command = \[.*files_server.*$", lambda _: COMMAND, file.read_text())
    assert hits == 1, "host.toml has no server files"
    file.write_text(text)


def beside(folder: Path) -> None:
    """That server is called ``bad``, beside the sample's own."""
    with (folder / "host.toml").open("a") as file:
        file.write(f'\n[[mcp.server]]\nname = "bad"\n{COMMAND}\ntimeout = 10\ninput_timeout = 1\n')


def calling(tool: str, expected: tuple[str, ...], callers: int) -> Callable[[Target, float], None]:
    """
    Call a tool again and again.

    :param expected: reasons of refusals that are right; any answer but these and 200 shows that the host gave way.
    """
    body = {
        "action": "mcp.tools.call",
        "payload_type": "application/vnd.mcp.tools+json",
        "payload": {"tool": tool, "arguments": {}},
    }

    def run(target: Target, seconds: float) -> None:
        context, end = client_context(target, agent="demo"), time.monotonic() + seconds
        wrong: list[str] = []

        def call() -> None:
            while time.monotonic() < end and not wrong:
                try:
                    with RawLink(target, context=context, timeout=max(end - time.monotonic(), 0.1) + 15) as link:
                        while time.monotonic() < end:
                            answer = link.ask("EXECUTE", "/", body)
                            if answer.status != 200 and answer.reason not in (*expected, "rate-limited"):
                                wrong.append(f"{answer.status} {answer.reason}")
                                return
                            time.sleep(PAUSE)
                except (OSError, AssertionError):  # Admission closed it.
                    time.sleep(PAUSE)

        threads = [threading.Thread(target=call, daemon=True) for _ in range(callers)]
        for thread in threads:
            thread.start()
            # Thirty handshakes at once are another attack, too.
            time.sleep(0.03)
        for thread in threads:
            thread.join(seconds + 30)
        assert not wrong, f"{tool} was answered {wrong[0]}"

    return run


BUSY = "upstream-busy"
LONG = "upstream-answer-too-long"
GONE = ("upstream-lost", "upstream-down", "upstream-timeout", BUSY)

ATTACKS = (
    Attack(
        name="hogging-agent",
        who="agent",
        says="An agent calls a slow tool of a shared MCP server as often as it can: others get turns all the same.",
        run=calling("files.slow", (BUSY,), CALLERS),
        configure=shared,
    ),
    Attack(
        name="oversized-answers",
        who="upstream",
        says="Answers of 20 MiB: each ends its own call, and nothing of it is kept.",
        run=calling("bad.long", (LONG, BUSY, "upstream-timeout"), 2),
        configure=beside,
        memory=96 * MIB,
    ),
    Attack(
        name="endless-answer",
        who="upstream",
        says="An answer without an end: its call ends, and the server is restarted once the line has 1 GiB.",
        run=calling("bad.endless", (LONG, *GONE), 2),
        configure=beside,
        memory=96 * MIB,
    ),
    Attack(
        name="server-that-does-not-read",
        who="upstream",
        says="A server stops reading while calls come: what waits for it is bounded, and it is started anew.",
        run=calling("bad.stop_reading", GONE, 8),
        configure=beside,
    ),
    Attack(
        name="flood-of-notifications",
        who="upstream",
        says="A server writes notifications as fast as it can: they are read at its share.",
        run=calling("bad.flood", GONE, 2),
        configure=beside,
    ),
)
