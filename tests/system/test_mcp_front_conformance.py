"""
The official MCP conformance suite against the host's own MCP front, as it runs against the bridge.

The way of every message: the suite, Streamable HTTP with a token or over TLS with a certificate, the dispatcher, a
server on the official SDK.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programmes import length
from tests.system.bridging import fixture
from tests.system.fronting import certificate_of, front, porter, token_of, write_tokens
from tests.system.hosting import Host, free_port, running, sample
from tests.system.test_bridge_conformance import FURTHER, examine, faults, required
from tests.system.trail import database, stored, verified

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(600)]

CLIENTS = {"suite": "demo"}


@pytest.fixture(scope="module")
def fronted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int, int]]:
    """A host with the fixture server in both eras and a front; the front's port, and the suite's."""
    port = free_port()
    way = free_port()
    hosts = f'hosts = ["127.0.0.1", "localhost"]\norigins = ["http://127.0.0.1:{way}", "http://localhost:{way}"]'
    # The suite calls the first tool of a list and takes one away, so that a server is examined in one revision once.
    servers = "".join(fixture(name, 'min_assurance = "gateway"') for name in ("modern", "fresh")) + fixture(
        "handshake", 'protocol = "2025-11-25"', 'isolation = "per-session"', 'min_assurance = "gateway"'
    )
    config = sample(tmp_path_factory.mktemp("front"), append=front(port, CLIENTS, hosts, secure=True) + servers)
    write_tokens(config.parent, CLIENTS)
    with running(config) as host:
        yield host, port, way


CASES = (
    ("modern", "2026-07-28", "token", 37),
    ("modern", "2025-11-25", "certificate", 30),
    ("handshake", "2025-11-25", "token", 30),
    ("fresh", "2026-07-28", "certificate", 37),
)
"""What the server behind the host speaks, the revision, the suite's credential, and its scenarios."""


@pytest.mark.programme
@pytest.mark.parametrize(("upstream", "revision", "credential", "count"), length(CASES[:1], CASES))
def test_every_required_scenario_passes(
    upstream: str, revision: str, credential: str, count: int, fronted: tuple[Host, int, int], tmp_path: Path
) -> None:
    """
    All server scenarios of a revision, and those that are not scored, without a failure or a warning.

    Shortened, with one credential in one era; the bridge, on the same host, has the other in the ordinary run.
    """
    host, port, way = fronted
    scenarios = required(revision)
    assert len(scenarios) == count
    scenarios += FURTHER[revision]
    secure = certificate_of(host, "demo")
    if credential == "token":
        secure = certificate_of(host, "")
    with porter(way, port, token_of("suite") if credential == "token" else "", secure) as base:
        found = examine(f"{base}/mcp/{upstream}", revision, tmp_path)
    assert {name: faults(found[name]) for name in scenarios if faults(found[name])} == {}
    assert all(any(check["status"] == "SUCCESS" for check in found[name]) for name in scenarios)
    assert "Traceback" not in host.output


@pytest.mark.programme
def test_everything_that_the_suite_did_is_recorded(fronted: tuple[Host, int, int]) -> None:
    """The records of a host that the suite drove verify."""
    records = stored(database(fronted[0]))
    assert verified(fronted[0], records).faults == []
    assert len(records) > 100
