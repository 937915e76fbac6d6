"""
What QUIC costs beside TLS, and what loss does to both: ``python -m tests.bench.carriers``.

One host on one core, called by the same client over both carriers in interleaved rounds; what counts is the host's own
CPU time. TLS is measured twice, which is the error of the others. Loss is that of :mod:`tests.bench.lossy`, with the
system's own TCP and UDP; it needs Linux and root.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agtphost.client import aio, blocking_connection, tls
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.deadline import Deadline
from agtphost.client.quic import blocking
from agtphost.client.quic.core import load_credentials
from agtphost.client.requests import Destination
from tests.bench import lossy
from tests.bench.measurement import cpu_seconds, pin
from tests.bench.tool_call import resident
from tests.system.hosting import Host, running, sample

AT_A_TIME = 8
SECTION = "\n[quic]\nenabled = true\n"

Connect = Callable[[], Any]


def credentials(host: Host) -> dict[str, Any]:
    """The files of the sample's agent."""
    demo = host.state / "agents" / "demo"
    return {"trust": host.state / "ca.pem", "cert": demo / "agent.pem", "key": demo / "agent.key"}


def call_many(host: Host, calls: int, at_a_time: int, *, quic: bool) -> None:
    """Make so many calls of a registered function, so many at a time."""

    async def work() -> None:
        async with aio.Client(**credentials(host), quic=quic, timeout=60.0) as client:
            left = iter(range(calls))

            async def worker() -> None:
                for _ in left:
                    answer = await client.call(host.uri, "ECHO", "/text", {"text": "the quick brown fox"})
                    assert answer.status == 200, answer.json()

            await asyncio.gather(*(worker() for _ in range(at_a_time)))

    asyncio.run(work())


def connectors(host: Host) -> dict[str, Connect]:
    """What makes a connection by each carrier, with the client's certificate."""
    settings = tls.TLSSettings(**credentials(host))
    context, quic = tls.stdlib_context(settings), load_credentials(settings)
    place = Destination("127.0.0.1", host.port)

    def by_tls() -> Any:
        return blocking_connection.connect(place, context, CLIENT_LIMITS, Deadline(time.monotonic, 30.0))

    def by_quic() -> Any:
        return blocking.connect(place, quic, CLIENT_LIMITS, Deadline(time.monotonic, 30.0), time.monotonic)

    return {"TLS": by_tls, "QUIC": by_quic, "TLS, again": by_tls}


def shake_hands(connect: Connect, count: int) -> None:
    """Make so many connections, one after the other."""
    for _ in range(count):
        connect().close()


def measure_memory(host: Host, connect: Connect, count: int) -> float:
    """Return KiB of the host's resident memory for each of so many idle connections."""
    with contextlib.ExitStack() as held:
        before = resident(host)
        for _ in range(count):
            held.callback(connect().close)
        time.sleep(0.5)
        return (resident(host) - before) / count / 1024


def measure_host(host: Host, calls: int, handshakes: int, idle: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the host's CPU of a call and of a handshake in microseconds, and KiB of an idle connection."""
    connect = connectors(host)
    work: dict[str, tuple[Callable[[], None], int]] = {}
    for at_a_time in (1, AT_A_TIME):
        for name in connect:
            job: Callable[[], None] = partial(call_many, host, calls, at_a_time, quic=name == "QUIC")
            work[f"call, {at_a_time} at a time|{name}"] = job, calls
    for name, each in connect.items():
        work[f"handshake|{name}"] = partial(shake_hands, each, handshakes), handshakes
    found: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, (job, count) in work.items():
            before = cpu_seconds(host.process.pid)
            job()
            if number:  # The first round warms up.
                found[name].append((cpu_seconds(host.process.pid) - before) / count * 1e6)
    figures: dict[str, dict[str, float]] = {}
    for name, values in found.items():
        what, _, carrier = name.partition("|")
        figures.setdefault(f"CPU us, {what}", {})[carrier] = round(statistics.median(values))
    memory = {name: measure_memory(host, each, idle) for name, each in connect.items()}
    figures["KiB, idle connection"] = {name: round(value) for name, value in memory.items()}
    return figures


@contextlib.contextmanager
def measured_host(folder: Path) -> Iterator[Host]:
    """The sample host with both carriers, on the first core."""
    folder.mkdir()
    with running(sample(folder, append=SECTION), prefix=("taskset", "-c", "0")) as host:
        yield host


def bench(calls: int, handshakes: int, idle: int, rounds: int, lossy_calls: int) -> dict[str, Any]:
    """
    Measure all.

    :param lossy_calls: calls of a round on each lossy network; 0: loss is not measured.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        of_loss = lossy.measure(folder, rounds, lossy_calls) if lossy_calls else {}
        pin(1)
        with measured_host(folder / "host") as host:
            of_host = measure_host(host, calls, handshakes, idle, rounds)
    return {"host": of_host, "loss": of_loss}


def main() -> None:
    """Measure both carriers and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.carriers", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="of one round of one carrier (default: 1000)")
    parser.add_argument("--handshakes", type=int, default=200, help="of one round of one carrier (default: 200)")
    parser.add_argument("--idle", type=int, default=500, help="idle connections (default: 500)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--lossy", type=int, default=400, help="calls of a round with loss; 0: none (default: 400)")
    given = parser.parse_args()
    found = bench(given.calls, given.handshakes, given.idle, given.rounds, given.lossy)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
