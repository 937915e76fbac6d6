"""What grants, hands over, delivers and calls off, over TLS, and after SIGKILL: methods v01 sections 3.4, 5, 6.6, 7."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agtphost.client.errors import ClientError
from agtphost.identity import jws
from agtphost.identity.genesis import Genesis
from agtphost.methods.standard.sign import TYPE
from tests.programmes import length
from tests.system.hosting import until
from tests.system.pages import playing, steps
from tests.system.standard.hosted import Standard
from tests.system.standard.paged import played


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def agent_id(standard: Standard, name: str) -> str:
    """The Agent-ID of a caller."""
    genesis = Genesis.load((standard.config.parent / "state" / "agents" / name / "genesis.json").read_bytes())
    return genesis.agent_id


def test_a_contractor_uses_a_grant_until_it_is_cancelled(standard: Standard) -> None:
    """METH-023, METH-024: over two real certificates."""
    stranger = agent_id(standard, "stranger")
    given = {"subject": stranger, "resource": "SEARCH", "scope": ["contracts:read"], "ttl": 600}
    grant = standard.result("AUTHORIZE", given)
    query: dict[str, Any] = {"query": {}, "scope": "contracts"}
    assert standard.ask("SEARCH", query, by="stranger").status == 404
    token = (("Delegation-Token", grant["token"]),)
    assert standard.ask("SEARCH", query, by="stranger", headers=token).status == 200
    assert standard.ask("AUTHORIZE", {**given, "scope": ["weather:read"]}).status == 455
    assert standard.result("CANCEL", {"target_id": grant["grant_id"]})["status"] == "cancelled"
    assert standard.ask("SEARCH", query, by="stranger", headers=token).status == 551


def test_each_of_the_others_answers(standard: Standard) -> None:
    """One call of each: METH-027, METH-028, METH-035, METH-038, METH-039, METH-040, METH-041."""
    assert len(standard.result("LOG", {"event_type": "wire.approved", "data": {"n": 1}})["record_id"]) == 64
    signed = standard.result("SIGN", {"payload": {"agreement": 7}})
    assert jws.parse(signed["signature"]).header["typ"] == TYPE
    pair = {"source": "telemetry", "destination": "observability", "ttl": 60}
    handle = standard.result("CONNECT", pair)
    assert handle["channel"] == {"topic": "sensors"}
    assert standard.result("CANCEL", {"target_id": handle["connection_id"]})["kind"] == "connection"
    archivist = agent_id(standard, "archivist")
    sent = standard.result("BROADCAST", {"audience": [archivist, "on-call"], "content": "Sunday"})
    assert sent["delivered"] == 3
    inbox = standard.result("QUERY", {}, by="archivist", path="/notifications")["notifications"]
    notice = next(each for each in inbox if each["topic"] == "broadcast")
    reply = {"in_reply_to": notice["notification_id"], "content": "Fine."}
    assert standard.result("REPLY", reply, by="archivist")["of"] == "notification"
    mailed = standard.result("SEND", {"recipient": "a@b.test", "channel": "email", "content": "Booked."})
    assert mailed["confirmation"] == {"queued_for": "a@b.test"}
    report = {"report_type": "weekly", "scope": {"records": {}}, "recipient": archivist, "format": "html"}
    assert standard.result("REPORT", report)["delivered"] == 1


@pytest.mark.programme
def test_work_and_ownership_survive_sigkill(standard: Standard) -> None:
    """
    SIGKILL in the middle of PULL and of TRANSFER: what was answered is true, nothing is lost, nothing is had twice
    within its timeout; what is due comes when the host is up again: METH-004, METH-025, METH-029, METH-061, METH-063.
    """
    for _ in range(length(1, 25)):
        _killed(standard)


def _killed(standard: Standard) -> None:
    archivist, analyst = agent_id(standard, "archivist"), agent_id(standard, "analyst")
    submitted = {
        standard.result("SUBMIT", {"target": "packing", "payload": number})["tracking_id"] for number in range(12)
    }
    contracts = [
        f"contracts/{standard.result('REGISTER', {'entity_type': 'contracts', 'data': {'title': 'x'}})['entity_id']}"
        for _ in range(12)
    ]
    later = {"channel": "knowledge", "content": {"n": 1}, "schedule_at": soon(0.5)}
    published = standard.result("PUBLISH", later)["resource_id"]
    alert = {"recipient": archivist, "message": 1, "severity": "high", "acknowledge_by": soon(0.5)}
    alerted = standard.result("ALERT", {**alert, "escalation_path": analyst})["alert_id"]
    pulled: list[str] = []
    moved: list[str] = []

    def pull(_: str) -> None:
        found = standard.result("PULL", {"source": "packing", "visibility_timeout": 600})["items"]
        pulled.extend(each["item_id"] for each in found)

    def move(resource: str) -> None:
        standard.result("TRANSFER", {"resource_id": resource, "from_principal": analyst, "to_principal": archivist})
        moved.append(resource)

    _until_killed(standard, contracts, lambda each: (pull(each), move(each)))
    # What was answered is true.
    rest = [
        each["item_id"]
        for each in standard.result("PULL", {"source": "packing", "max_items": 100, "visibility_timeout": 600})["items"]
    ]
    assert pulled and moved, "something was answered before"
    assert not set(rest) & set(pulled), "nothing is had twice within its timeout"
    missing = submitted - set(rest) - set(pulled)
    assert len(missing) <= 1, "one PULL at the most was durable and not answered: its item is hidden, not lost"
    for resource in contracts:
        owner = standard.result("FETCH", {"resource_id": resource})["owner"]
        assert owner in (analyst, archivist)
        if resource in moved:
            assert owner == archivist
    for each in (*rest, *pulled, *missing):
        standard.result("CONFIRM", {"target_id": each, "status": "accepted"})
    # What was due comes.
    until(lambda: standard.ask("FETCH", {"resource_id": published}).status == 200)
    until(
        lambda: any(
            each["content"].get("alert_id") == alerted
            for each in standard.result("QUERY", {}, path="/notifications")["notifications"]
        )
    )


def _until_killed(standard: Standard, of: list[str], do: Callable[[str], object]) -> None:
    """Have a thread work until the host is killed under it, and have the host again."""
    begun = threading.Event()

    def work() -> None:
        for number, each in enumerate(of):
            try:
                do(each)
            except (ClientError, OSError):
                return
            if number == 2:
                begun.set()

    worker = threading.Thread(target=work)
    worker.start()
    assert begun.wait(120)
    standard.host.kill()
    worker.join(120)
    standard.restart()


def test_the_page_shows_what_the_commands_say(standard: Standard) -> None:
    """``docs/authority-and-messages.rst``: each command of it, with its exit status and every line of its output."""
    every = steps("authority-and-messages.rst")
    assert len(every) >= 9
    with playing(every) as player:
        played(player, every, standard)
