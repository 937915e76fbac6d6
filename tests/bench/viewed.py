"""
What one viewer of the live feed costs: ``python -m tests.bench.viewed``.

One host on one core, loaded by turns with nobody at its page and with one who looks at the feed. What counts is
requests per second of the host's own CPU time, each round against the one beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.measurement import measured, pin
from tests.bench.watched import loading
from tests.page.browsing import Browser, Site, served


class Viewer:
    """Reads the feed as it comes, and counts its events."""

    def __init__(self, site: Site, browser: Browser) -> None:
        self.events = 0
        context = ssl.create_default_context(cafile=str(site.trust))
        self._connection = http.client.HTTPSConnection("127.0.0.1", site.port, timeout=30, context=context)
        self._connection.request("GET", "/live", headers={"Cookie": browser.cookie})
        self._socket = self._connection.sock
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # The end of the round closes the connection under it.
        with suppress(OSError, ValueError, http.client.HTTPException):
            while line := self._response.readline():
                self.events += line.startswith(b"data: {")

    def leave(self) -> None:
        """Close the feed."""
        with suppress(OSError):
            self._socket.shutdown(2)
        self._thread.join(10)
        self._connection.close()


@contextmanager
def looking(site: Site, browser: Browser) -> Iterator[Viewer]:
    """One who looks."""
    viewer = Viewer(site, browser)
    try:
        yield viewer
    finally:
        viewer.leave()


def bench(seconds: float, rounds: int) -> dict[str, object]:
    """Requests per CPU second without and with, and the share that is lost: of each pair of rounds, the median."""
    pin(1)
    rates: dict[str, list[float]] = {"alone": [], "viewed": []}
    events = 0
    with tempfile.TemporaryDirectory() as temporary, served(Path(temporary)) as site:
        os.sched_setaffinity(site.host.process.pid, {min(os.sched_getaffinity(site.host.process.pid))})
        browser, load = site.browser(), loading(site.host, seconds)
        for number in range(rounds + 1):
            for name in ("alone", "viewed") if number % 2 else ("viewed", "alone"):
                if name == "viewed":
                    with looking(site, browser) as viewer:
                        tally, cpu = measured(load, site.host.process.pid)
                    events += viewer.events
                else:
                    tally, cpu = measured(load, site.host.process.pid)
                assert tally.bad == 0, tally.example
                if number:  # the first round warms it up
                    rates[name].append(tally.requests / cpu)
    lost = sorted(1 - viewed / alone for alone, viewed in zip(rates["alone"], rates["viewed"], strict=True))
    return {
        "requests_per_cpu_second": {name: round(statistics.median(found)) for name, found in rates.items()},
        "lost_percent": {
            "median": round(statistics.median(lost) * 100, 2),
            "quartiles": [round(found * 100, 2) for found in statistics.quantiles(lost, n=4)[::2]],
        },
        "events": events,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(json.dumps(bench(given.seconds, given.rounds), indent=2))


if __name__ == "__main__":
    main()
