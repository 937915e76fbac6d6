"""
TLS and QUIC over a network that delays and loses packets; a part of :mod:`tests.bench.carriers`.

Both ends are real programs on the system's own TCP and UDP, see :mod:`tests.bench.lossy_link`; the rounds of both
carriers are interleaved.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.lossy_link import ADDRESSES, LossyLink, lossy_link
from tests.system.hosting import sample

CARRIERS = ("TLS", "QUIC")


ROUND_TRIPS = (0.04, 0.15)
LOSSES = (0.0, 0.01, 0.03)
SEED = 20_261_129
AT_A_TIME = 8
FIRST = 10
"""First answers of a round, each to a new client."""

Figures = dict[str, dict[str, float]]
"""Milliseconds, by carrier and percentile."""


@contextmanager
def host_at(link: LossyLink, config: Path) -> Iterator[None]:
    """Have a host at the server's end as long as the block runs."""
    words = link.command(0, [str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", "agtp", "--config"])
    with subprocess.Popen([*words, str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as host:
        assert host.stdout is not None
        try:
            said = []
            for line in host.stdout:
                said.append(line)
                if "agtphost ready" in line:
                    break
            else:
                raise RuntimeError("".join(said))
            threading.Thread(target=host.stdout.read, daemon=True).start()
            yield
        finally:
            host.terminate()


def call(link: LossyLink, config: Path, carrier: str, calls: int, concurrent: int) -> list[float]:
    """Return the milliseconds of calls from the client's end."""
    words = [
        sys.executable,
        "-m",
        "tests.bench.lossy_client",
        str(config),
        carrier.lower(),
        str(calls),
        str(concurrent),
    ]
    done = subprocess.run(link.command(1, words), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr)
    taken: list[float] = json.loads(done.stdout)
    return taken


def measure(folder: Path, rounds: int, calls: int) -> dict[str, Figures]:
    """
    Measure first answers at each round trip, and calls at each share of lost packets.

    :param calls: of a round of one carrier.
    """
    address = ('address = "127.0.0.1"', f'address = "{ADDRESSES[0]}"')
    config = sample(folder, edit=[address], append="\n[quic]\nenabled = true\n")
    found = {}
    for seconds in ROUND_TRIPS:
        found[name_first(seconds)] = _compare(config, seconds, 0.0, rounds, FIRST, 0)
    for loss in LOSSES:
        found[name_loss(loss)] = _compare(config, ROUND_TRIPS[0], loss, rounds, calls, AT_A_TIME)
    return found


def name_first(round_trip: float) -> str:
    """Return the name of a row of first answers."""
    return f"first answer, {round_trip * 1000:g} ms"


def name_loss(loss: float) -> str:
    """Return the name of a row of calls."""
    return f"{AT_A_TIME} at a time, {ROUND_TRIPS[0] * 1000:g} ms, {loss:.0%} lost"


def _compare(config: Path, round_trip: float, loss: float, rounds: int, calls: int, at_a_time: int) -> Figures:
    taken: dict[str, list[float]] = {carrier: [] for carrier in CARRIERS}
    with lossy_link(round_trip / 2, loss, SEED) as link, host_at(link, config):
        for _ in range(rounds):
            for carrier in CARRIERS:
                taken[carrier] += call(link, config, carrier, calls, at_a_time)
    return {carrier: _percentiles(found) for carrier, found in taken.items()}


def _percentiles(taken: list[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50": round(hundredths[49]), "p99": round(hundredths[98])}
