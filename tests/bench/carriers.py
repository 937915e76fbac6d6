"""
What QUIC costs beside TLS, and what loss does to it: ``python -m tests.bench.carriers``.

One host on one core, called by the same client over both carriers in interleaved rounds; what counts is the host's own
CPU time. TLS is measured twice, which is the error of the others. Loss is that of a network in virtual time, which
drops datagrams by a seed: its figures hold the network's delays and the protocol's timers, without the time of a
processor. TLS has no figures of loss: the system's own TCP would need ``tc netem``.
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
from tests.bench.measurement import cpu_seconds, pin
from tests.bench.tool_call import resident
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.links import FakeDispatcher, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicHost, quic_site
from tests.system.hosting import Host, running, sample

LOSSES = (0.0, 0.01, 0.03)
ROUND_TRIPS = (0.04, 0.15)
SEED = 20_261_129
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
            job = partial(call_many, host, calls, at_a_time, quic=name == "QUIC")
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


def simulate(site: Site, loss: float, round_trip: float, calls: int, seed: int) -> dict[str, float]:
    """
    Return what a client sees of a lossy network in virtual time, with eight calls at a time on one connection.

    :param loss: share of the datagrams that are lost.
    :param round_trip: seconds.
    """
    network = Network(seed, loss=loss, delay=round_trip / 2)
    dispatcher = FakeDispatcher(lambda request, peer, interim: _answer_soon(network, request))
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site))
    client.connect().call(call_of())
    first = network.clock.seconds()
    out: dict[Any, float] = {}
    took: list[float] = []
    sent = len(network.carried)
    while len(took) < calls:
        while len(out) < AT_A_TIME and len(took) + len(out) < calls:
            out[client.ask(call_of("BOOK", f"task-{len(took) + len(out)}"))] = network.clock.seconds()
        network.run(lambda: not all(call.is_out for call in out))
        ended = [each for each in out if not each.is_out]
        took.extend(network.clock.seconds() - out.pop(call) for call in ended)
    took.sort()
    return {
        "first answer ms": round(first * 1000),
        "p50 ms": round(took[len(took) // 2] * 1000),
        "p99 ms": round(took[int(len(took) * 0.99)] * 1000),
        "datagrams a call": round((len(network.carried) - sent) / calls, 1),
    }


def _answer_soon(network: Network, request: Any) -> Any:
    """Answer with a kilobyte after ten milliseconds, give or take five."""
    from twisted.internet.task import deferLater

    late = 0.005 + network.random.random() * 0.01
    return deferLater(network.clock, late, lambda: reply(request, b"x" * 1000))


def measure_loss(folder: Path, calls: int, seed: int = SEED) -> dict[str, dict[str, float]]:
    """Return what loss does at each round trip."""
    site = quic_site(folder)
    return {
        f"{round_trip * 1000:g} ms, {loss:.0%} lost": simulate(site, loss, round_trip, calls, seed)
        for round_trip in ROUND_TRIPS
        for loss in LOSSES
    }


@contextlib.contextmanager
def measured_host(folder: Path) -> Iterator[Host]:
    """The sample host with both carriers, on the first core."""
    with running(sample(folder, append=SECTION), prefix=("taskset", "-c", "0")) as host:
        yield host


def bench(calls: int, handshakes: int, idle: int, rounds: int, simulated: int) -> dict[str, Any]:
    """Measure all."""
    pin(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "host").mkdir()
        with measured_host(folder / "host") as host:
            of_host = measure_host(host, calls, handshakes, idle, rounds)
        return {"host": of_host, "loss": measure_loss(folder, simulated)}


def main() -> None:
    """Measure both carriers and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.carriers", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="of one round of one carrier (default: 1000)")
    parser.add_argument("--handshakes", type=int, default=200, help="of one round of one carrier (default: 200)")
    parser.add_argument("--idle", type=int, default=500, help="idle connections (default: 500)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--simulated", type=int, default=2000, help="calls on each lossy network (default: 2000)")
    given = parser.parse_args()
    found = bench(given.calls, given.handshakes, given.idle, given.rounds, given.simulated)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
