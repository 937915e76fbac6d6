"""DELEGATE answered 202 by a real host: asked for, delivered, and over a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.system.hosting import Host, agtp, running, until
from tests.system.peers import BOOK, TASK_ID, Pair, demo


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield Pair(tmp_path_factory.mktemp("asynchronous"))


def begin(pair: Pair, client: Client, host: Host, to: str, task: dict[str, Any]) -> dict[str, Any]:
    given = pair.asked(to, task=task, asynchronous=True, callback="inbox")
    reply = client.call(host.uri, "DELEGATE", input=given, task_id=TASK_ID)
    assert reply.status == 202 and not reply.interim, reply.json()
    return dict(reply.result)


def state(client: Client, host: Host, begun: dict[str, Any]) -> dict[str, Any]:
    asked = {"target": "delegated-task", "delegation_id": begun["delegation_id"]}
    reply = client.call(host.uri, "INSPECT", input=asked)
    assert reply.status == 200, reply.json()
    return dict(reply.result)


def outcomes(client: Client, host: Host) -> list[dict[str, Any]]:
    reply = client.call(host.uri, "QUERY", "/notifications", input={})
    return [told["content"] for told in reply.result["notifications"] if told["topic"] == "delegation-outcome"]


def test_a_task_is_never_lost(pair: Pair) -> None:
    """AGTP-213: an outcome comes into the inbox; a task that a kill ended is marked at the next start."""
    with running(pair.back), running(pair.front) as front, demo(front) as client:
        begun = begin(pair, client, front, pair.archivist, BOOK)
        until(lambda: state(client, front, begun)["state"] != "running")
        ended = state(client, front, begun)
        assert ended["state"] == "finished" and ended["result"]["result"]["isbn"] == "9780142437230"
        [told] = outcomes(client, front)
        assert told["result"] == ended["result"] and told["delegation_id"] == begun["delegation_id"]

        slow = begin(
            pair, client, front, pair.clerk, {"method": "QUERY", "path": "/handed-on", "parameters": {"seconds": 50}}
        )
        assert state(client, front, slow)["state"] == "running"
        front.kill()
    with running(pair.front) as front, demo(front) as client:
        until(lambda: state(client, front, slow)["state"] != "running")
        marked = state(client, front, slow)
        assert (marked["state"], marked["error"]["reason"]) == ("failed", "host-restarted")
        assert {told["delegation_id"] for told in outcomes(client, front)} == {
            begun["delegation_id"],
            slow["delegation_id"],
        }
        listed = client.call(front.uri, "QUERY", "/delegations", input={"limit": 1})
        assert listed.result["count"] == 2 and len(listed.result["delegations"]) == 1
        token = listed.headers.get("continuation-token")
        assert token is not None
        more = client.call(
            front.uri, "QUERY", "/delegations", input={"limit": 1}, headers=[("Continuation-Token", token)]
        )
        shown = [each["delegation_id"] for page in (listed, more) for each in page.result["delegations"]]
        assert sorted(shown) == sorted([begun["delegation_id"], slow["delegation_id"]])
        assert more.headers.get("continuation-token") is None
        # A third party sees nothing of it.
        with Client(trust=front.state / "ca.pem") as nobody:
            asked = {"target": "delegated-task", "delegation_id": slow["delegation_id"]}
            assert nobody.call(front.uri, "INSPECT", input=asked).status == 401
    assert agtp("audit", "verify", cwd=Path(pair.front).parent).returncode == 0


def test_a_host_that_stops_ends_what_runs(pair: Pair) -> None:
    """SIGTERM: a running task ends on record before the process does."""
    text = pair.front.read_text()
    pair.front.write_text(text + "\n[limits]\ndrain_timeout = 1.0\n")
    try:
        with running(pair.front) as front, demo(front) as client:
            slow = {"method": "QUERY", "path": "/handed-on", "parameters": {"seconds": 50}}
            begun = begin(pair, client, front, pair.clerk, slow)
            assert front.stop() == 0
    finally:
        pair.front.write_text(text)
    with running(pair.front) as front, demo(front) as client:
        ended = state(client, front, begun)
        assert ended["state"] == "failed"
        assert ended["error"].get("reason") != "host-restarted", "it was marked before the process ended"
