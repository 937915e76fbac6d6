"""
The official MCP conformance suite against the bridge.

The way of every message: the suite, ``agtp mcp-bridge --http``, AGTP over mutual TLS, the host, a server on the
official SDK. That server speaks 2026-07-28 or, pinned, 2025-11-25.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests import forking
from tests.npm import document, node, program
from tests.programmes import CHOSEN, length
from tests.system.bridging import fixture, http_bridge
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.trail import database, stored, verified

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(600)]

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"


FURTHER = {
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12"],
    "2026-07-28": [
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
        "json-schema-2020-12",
        "http-header-validation",
        "http-custom-header-server-validation",
    ],
}
"""Scenarios that the suite runs and does not score: extensions, and those that came later."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the fixture server in both eras."""
    servers = fixture("modern") + fixture("handshake", 'protocol = "2025-11-25"', 'isolation = "per-session"')
    with running(sample(tmp_path_factory.mktemp("conformance"), append=servers)) as host:
        yield host


ASKING = str(Path(__file__).with_name("asking_server.py"))
OTHERS = {
    "asking": lambda: forking.mcp_server(ASKING),
    "everything": lambda: [program("mcp-server-everything")],
}
"""Servers that others wrote, or as the official SDK makes them, configured with a name and a command alone."""

OVER_HTTP = {"asking": "{port}", "everything": "streamableHttp"}
"""What makes them serve HTTP themselves."""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with these."""
    servers = "".join(
        f'\n[[mcp.server]]\nname = "{name}"\ncommand = {json.dumps(command())}\n' for name, command in OTHERS.items()
    )
    with running(sample(tmp_path_factory.mktemp("others"), append=servers)) as host:
        yield host


@contextmanager
def direct(name: str) -> Iterator[str]:
    """One of these servers itself, over HTTP; its URL."""
    port = free_port()
    command = [*OTHERS[name](), OVER_HTTP[name].format(port=port)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, "PORT": str(port)}, stdout=quiet, stderr=quiet)

    def accepts() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(lambda: accepts() or process.poll() is not None, 60)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(20)


def required(revision: str) -> list[str]:
    """The server scenarios that the suite says a revision requires."""
    found = yaml.safe_load(document(PACKAGE, f"requirements/{revision}.yaml", VERSION).read_text())
    scenarios: list[str] = found["server"]
    return scenarios


def examine(url: str, revision: str, results: Path, scenario: str = "") -> dict[str, list[dict[str, str]]]:
    """Run the suite, or one scenario of it; its checks by scenario."""
    command = [str(node()), str(document(PACKAGE, "dist/index.js", VERSION)), "server", "--url", url]
    chosen = (
        ["--scenario", scenario, "--spec-version", revision, "--force"] if scenario else ["--requirements", revision]
    )
    done = subprocess.run(
        [*command, *chosen, "-o", str(results)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    found: dict[str, list[dict[str, str]]] = {}
    for file in results.glob("*/checks.json"):
        # server-SCENARIO-2026-11-21T07-06-23-005Z
        scenario = file.parent.name.removeprefix("server-")[: -len("-2026-11-21T07-06-23-005Z")]
        found[scenario] = json.loads(file.read_text())
    assert found, done.stdout + done.stderr
    return found


def faults(checks: list[dict[str, str]]) -> list[str]:
    """Checks of a scenario that did not pass; warnings and skipped ones count."""
    return [
        f"{check['id']}: {check['status']} {check.get('errorMessage', '')}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO")
    ]


REQUIRED = [("handshake", "2025-11-25", 30), ("modern", "2026-07-28", 37), ("modern", "2025-11-25", 30)]
"""Server, revision of the client, and number of its scenarios."""


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize(("upstream", "revision", "count"), length(REQUIRED[:1], REQUIRED))
def test_every_required_scenario_passes(upstream: str, revision: str, count: int, host: Host, tmp_path: Path) -> None:
    """
    All server scenarios of a revision, without a failure or a warning, whichever era the hosted server speaks.

    And those of the tasks extension, and of JSON Schema and HTTP headers, which are not scored. Shortened, it is
    the handshake's revision before a server of its own era; the front's test has the other, test_bridge_matrix.py all.
    """
    scenarios = required(revision)
    assert len(scenarios) == count
    scenarios += FURTHER[revision]
    with http_bridge(host, "--server", upstream) as bridge:
        found = examine(bridge.url, revision, tmp_path)
        assert bridge.stop() == 0
    assert {name: faults(found[name]) for name in scenarios if faults(found[name])} == {}
    assert all(any(check["status"] == "SUCCESS" for check in found[name]) for name in scenarios)
    assert not [line for line in bridge.lines if "Traceback" in line]


PASSED = {
    ("asking", "2025-11-25"): (
        *("dns-rebinding-protection", "ping", "prompts-get-simple", "prompts-list", "resources-list"),
        *("resources-read-text", "server-initialize", "server-session-lifecycle"),
        *("server-sse-multiple-streams", "tools-call-elicitation", "tools-call-error"),
        *("tools-call-sampling", "tools-call-simple-text", "tools-call-with-progress", "tools-list"),
    ),
    ("asking", "2026-07-28"): (
        *("caching", "dns-rebinding-protection", "http-header-validation"),
        *("input-required-result-ignore-extra-params", "input-required-result-unsupported-methods"),
        *("prompts-get-simple", "prompts-list", "resources-list", "resources-read-text"),
        *("sep-2164-resource-not-found", "server-sse-multiple-streams", "tools-call-error"),
        *("tools-call-simple-text", "tools-call-with-progress", "tools-list"),
    ),
    ("everything", "2025-11-25"): (
        *("logging-set-level", "ping", "prompts-list", "resources-list", "resources-subscribe"),
        *("resources-unsubscribe", "server-initialize", "server-sse-multiple-streams", "tools-call-error"),
        *("tools-call-simple-text", "tools-list"),
    ),
}
"""Scenarios that a server passes by itself, by its name and the revision."""


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize(("name", "revision"), length([*PASSED][2:], [*PASSED]))
def test_whatever_passes_at_a_server_itself_passes_behind_host_and_bridge(
    name: str, revision: str, others: Host, tmp_path: Path
) -> None:
    """
    At default settings, for a server that speaks both eras and for one of 2025-11-25: every scenario that it passes.

    Some checks call a tool that the server has not, and look at what it says to that. Shortened, the server itself is
    not examined again, but taken at what is on record, and the one of both eras is left out: in both eras the fixture
    servers pass more, above.
    """
    passed = set(PASSED[name, revision])
    if CHOSEN.whole:
        with direct(name) as url:
            itself = examine(url, revision, tmp_path / "direct")
        assert {scenario for scenario, checks in itself.items() if not faults(checks)} == passed
    with http_bridge(others, "--server", name) as bridge:
        behind = examine(bridge.url, revision, tmp_path / "behind")
    worse = {each: faults(behind[each]) for each in passed}
    assert {each: found for each, found in worse.items() if found} == {}
    asked = {"tools-call-sampling", "tools-call-elicitation"}
    assert (name, revision) != ("asking", "2025-11-25") or asked <= passed


@pytest.mark.release
def test_everything_that_the_suite_did_is_recorded(host: Host) -> None:
    """The records of a host that the suite drove verify, and name the tools it called."""
    records = stored(database(host))
    assert verified(host, records).faults == []
    assert len(records) > 40


def test_control_a_warning_counts() -> None:
    """The control: checks that did not plainly pass are found."""
    checks = [{"id": "a", "status": "SUCCESS"}, {"id": "b", "status": "WARNING"}, {"id": "c", "status": "SKIPPED"}]
    assert [fault[:1] for fault in faults(checks)] == ["b", "c"]
