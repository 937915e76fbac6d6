"""The table of the benchmarks says what was measured, and the command for users runs."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.bench.load import Tally
from tests.bench.measurement import Figures
from tests.bench.report import CONNECTIONS, Run, picture, ratios, text

FUNCTIONS = ("function", "function, again", "gateway", "front", "bare Twisted TLS", "official SDK, best mode")
TOOLS = ("pipe client alone", "AGTP", "gateway", "front", "bridge", "mcp-proxy", "mcpo")
ROOT = Path(__file__).resolve().parents[2]


def made(*names: str) -> dict[str, dict[str, float]]:
    """Figures of subjects, each twice as dear and half as fast as the one before it."""
    return {
        f"{name}@{at}": {
            "requests_per_second": 8000 / 2**place,
            "cpu_us": 0.0 if name.startswith("pipe") else 100.0 * 2**place,
            "p50_ms": 1.0 * 2**place,
            "p99_ms": 3.0 * 2**place,
            "spread": 0.05,
        }
        for place, name in enumerate(names)
        for at in CONNECTIONS
    }


RUN = Run(
    about={"date": "2026-01-01"},
    functions=made(*FUNCTIONS, "official SDK, default"),
    tools=made(*TOOLS),
    kib_per_idle_connection=38.0,
    fdatasync_ms=0.4,
)


def test_ratios_have_both_numbers() -> None:
    """Of the CPU of a call where functions are compared, of calls a second where tools are."""
    found = {each["name"]: (each["ours"], each["theirs"], each["ratio"]) for each in ratios(RUN)}
    assert found["function, again / function, 64 connections"] == (5000, 10000, 0.5)
    assert found["function / bare Twisted TLS, 64 connections"] == (10000, 625, 16)
    assert found["tool / pipe client alone, 16 at a time"] == (4000, 8000, 0.5)
    assert found["tool by bridge / best proxy, 1 at a time"] == (500, 250, 2)
    assert found["tool / pipe client alone (lower is better), 1 connection"] == (2, 1, 2)


def test_ratios_do_without_the_proxies_of_others() -> None:
    """Nothing is compared with what was not measured."""
    own: Run = {**RUN, "tools": made(*TOOLS[:5])}
    assert len(ratios(own)) == len(ratios(RUN)) - 6
    assert not [each["name"] for each in ratios(own) if "proxy" in each["name"]]


def test_each_subject_is_a_line_and_a_bar() -> None:
    """The table has all figures of a subject; what has no CPU of its own has a dash, and no bar of it."""
    table = text(RUN).splitlines()
    (line,) = [each for each in table if each.startswith("front  ")][:1]
    assert line.split() == ["front", *["1000"] * 3, *["800"] * 3, *["8"] * 3, "3.00", "5.0%"]
    (line,) = [each for each in table if each.startswith("pipe client alone")][:1]
    assert line.split()[6:9] == ["-"] * 3
    drawn = ET.fromstring(picture(RUN))
    bars = [each for each in drawn if each.tag.endswith("rect")]
    assert len(bars) == 1 + len(FUNCTIONS) + 1 + len(TOOLS)
    assert float(bars[1].attrib["width"]) * 2 == pytest.approx(float(bars[2].attrib["width"]), abs=0.2)


def test_a_wrong_answer_ends_the_run() -> None:
    """The control: figures of refusals are no figures."""
    with pytest.raises(AssertionError, match="1 of 2 answers"):
        Figures().add(Tally(requests=2, seconds=1.0, latencies=[0.1, 0.1], bad=1, example=b"no"), 0.5)


def test_the_page_has_a_whole_run() -> None:
    """docs/performance.rst shows a table with each subject, its A/A line among them, and a picture of the same run."""
    shown = (ROOT / "docs" / "performance.txt").read_text().splitlines()
    for name in (*FUNCTIONS, "official SDK, default", *TOOLS, "FastMCP's proxy"):
        assert any(line.startswith(f"{name:26}") and len(line.split()) > 9 for line in shown), name
    bars = (ROOT / "docs" / "performance.svg").read_text().count("<rect")
    assert bars == 1 + len(FUNCTIONS) + 1 + len(TOOLS) + 1


@pytest.mark.release
@pytest.mark.timeout(900)
def test_the_command_measures_all_subjects(tmp_path: Path) -> None:
    """A short run of the host's own doors, with JSON and a picture; the proxies of others are left out."""
    words = ["--seconds", "0.3", "--rounds", "1", "--own", "--json", "--picture", str(tmp_path / "speed.svg")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert {name.partition("@")[0] for name in run["tools"]} == set(TOOLS[:5])
    assert all(figures["requests_per_second"] > 0 for figures in (*run["functions"].values(), *run["tools"].values()))
    assert all(run["functions"][f"{name}@64"]["cpu_us"] > 0 for name in FUNCTIONS)
    assert (tmp_path / "speed.svg").read_text().startswith("<svg")
