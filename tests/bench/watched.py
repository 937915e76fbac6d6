"""
What being watched over costs: ``python -m tests.bench.watched``.

Two hosts on one core, alike but for what is compared; one is loaded, then the other, by turns. What counts is requests
per second of the host's own CPU time, each round against the one beside it, so that a machine that is shared moves
both. In each round of the host with metrics they are scraped once, which is several times as often as Prometheus does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.load import Tally, client_context, run
from tests.bench.measurement import agtp_request, measured, pin
from tests.system.hosting import Host, free_port, running, sample
from tests.system.scraping import scrape, total

CONNECTIONS = 16


@contextmanager
def two(folder: Path, compared: str) -> Iterator[tuple[Host, Host]]:
    """A host without, and one with."""
    core = ("taskset", "-c", "0")
    for name in ("plain", "watched"):
        (folder / name).mkdir()
    with (
        running(sample(folder / "plain"), prefix=core) as plain,
        running(sample(folder / "watched", append=compared), prefix=core) as watched,
    ):
        yield plain, watched


def loading(host: Host, seconds: float) -> Callable[[], Tally]:
    """Calls of a registered function by an identified agent, on several connections."""
    demo = host.state / "agents" / "demo"
    context = client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    octets = agtp_request(json.loads((demo / "document.json").read_text())["agent_id"])

    def load() -> Tally:
        return run(
            ("127.0.0.1", host.port),
            context,
            lambda: octets,
            connections=CONNECTIONS,
            seconds=seconds,
            good=b"AGTP/1.0 200",
        )

    return load


def bench(seconds: float, rounds: int, access: bool) -> dict[str, object]:
    """Requests per CPU second without and with, and the share that is lost: of each pair of rounds, the median."""
    pin(1)
    port = free_port()
    compared = f'\n[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\n' + (
        "\n[log]\naccess = true\n" if access else ""
    )
    with tempfile.TemporaryDirectory() as temporary, two(Path(temporary), compared) as (plain, watched):
        without, under = loading(plain, seconds), loading(watched, seconds)

        def scraped() -> Tally:
            tally = under()
            scrape(port)
            return tally

        rates: dict[str, list[float]] = {"plain": [], "watched": []}
        answered = 0
        for number in range(rounds + 1):
            pair = [("plain", plain, without), ("watched", watched, scraped)]
            for name, host, load in pair if number % 2 else reversed(pair):
                tally, cpu = measured(load, host.process.pid)
                assert tally.bad == 0, tally.example
                answered += tally.requests if name == "watched" else 0
                if number:  # the first round warms both up
                    rates[name].append(tally.requests / cpu)
        counted = total(scrape(port), "agtphost_calls_total", method="ECHO", status="200")
    lost = sorted(1 - with_it / alone for alone, with_it in zip(rates["plain"], rates["watched"], strict=True))
    return {
        "requests_per_cpu_second": {name: round(statistics.median(found)) for name, found in rates.items()},
        "lost_percent": {
            "median": round(statistics.median(lost) * 100, 2),
            "quartiles": [round(found * 100, 2) for found in statistics.quantiles(lost, n=4)[::2]],
        },
        "answered": answered,
        "counted": int(counted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round of one host")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--access", action="store_true", help="with the access log, too")
    given = parser.parse_args()
    print(json.dumps(bench(given.seconds, given.rounds, given.access), indent=2))


if __name__ == "__main__":
    main()
