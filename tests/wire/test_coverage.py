"""The wire package is covered in full, statements and branches (P2 of the test programme)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INNER = "AGTP_WIRE_COVERAGE"


def coverage(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the coverage tool in a process of its own."""
    environment = {**os.environ, "COVERAGE_FILE": str(data), INNER: "1"}
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def covered(data: Path, selection: str) -> subprocess.CompletedProcess[str]:
    """Run some of these tests under measurement, and report with 100 as the least that will do."""
    ran = coverage(
        data, "run", "--source", "agtphost/wire", "--branch",
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/wire", "-k", selection,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return coverage(data, "report", "--fail-under=100")


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.skipif(INNER in os.environ, reason="this is the measured run itself")
def test_every_statement_and_branch_is_reached(tmp_path: Path) -> None:
    """P2: 100 %. The deliveries that only repeat are left out to save time."""
    report = covered(tmp_path / "coverage", "not boundary and not good_message and not control")
    assert report.returncode == 0, report.stdout


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.skipif(INNER in os.environ, reason="this is the measured run itself")
def test_control_an_incomplete_suite_is_noticed(tmp_path: Path) -> None:
    """The header tests alone do not cover the package, and the report says so."""
    report = covered(tmp_path / "coverage", "test_headers")
    assert report.returncode == 2, report.stdout
    assert "connection.py" in report.stdout
