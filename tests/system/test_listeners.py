"""
Every listener of the project against strangers who take their time.

All do the same from one address: connect and say nothing, shake hands and say nothing, send a head or a body octet by
octet, ask and read no answer. What must hold, at each listener: an honest caller from another address is answered all
the while, one from the same address as soon as the deadlines are over, and each stranger is cut in time.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.identity.provisioning import provision_development
from tests.rows import each_row
from tests.system.bridging import http_bridge
from tests.system.hosting import Host, free_port, running, sample
from tests.system.strangers import OTHER_ADDRESS, SLOW_ADDRESS, WAYS, Door, agtp_door, crowd, http_door, knock, soon

STRANGERS = 120
SHARE = 32
PLACES = 64
LIMIT = 3
"""Seconds: what the tests set the timers to."""

PATIENCE = 40.0
"""Seconds for what happens within the deadlines, on a machine that is busy."""

FRONTS = """
[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"

[a2a.front]
listen = "tcp:{a2a}:interface=127.0.0.1"
agent_id = "{agent_id}"

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"

[limits]
handshake_timeout = {limit}
header_timeout = {limit}
body_gap_timeout = {limit}
write_timeout = {limit}
idle_timeout = {limit}
handshakes_per_second_per_address = 2000
"""
BY_ADDRESS = f"connections_per_address = {SHARE}\nexempt_addresses = []\n"
BY_NUMBER = f"connections_per_address = {SHARE}\nconnections = {PLACES}\n"
HTTP = ("a2a", "wellknown")


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> None:
    """Two for each stranger, and some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))


def deploy(folder: Path, more: str) -> tuple[Path, dict[str, int]]:
    """The sample host with all of its listeners."""
    config = sample(folder)
    state = config.parent / "state"
    agent = config.parent / "agents" / "librarian.agent.json"
    provision_development(state, server_id="localhost", hosted=[agent])
    echo = config.parent / "endpoints" / "text.toml"
    echo.write_text('min_assurance = "gateway"\n' + echo.read_text())
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    ports = {name: free_port() for name in HTTP}
    config.write_text(config.read_text() + FRONTS.format(**ports, agent_id=demo, limit=LIMIT) + more)
    return config, ports


def doors(host: Host, ports: dict[str, int]) -> dict[str, Door]:
    """The host's listeners by name."""
    return {
        "agtp": agtp_door(host.port),
        "a2a": http_door("a2a", ports["a2a"], "/.well-known/agent-card.json", tls=False, post="/agents/librarian"),
        "wellknown": http_door("wellknown", ports["wellknown"], "/.well-known/agtp", tls=True),
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    """A host to which every address has its share, this machine's too."""
    config, ports = deploy(tmp_path_factory.mktemp("shared"), BY_ADDRESS)
    with running(config) as host:
        yield doors(host, ports)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    """A host with few places in all, and no share for this machine's addresses; a bridge in front of it."""
    config, ports = deploy(tmp_path_factory.mktemp("full"), BY_NUMBER)
    with running(config) as host, http_bridge(host) as bridge:
        port = int(bridge.url.rsplit(":", 1)[1].split("/")[0])
        yield {**doors(host, ports), "bridge": http_door("bridge", port, "/none", tls=False, post="/mcp")}


def serves(door: Door, how: str) -> None:
    """Skip what cannot be done to a listener."""
    if how == "slow-body" and not door.body:
        pytest.skip("nobody may send a body here: the head is answered")
    if how == "silent-tls" and not door.tls:
        pytest.skip("no hands are shaken here")


@pytest.mark.release
@each_row("how", WAYS)
@each_row("listener", ["agtp", *HTTP])
def test_one_address_takes_its_share_and_no_more(shared: dict[str, Door], listener: str, how: str) -> None:
    """Strangers from one address: another address notices nothing, the same one is served once they are cut."""
    door = shared[listener]
    serves(door, how)
    with crowd(door, how, STRANGERS) as slow:
        for _ in range(10):
            assert knock(door, OTHER_ADDRESS)
            slow.drip()
        assert len(slow.links) <= SHARE
        assert soon(lambda: slow.drip() or knock(door, SLOW_ADDRESS, 1.0), PATIENCE)  # type: ignore[func-returns-value]
        assert soon(lambda: slow.drip() or not slow.links, PATIENCE)  # type: ignore[func-returns-value]
    assert knock(door, SLOW_ADDRESS)


@pytest.mark.release
@each_row("how", WAYS)
@each_row("listener", [*HTTP, "bridge"])
def test_where_all_places_are_taken_who_is_owed_nothing_makes_room(
    full: dict[str, Door], listener: str, how: str
) -> None:
    """More strangers than places, from an address without a share: an honest caller is answered at once."""
    door = full[listener]
    serves(door, how)
    with crowd(door, how, 600 if listener == "bridge" else STRANGERS) as slow:
        slow.drip()
        answered = [knock(door, source) for _ in range(10) for source in (OTHER_ADDRESS, SLOW_ADDRESS)]
        assert all(answered)
        if listener != "bridge":
            slow.drip()
            assert len(slow.links) <= PLACES
            assert soon(lambda: slow.drip() or not slow.links, PATIENCE)  # type: ignore[func-returns-value]
