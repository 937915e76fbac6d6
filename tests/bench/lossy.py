"""
TLS and QUIC over a network that delays and loses packets: ``python -m tests.bench.lossy``.

Both ends are real programs on the system's own TCP and UDP, see :mod:`tests.bench.lossy_link`; the rounds of both
carriers are interleaved. Needs Linux and root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.lossy_link import ADDRESSES, LossyLink, lossy_link
from tests.system.hosting import sample

CARRIERS = ("tls", "quic")


@dataclass(frozen=True)
class Line:
    """What one carrier took under one condition, in milliseconds."""

    what: str
    carrier: str
    p50: float
    p99: float
    calls: int

    def __str__(self) -> str:
        return f"{self.what:44} {self.carrier:5} {self.p50:8.1f} {self.p99:8.1f}  {self.calls:5}"


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
    words = [sys.executable, "-m", "tests.bench.lossy_client", str(config), carrier, str(calls), str(concurrent)]
    done = subprocess.run(link.command(1, words), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr)
    taken: list[float] = json.loads(done.stdout)
    return taken


def measure(config: Path, rounds: int, seed: int) -> Iterator[Line]:
    """Yield the lines of the table."""
    for delay in (0.040, 0.150):
        yield from _compare(config, f"first answer, {delay * 1000:.0f} ms", delay, 0.0, (rounds, 10, 0), seed)
    for loss in (0.0, 0.01, 0.03):
        what = f"8 at a time, 40 ms, {loss:.0%} lost"
        yield from _compare(config, what, 0.040, loss, (rounds, 400, 8), seed)


def _compare(
    config: Path, what: str, delay: float, loss: float, amount: tuple[int, int, int], seed: int
) -> Iterator[Line]:
    rounds, calls, concurrent = amount
    taken: dict[str, list[float]] = {carrier: [] for carrier in CARRIERS}
    with lossy_link(delay / 2, loss, seed) as link, host_at(link, config):
        for _ in range(rounds):
            for carrier in CARRIERS:
                taken[carrier] += call(link, config, carrier, calls, concurrent)
    for carrier, found in taken.items():
        hundredths = statistics.quantiles(found, n=100)
        yield Line(what, carrier, hundredths[49], hundredths[98], len(found))


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each carrier under each condition (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the packets that are lost (default: 1)")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        address = ('address = "127.0.0.1"', f'address = "{ADDRESSES[0]}"')
        config = sample(Path(folder), edit=[address], append="\n[quic]\nenabled = true\n")
        print(f"{'milliseconds a call':44} {'':5} {'p50':>8} {'p99':>8}  calls")
        for line in measure(config, given.rounds, given.seed):
            print(line, flush=True)


if __name__ == "__main__":
    main()
