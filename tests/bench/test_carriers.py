"""The figures of both carriers: what loss does is the same in every run, and the page shows all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.carriers import LOSSES, ROUND_TRIPS, simulate
from tests.protocols.quic.network import quic_site

ROOT = Path(__file__).resolve().parents[2]
CARRIERS = ["TLS", "QUIC", "TLS, again"]


def test_a_lossy_network_has_the_same_figures_again(tmp_path: Path) -> None:
    """In virtual time a seed decides all: no answer is sooner than the network allows, and loss delays some."""
    site = quic_site(tmp_path)
    lossless, lossy, again = (simulate(site, loss, 0.04, 40, 7) for loss in (0.0, 0.1, 0.1))
    assert lossy == again != lossless
    assert 80 <= lossless["first answer ms"] < 100  # Two round trips: the handshake, and the call.
    assert 45 <= lossless["p50 ms"] <= lossy["p50 ms"]
    assert lossless["p99 ms"] < lossy["p99 ms"]


def test_the_page_has_all_figures() -> None:
    """docs/quic.rst has a row for each thing that is measured, and says what is not."""
    shown = (ROOT / "docs" / "quic.rst").read_text()
    for row in ("a call, one at a time", "a call, 8 at a time", "a handshake", "an idle connection"):
        assert f"* - {row}" in shown, row
    for round_trip in ROUND_TRIPS:
        for loss in LOSSES:
            assert f"* - {round_trip * 1000:g} ms, {loss:.0%} lost" in shown, (round_trip, loss)
    assert "tc netem" in shown


@pytest.mark.release
@pytest.mark.timeout(600)
def test_the_command_measures_both_carriers() -> None:
    """A short run has a figure of each carrier for everything."""
    words = ["--calls", "50", "--handshakes", "20", "--idle", "20", "--rounds", "1", "--simulated", "50"]
    command = [sys.executable, "-m", "tests.bench.carriers", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["loss"]) == len(LOSSES) * len(ROUND_TRIPS)
    for what, figures in found["host"].items():
        assert [*figures] == CARRIERS, what
        assert what.startswith("KiB") or all(figures.values()), what
