"""The figures of both carriers: the page shows all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.lossy import LOSSES, ROUND_TRIPS, name_first, name_loss

ROOT = Path(__file__).resolve().parents[2]
CARRIERS = ["TLS", "QUIC", "TLS, again"]


def test_the_page_has_all_figures() -> None:
    """docs/quic.rst has a row for each thing that is measured."""
    shown = (ROOT / "docs" / "quic.rst").read_text()
    for row in ("a call, one at a time", "a call, 8 at a time", "a handshake", "an idle connection"):
        assert f"* - {row}" in shown, row
    for row in (*map(name_first, ROUND_TRIPS), *map(name_loss, LOSSES)):
        assert f"* - {row}" in shown, row


@pytest.mark.release
@pytest.mark.timeout(600)
def test_the_command_measures_both_carriers() -> None:
    """A short run has a figure of each carrier for everything."""
    words = ["--calls", "50", "--handshakes", "20", "--idle", "20", "--rounds", "1", "--lossy", "40"]
    command = [sys.executable, "-m", "tests.bench.carriers", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["loss"]) == len(LOSSES) + len(ROUND_TRIPS)
    for what, figures in found["host"].items():
        assert [*figures] == CARRIERS, what
        assert what.startswith("KiB") or all(figures.values()), what
