"""Cards whose agents are at other hosts of AGTP: two real hosts, of which one is configured as the other's peer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from tests.registry.hosts import card
from tests.registry.served import DAY, OPEN
from tests.system.a2a_sides import fingerprint
from tests.system.hosting import Host
from tests.system.peers import Pair, demo

HOUR = {"hour": 9}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    pair = Pair(tmp_path_factory.mktemp("card-peers"))
    for config in (pair.front, pair.back):
        home = config.parent
        (home / "handlers" / "day.py").write_text(DAY)
        (home / "endpoints" / "open.toml").write_text(OPEN)
        operator = fingerprint(home / "state" / "registrar.pem")
        config.write_text(config.read_text() + f'\n[registry]\n\n[audit]\noperators = ["{operator}"]\n')
    with pair.running() as both:
        yield both


def enter(host: Host, *, public: bool = False, **members: Any) -> None:
    """Register a card, as an operator; a public one may be called by whoever is not proven, too."""
    state = host.state
    with Client(trust=state / "ca.pem", cert=state / "registrar.pem", key=state / "registrar.key") as client:
        sent = card(inputs=None, outputs=None, **members)
        reply = client.call(host.uri, "REGISTER", "/cards", {"card": sent, "public": public})
        assert reply.status == 200, reply.json()


def called(host: Host, card_id: str, given: Any, **options: Any) -> Reply:
    with demo(host) as client:
        return client.call(host.uri, "EXECUTE", f"/cards/{card_id}", {"parameters": given}, task_id="C-1", **options)


def recorded(host: Host, audit_id: str) -> dict[str, Any]:
    return dict(host.agtp_json("audit", "get", audit_id)["payload"])


def test_an_agent_of_a_peer_is_called_by_its_card(hosts: tuple[Host, Host]) -> None:
    """By its address and as generated cards name it; both hosts have a record, and this one's names the other's."""
    front, back = hosts
    near = f"agtp://127.0.0.1:{back.port}"
    rows = {
        "day-address": {"endpoint": f"{near}/cards/agent:archivist", "operations": [{"name": "query_daytime"}]},
        "day-kind": {"endpoint": f"{near}/agents/archivist", "operations": [{"name": "query_daytime"}]},
        "day-name": {"endpoint": "agtp://back.test/agents/archivist", "operations": [{"name": "query_daytime"}]},
    }
    for card_id, members in rows.items():
        enter(front, id=card_id, **members)
        reply = called(front, card_id, HOUR)
        assert (reply.status, reply.result) == (200, {"part": "day"}), (card_id, reply.json())
        here = recorded(front, reply.audit_id or "")
        there = recorded(back, here["extra"]["peer"]["audit_id"])
        assert here["extra"]["peer"]["server_id"] == "back.test"
        assert there["path"] == "/cards/agent:archivist" and there["caller_id"] == here["caller_id"]
        assert (there["identity_assurance"], there["task_id"]) == ("header", here["task_id"])
    for host in hosts:
        assert host.agtp("audit", "verify").returncode == 0


def test_what_a_peer_refuses_is_refused_here(hosts: tuple[Host, Host]) -> None:
    """With its reason and its record: an input that it does not take, an operation that its own card does not have."""
    front, back = hosts
    endpoint = f"agtp://127.0.0.1:{back.port}/agents/archivist"
    names = ("query_daytime", "sing")
    enter(front, id="archivist", endpoint=endpoint, operations=[{"name": name} for name in names])
    for given, expected in (
        ({"operation": "query_daytime", "hour": 99}, (422, "invalid-input")),
        ({"operation": "sing"}, (404, "not-found")),
    ):
        reply = called(front, "archivist", given)
        body = reply.json()
        assert (reply.status, body["reason"]) == expected, body
        assert recorded(back, body["peer"]["audit_id"])["status"] == reply.status
        assert recorded(front, reply.audit_id or "")["extra"]["peer"] == body["peer"]


def test_only_hosts_that_are_peers_are_called(hosts: tuple[Host, Host]) -> None:
    """Another port of the very same machine is another host; none of it is asked anything."""
    front, back = hosts
    before = len(back.agtp_json("audit", "walk", "archivist", "-n", "50"))
    for number, endpoint in enumerate((f"agtp://localhost:{back.port}/agents/archivist", "agtp://agents.example.com")):
        enter(front, id=f"stranger-{number}", endpoint=endpoint)
        reply = called(front, f"stranger-{number}", HOUR)
        assert (reply.status, reply.json()["reason"]) == (403, "not-entitled")
        assert "[[delegation.peers]]" in reply.json()["remedy"]
    assert len(back.agtp_json("audit", "walk", "archivist", "-n", "50")) == before


def test_cards_that_lead_in_a_circle_end(hosts: tuple[Host, Host]) -> None:
    """Each host's card names the other's: the first host that the call comes to again refuses it."""
    front, back = hosts
    enter(front, id="circle", endpoint=f"agtp://127.0.0.1:{back.port}", public=True)
    enter(back, id="circle", endpoint=f"agtp://127.0.0.1:{front.port}", public=True)
    reply = called(front, "circle", {}, timeout=20)
    assert (reply.status, reply.json()["reason"]) == (422, "invocation-too-deep"), reply.json()
