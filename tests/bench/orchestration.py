"""
What BATCH and CHAIN cost: ``python -m tests.bench.orchestration``, over TLS, on one real host.

BATCH of 20 reads is compared with one of them alone, where a read waits as long as an upstream would, and where it does
not wait at all; CHAIN with a recipe of the same calls, which has no journal.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.system.standard import hosted

STEPS = 32
WAIT = 0.025
"""Seconds of a read that waits."""

CALL = {"method": "ECHO", "path": "/text", "parameters": {"text": "x"}}
RECIPE = '\n[[recipe]]\nname = "many"\nversion = "1"\ndescription = "Says it again and again."\n' + STEPS * (
    '\n[[recipe.step]]\nmethod = "ECHO"\npath = "/text"\ninput = { text = "x" }\n'
)
FILES = {
    "endpoints/slow.toml": hosted.FILES["endpoints/stock.toml"]
    .replace("/stock", "/slow")
    .replace("handlers.stock.rooms", "handlers.slow.wait"),
    "handlers/slow.py": "from twisted.internet.task import deferLater\n\n\n"
    "async def wait(context):\n    from twisted.internet import reactor\n\n"
    f"    await deferLater(reactor, {WAIT})\n    return {{}}\n",
}


def timed(call: Callable[[], Any], times: int = 30) -> float:
    """Milliseconds, the best of many: what else the machine does is not in it."""
    call()
    taken = []
    for _ in range(times):
        since = time.perf_counter()
        call()
        taken.append((time.perf_counter() - since) * 1000)
    return min(taken)


def batch(host: hosted.Standard, name: str, method: str, path: str, given: dict[str, Any]) -> None:
    """Twenty of one read, and one."""
    alone = timed(lambda: host.result(method, given, path=path))
    calls = [{"method": method, "path": path, "parameters": given}] * 20
    made = timed(lambda: host.result("BATCH", {"calls": calls}))
    print(f"BATCH of 20 {name}: {made:.2f} ms; alone {alone:.2f} ms; 1.3 of that and 2 ms: {1.3 * alone + 2:.2f} ms")


def main() -> None:
    """Measure, and print a line for each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(hosted, "RECIPES", hosted.RECIPES + RECIPE),
        patch.object(hosted, "FILES", {**hosted.FILES, **FILES}),
    ):
        host = hosted.Standard(Path(folder), procedures={"many": "many"})
        host.host.wait()
        try:
            batch(host, "reads that wait 25 ms", "QUERY", "/slow", {})
            batch(host, "reads that wait for nothing", "ECHO", "/text", {"text": "x"})
            chain = timed(lambda: host.result("CHAIN", {"steps": [CALL] * STEPS}))
            recipe = timed(lambda: host.result("RUN", {"procedure_id": "many"}))
            print(
                f"CHAIN of {STEPS}: {chain:.2f} ms; a recipe {recipe:.2f} ms; {(chain - recipe) / STEPS:.3f} ms a step"
            )
        finally:
            host.close()


if __name__ == "__main__":
    main()
