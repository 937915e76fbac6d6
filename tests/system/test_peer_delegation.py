"""DELEGATE to an agent on another host: two real hosts over TLS, each with a record of the hop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.reply import Reply
from agtphost.identity.keys import SigningKey
from tests.system.hosting import Host
from tests.system.peers import BOOK, TASK_ID, Pair, demo


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def hosts(pair: Pair) -> Iterator[tuple[Host, Host]]:
    with pair.running() as both:
        yield both


def delegate(host: Host, given: dict[str, Any], **headers: str) -> Reply:
    with demo(host) as client:
        return client.call(host.uri, "DELEGATE", input=given, task_id=TASK_ID, headers=tuple(headers.items()))


def recorded(host: Host, audit_id: str) -> dict[str, Any]:
    return dict(host.agtp_json("audit", "get", audit_id)["payload"])


def test_a_task_goes_to_the_host_of_its_agent(pair: Pair, hosts: tuple[Host, Host]) -> None:
    """AGTP-213, AGTP-215, AGTP-288: done over there with the granted scope alone; both hosts have the hop on record."""
    front, back = hosts
    reply = delegate(front, pair.asked(pair.archivist))
    assert reply.status == 200, reply.json()
    result = reply.result
    assert result["result"]["isbn"] == "9780142437230" and result["status"] == 200
    assert result["chain"] == [pair.demo, pair.archivist] and result["depth"] == 1
    assert result["peer"]["server_id"] == "back.test"
    # Here: accepted before the task, and the answer with the other host's Audit-ID.
    accepted = recorded(front, result["accepted_audit_id"])["extra"]["delegation"]
    assert (accepted["delegatee"], accepted["peer"]) == (pair.archivist, "back.test")
    answered = recorded(front, reply.audit_id or "")["extra"]["delegation"]
    assert answered["answered"]["audit_id"] == result["peer"]["audit_id"]
    # There: the same hop, and the task's own call under it.
    over_there = recorded(back, result["peer"]["audit_id"])
    assert over_there["caller_id"] == pair.demo
    assert over_there["extra"]["delegation"]["token_hash"] == accepted["token_hash"]
    called = recorded(back, result["audit_id"])
    assert called["delegation"]["chain"] == [pair.demo, pair.archivist]
    assert called["delegation"]["scope"] == ["documents:query"]
    for host in hosts:
        assert host.agtp("audit", "verify").returncode == 0


def test_a_chain_goes_on_over_there(pair: Pair, hosts: tuple[Host, Host]) -> None:
    """AGTP-312, AGTP-324: the second hop crosses; the other host verifies every token of the chain and names it."""
    front, back = hosts
    scope = ("documents:query", "knowledge:query")
    inner = {"target_agent_id": pair.archivist, "authority_scope": "documents:query", "task": BOOK}
    task = {"method": "QUERY", "path": "/handed-on", "parameters": {"hop": inner}}
    reply = delegate(front, pair.asked(pair.clerk, *scope, task=task))
    assert reply.status == 200, reply.json()
    crossed = reply.result["result"]
    assert crossed["chain"] == [pair.demo, pair.clerk, pair.archivist] and crossed["depth"] == 2
    called = recorded(back, crossed["audit_id"])
    assert called["caller_id"] == pair.clerk
    assert called["delegation"]["chain"] == crossed["chain"]
    wide = {**inner, "authority_scope": ", ".join(scope)}
    task = {"method": "QUERY", "path": "/handed-on", "parameters": {"hop": wide}}
    refused = delegate(front, pair.asked(pair.clerk, *scope, task=task))
    assert refused.status == 550 and refused.json()["sub_agent_error"]["status"] == 262


def test_what_fails_over_there_is_550_here(pair: Pair, hosts: tuple[Host, Host]) -> None:
    """AGTP-089: status, reason and Audit-ID are the sub-agent's own; a late one is 550 with 408."""
    front, back = hosts
    reply = delegate(front, pair.asked(pair.archivist, task={"method": "QUERY", "path": "/nowhere"}))
    assert reply.status == 550
    nested = reply.json()["sub_agent_error"]
    assert (nested["status"], nested["reason"]) == (404, "not-found")
    assert nested["peer"]["server_id"] == "back.test"
    assert recorded(back, nested["audit_id"])["status"] == 404
    assert recorded(front, reply.audit_id or "")["extra"]["delegation"]["sub_agent_error"]["status"] == 404
    slow = {"method": "QUERY", "path": "/handed-on", "parameters": {"seconds": 5}}
    late = delegate(front, pair.asked(pair.archivist, task=slow, deadline=0.5))
    assert late.status == 550 and late.json()["sub_agent_error"]["status"] == 408


def test_a_chain_that_the_other_host_cannot_verify_is_551(pair: Pair, hosts: tuple[Host, Host]) -> None:
    """AGTP-090: a token by demo's own key, which only this connection shows, proves nothing over there."""
    front, _ = hosts
    shown = front.agtp_json(
        *("delegation", "issue", "--key", str(front.state / "agents/demo/agent.key"), "--from", pair.demo),
        *("--to", pair.archivist, "--scope", "documents:query", "--task-id", TASK_ID),
    )
    reply = delegate(front, pair.asked(pair.archivist, delegation_token=shown["delegation_token"]))
    assert (reply.status, reply.json()["reason"]) == (551, "delegation-token-invalid")
    link = reply.json()["link"]
    assert link["peer"] == "back.test" and link["broken"]["delegator"] == pair.demo
    used = pair.asked(pair.archivist)
    assert delegate(front, used).status == 200
    assert (delegate(front, used).status, delegate(front, used).json()["reason"]) == (551, "delegation-token-replayed")


def test_an_answer_that_proves_nothing_is_551(tmp_path: Path) -> None:
    """The answering record is verified with the peer's key; with another key configured, the answer is not believed."""
    pair = Pair(tmp_path)
    plain = pair.front.read_text()
    other = tmp_path / "other.pub"
    other.write_bytes(SigningKey.generate().public.pem)
    configured = next(line for line in plain.splitlines() if line.startswith("signing_key = "))
    pair.front.write_text(plain.replace(configured, f'signing_key = "file:{other}"'))
    with pair.running() as (front, _):
        reply = delegate(front, pair.asked(pair.archivist))
        assert (reply.status, reply.json()["reason"]) == (551, "delegation-answer-unverified")
    # Nothing configured: the peer's manifest says, over the TLS that was verified.
    pair.front.write_text(plain.replace(configured, ""))
    with pair.running() as (front, back):
        assert delegate(front, pair.asked(pair.archivist)).status == 200
        # Nobody there: 503, and the token is used up, for the hop was accepted here.
        back.stop()
        lost = delegate(front, pair.asked(pair.archivist))
        assert (lost.status, lost.json()["reason"]) == (503, "delegation-peer-unreachable"), lost.json()
        assert lost.headers.get("retry-after")


def test_agents_of_nobody_known_stay_404(pair: Pair, hosts: tuple[Host, Host]) -> None:
    """AGTP-213: a delegatee that no peer hosts."""
    reply = delegate(hosts[0], pair.asked("0" * 64))
    assert (reply.status, reply.json()["reason"]) == (404, "delegatee-not-hosted")
    assert json.dumps(reply.json()).count("delegatee-not-hosted") == 4
