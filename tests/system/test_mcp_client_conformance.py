"""
The official MCP conformance suite against the host's own MCP peer.

The way of every message: an agent, AGTP over mutual TLS, a host of its own for each scenario, the suite's server. See
:mod:`tests.system.conformance_client`, which is what the suite starts. Nothing is excused: a scenario passes where
every check of it plainly succeeds.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import forking
from tests.npm import document, node
from tests.programmes import length

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(180)]

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
ROOT = Path(__file__).resolve().parents[2]

SCENARIOS = [
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "elicitation-sep1034-client-defaults"),
    ("2025-11-25", "sse-retry"),
    ("2025-11-25", "json-schema-2020-12-preservation"),
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "sep-2322-client-request-state"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-custom-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
]
"""Every scenario that a revision lists for clients, the unscored one included, but those of OAuth's user flows."""

IMPLIED = {
    ("2025-11-25", "tools_call"),
    ("2026-07-28", "tools_call"),
    ("2025-11-25", "json-schema-2020-12-preservation"),
}
"""Of the long run alone: other scenarios of both revisions call tools, and 2026-07-28 has the same schemas."""

ABSENT = {
    "ClientMcpMethodHeader_initialize",
    "ClientMcpMethodHeader_notifications_initialized",
}
"""Checks that the suite skips by itself: they are about messages that 2026-07-28 does not have."""


def faults(checks: list[dict[str, Any]]) -> list[str]:
    """Checks that did not plainly pass; warnings and skipped ones count, but for :data:`ABSENT`."""
    return [
        f"{check['name']}: {check['status']} {check.get('errorMessage', '')}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO") and not (check["status"] == "SKIPPED" and check["name"] in ABSENT)
    ]


def examine(scenario: str, revision: str, results: Path, command: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run one scenario: the suite's exit status, its checks, and what was said."""
    suite = [str(node()), str(document(PACKAGE, "dist/index.js", VERSION)), "client", "--command", command]
    done = subprocess.run(
        [*suite, "--scenario", scenario, "--spec-version", revision, "--timeout", "90000", "-o", str(results)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=ROOT,
        env={**os.environ, **forking.shared()},
    )
    found = list(results.glob("*/checks.json"))
    assert len(found) == 1, done.stdout + done.stderr
    said = "".join((found[0].parent / name).read_text() for name in ("stdout.txt", "stderr.txt"))
    return done.returncode, json.loads(found[0].read_text()), said


@pytest.mark.programme
@pytest.mark.parametrize(
    ("revision", "scenario"), length([each for each in SCENARIOS if each not in IMPLIED], SCENARIOS)
)
def test_the_host_is_a_conforming_client(revision: str, scenario: str, tmp_path: Path) -> None:
    """AGTP-271, AGTP-273: what the host sends to an MCP server passes every check of the suite, in both eras."""
    command = shlex.join(forking.launched(forking.product(), ROOT / "tests" / "system" / "conformance_client.py"))
    status, checks, said = examine(scenario, revision, tmp_path, command)
    assert faults(checks) == [], said
    assert status == 0, said
    assert any(check["status"] == "SUCCESS" for check in checks)
    assert "Unhandled" not in said


def test_no_scenario_is_left_out() -> None:
    """The scenarios are those that the suite's own requirement files have for clients, without OAuth's."""
    for revision in ("2025-11-25", "2026-07-28"):
        required = yaml.safe_load(document(PACKAGE, f"requirements/{revision}.yaml", VERSION).read_text())
        unscored = [entry["scenario"] for entry in required["not_scored"] if entry["leg"] == "client"]
        named = {name for name in (*required["client"], *unscored) if not name.startswith("auth/")}
        assert named == {scenario for known, scenario in SCENARIOS if known == revision}


@pytest.mark.release
def test_control_a_client_that_does_nothing_fails(tmp_path: Path) -> None:
    """The control: the suite notices a client that never calls, and a skipped check counts."""
    status, checks, _ = examine("http-standard-headers", "2026-07-28", tmp_path, "true")
    assert len(faults(checks)) > 5
    assert faults([{"name": "other", "status": "SKIPPED"}]) == ["other: SKIPPED "]
    status, checks, _ = examine("http-custom-headers", "2026-07-28", tmp_path / "second", "true")
    assert status != 0
    assert faults(checks)
