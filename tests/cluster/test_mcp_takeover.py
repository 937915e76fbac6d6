"""A12: the official MCP conformance suite through bridge and front, with a takeover between two scenarios."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests import postgres
from tests.cluster.hosts import Cluster, cluster, describe
from tests.programmes import CHOSEN, length
from tests.system.bridging import fixture, http_bridge
from tests.system.fronting import certificate_of, front, porter, token_of, write_tokens
from tests.system.hosting import free_port, sample
from tests.system.test_bridge_conformance import FURTHER, examine, faults, required
from tests.system.test_mcp_front import BOTH, HANDSHAKE

pytestmark = [postgres.needed, pytest.mark.npm, pytest.mark.slow]

CLIENTS = {"suite": "demo"}

SHORT = ("tools-list", "tools-call-simple-text")

NOT_ALONE = "http-header-validation"
"""It calls the first tool of the list, which on a server that no other scenario has used does not answer it."""

REVISIONS = {"modern": "2026-07-28", "handshake": "2025-11-25"}
"""What each hosted server speaks, and its client."""

WAYS = ("bridge", "front")
CASES = [(way, server) for way in WAYS for server in REVISIONS]
SHORT_CASES = [("bridge", "handshake"), ("front", "modern")]


@contextmanager
def hosts(folder: Path) -> Iterator[tuple[Cluster, int, int]]:
    """Two hosts with the fixture server in both eras and a front; the front's port, and the suite's."""
    port, way = free_port(), free_port()
    names = f'hosts = ["127.0.0.1", "localhost"]\norigins = ["http://127.0.0.1:{way}", "http://localhost:{way}"]'
    assurance = 'min_assurance = "gateway"'
    servers = fixture("modern", assurance)
    servers += fixture("handshake", 'protocol = "2025-11-25"', 'isolation = "per-session"', assurance)

    def make(place: Path, append: str) -> Path:
        config = sample(place, append=append + front(port, CLIENTS, names, secure=True) + servers)
        write_tokens(config.parent, CLIENTS)
        return config

    with cluster(folder, "east", "west", make=make) as group:
        group.stand_by("west")
        yield group, port, way


@contextmanager
def url_of(way: str, server: str, group: Cluster, ports: tuple[int, int]) -> Iterator[str]:
    """Yield where the suite finds a server: before the bridge, or at the front with a token."""
    first = group.hosts["east"]
    if way == "bridge":
        with http_bridge(first, "--server", server, environ=group.environ("east")) as bridge:
            yield bridge.url
        return
    with porter(ports[1], ports[0], token_of("suite"), certificate_of(first, "")) as base:
        yield f"{base}/mcp/{server}"


def examine_one_by_one(
    url: str, revision: str, scenarios: Sequence[str], results: Path, between: Callable[[], None]
) -> dict[str, list[str]]:
    """Run scenarios, each by its own run of the suite; return the faults of those that have any."""
    found: dict[str, list[str]] = {}
    for number, scenario in enumerate(scenarios):
        if number:
            between()
        checks = examine(url, revision, results / scenario, scenario).get(scenario, [])
        assert any(check["status"] == "SUCCESS" for check in checks), scenario
        if failed := faults(checks):
            found[scenario] = failed
    return found


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("way", "server"), length(SHORT_CASES, CASES))
def test_scenarios_pass_with_takeovers_between_them(way: str, server: str, tmp_path: Path) -> None:
    """
    Those that one host passes, without a failure or a warning: hosts hand over, and bridge and suite go on.

    Shortened, there are two; with ``--programmes`` all.
    """
    revision = REVISIONS[server]
    scenarios = [*required(revision), *FURTHER[revision]] if CHOSEN.whole else [*SHORT]
    scenarios = [name for name in scenarios if name != NOT_ALONE]
    with hosts(tmp_path) as (group, *ports), url_of(way, server, group, (ports[0], ports[1])) as url:
        term, times = group.term(), []

        def between() -> None:
            before = time.monotonic()
            group.take_over()
            times.append(time.monotonic() - before)

        assert examine_one_by_one(url, revision, scenarios, tmp_path / "results", between) == {}
        print(describe(f"{len(scenarios)} scenarios; SIGTERM until both hosts are ready again", times))
        assert group.term() == term + len(scenarios) - 1


def test_sessions_of_the_older_revision_end_with_a_takeover(tmp_path: Path) -> None:
    """At the front: 404, after which a client begins a new one; calls of the newer revision have none and go on."""
    with hosts(tmp_path) as (group, port, _):
        fields = {"Accept": BOTH, "Authorization": f"Bearer {token_of('suite')}"}
        secure = certificate_of(group.hosts["east"], "")
        base = f"https://localhost:{port}/mcp"
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        newer = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}

        def listed(client: httpx.Client) -> int:
            body = {**ask, "params": {"_meta": meta}}
            return client.post(f"{base}/modern", json=body, headers=newer).status_code

        with httpx.Client(verify=secure, headers=fields, timeout=60, trust_env=False) as client:
            begun = client.post(f"{base}/handshake", json=HANDSHAKE)
            session = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert client.post(f"{base}/handshake", json=ready, headers=session).status_code == 202
            assert client.post(f"{base}/handshake", json=ask, headers=session).status_code == 200
            assert listed(client) == 200
        group.take_over()
        with httpx.Client(verify=secure, headers=fields, timeout=60, trust_env=False) as client:
            assert client.post(f"{base}/handshake", json=ask, headers=session).status_code == 404
            assert listed(client) == 200
            assert client.post(f"{base}/handshake", json=HANDSHAKE).status_code == 200
