"""Calls from one end of a lossy link: ``python -m tests.bench.lossy_client HOST.TOML CARRIER CALLS CONCURRENT``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, gatherResults

from agtphost.client import Client

TEXT = "so many words as a small question has"


async def _measure(reactor: Any, config: str, quic: bool, calls: int, concurrent: int) -> None:
    """Print the milliseconds of each call; with ``concurrent`` 0 each is the first one of a new client."""
    taken: list[float] = []

    async def call(host: Any) -> None:
        began = time.perf_counter()
        reply = await host.call("ECHO", "/text", {"text": TEXT})
        taken.append((time.perf_counter() - began) * 1_000)
        assert reply.status == 200, reply.result

    async def call_in_turn(host: Any, times: int) -> None:
        for _ in range(times):
            await call(host)

    if concurrent:
        async with Client.of(reactor, config, as_="demo", quic=quic, verify=False) as host:
            await gatherResults([Deferred.fromCoroutine(call_in_turn(host, 2)) for _ in range(concurrent)])
            taken.clear()
            each = calls // concurrent
            await gatherResults([Deferred.fromCoroutine(call_in_turn(host, each)) for _ in range(concurrent)])
    else:
        for _ in range(calls):
            async with Client.of(reactor, config, as_="demo", quic=quic, verify=False) as host:
                await call(host)
    print(json.dumps(taken))


def main(config: str, carrier: str, calls: str, concurrent: str) -> None:
    """Run what the command line says."""
    task.react(
        lambda reactor: Deferred.fromCoroutine(
            _measure(reactor, config, carrier == "quic", int(calls), int(concurrent))
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
