"""
kill -9 of a real host in CHAIN, MONITOR and PAUSE: nothing runs twice, and what was told goes on or says why not.

The same at every commit, without a process for each: ``tests/methods/standard/orchestration/test_kill.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client import ClientError
from agtphost.client.sync import Client
from tests.programmes import length
from tests.system.hosting import Host, agtp, running, until
from tests.system.peers import demo
from tests.system.trail import marks, traced

DYING = Path(__file__).with_name("dying_host.py")
BOUNDARIES = length([("after", 4)], [(when, number) for number in range(1, 30) for when in ("before", "after")])
"""In which order a process and a commit end; the last ones are beyond what is done, and end nothing."""

ON = '\n[methods]\nstandard = ["CHAIN", "PAUSE", "MONITOR"]\n'


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield traced(tmp_path_factory.mktemp("killed"), append=ON)


def steps(life: str) -> list[dict[str, Any]]:
    """Two that leave a mark each, around one that leaves none."""
    first, last = (
        {"method": "BOOK", "path": "/stay", "parameters": {"mark": f"{life}-{name}"}} for name in ("first", life)
    )
    return [first, {"method": "ECHO", "path": "/text", "parameters": {"text": life}}, last]


def ask(
    client: Client, host: Host, method: str, given: dict[str, Any], path: str = "/", task_id: str | None = None
) -> Any:
    reply = client.call(host.uri, method, path, input=given, task_id=task_id)
    assert 200 <= reply.status < 300, reply.json()
    return reply.result


def live(client: Client, host: Host, life: str) -> None:
    """Subscribe, order, pause: until the host dies of it."""
    ask(client, host, "MONITOR", {"target": "own", "events": ["workflow"], "callback": "inbox"})
    later = ask(client, host, "CHAIN", {"steps": steps(f"{life}-never"), "start_at": "2027-06-01T00:00:00Z"})
    ask(client, host, "PAUSE", {"workflow_id": later["workflow_id"], "reason": "maintenance"})
    ask(client, host, "CHAIN", {"steps": steps(f"{life}-behind"), "background": True}, task_id=f"{life}-behind")
    ask(client, host, "CHAIN", {"steps": steps(f"{life}-waiting")}, task_id=f"{life}-waiting")


def listed(client: Client, host: Host, state: str) -> list[str]:
    found = ask(client, host, "QUERY", {"state": state, "limit": 100}, "/workflows")["workflows"]
    return [each["workflow_id"] for each in found]


def shown(client: Client, host: Host, workflow_id: str) -> Any:
    return ask(client, host, "INSPECT", {"target": "workflow", "workflow_id": workflow_id})


def settle(client: Client, host: Host, config: Path) -> None:
    """Whatever was told goes on, or says why not, and then goes on once its owner has looked."""

    until(lambda: not listed(client, host, "running"))
    for key in listed(client, host, "interrupted"):
        found = shown(client, host, key)
        why, name = found["why"], found["task_id"]
        assert why["reason"] == "workflow-in-doubt"
        done = marks(config)[f"{name}-first" if why["step"] == 1 else f"{name}-{name}"]
        checkpoint = {"step": why["step"], "outcome": "done" if done else "repeat"}
        ask(client, host, "RESUME", {"workflow_id": key, "checkpoint": checkpoint})
    until(lambda: not listed(client, host, "running"))
    assert not listed(client, host, "interrupted") and not listed(client, host, "failed")


def told(client: Client, host: Host) -> dict[str, list[str]]:
    """What the inbox says of each workflow, in order."""
    found: dict[str, list[str]] = {}
    for note in ask(client, host, "QUERY", {"limit": 500}, "/notifications")["notifications"]:
        for change in note["content"].get("changes", ()):
            found.setdefault(change["subject"], []).append(change["to"])
    return found


def heard_to_the_end(client: Client, host: Host) -> None:
    """A subscription that came to be tells of whatever it began to tell of, each change once; then it is cancelled."""
    subscribed = ask(client, host, "QUERY", {}, "/monitors")["monitors"]
    if subscribed:
        states = {key: shown(client, host, key)["status"] for key in told(client, host)}
        until(lambda: all(heard[-1] == states[key] for key, heard in told(client, host).items() if key in states))
        assert all(heard.count("finished") <= 1 for heard in told(client, host).values())
    for each in subscribed:
        content = {"event_type": "monitor_cancel", "subscription_id": each["subscription_id"]}
        ask(client, host, "NOTIFY", {"recipient": "demo", "content": content})
    for note in ask(client, host, "QUERY", {"limit": 500}, "/notifications")["notifications"]:
        ask(client, host, "CONFIRM", {"target_id": note["notification_id"], "status": "accepted"})


@pytest.mark.programme
def test_nothing_runs_twice_and_nothing_told_is_lost(config: Path) -> None:
    """METH-042, METH-044, METH-047: at a commit of each kind, and after the restart."""
    died = 0
    for when, number in BOUNDARIES:
        life = f"{when}{number}"
        host = Host(config, prefix=[sys.executable, str(DYING), when, str(number)]).wait()
        try:
            with demo(host) as client:
                live(client, host, life)
        except ClientError:
            died += 1
        finally:
            if host.process.poll() is None:
                host.kill()
        with running(config) as host, demo(host) as client:
            settle(client, host, config)
            found = marks(config)
            for name in (f"{life}-behind", f"{life}-waiting"):
                # Whatever was begun was done, to the end.
                assert found[f"{name}-first"] == found[f"{name}-{name}"], (name, found)
            assert max(found.values(), default=0) <= 1, (life, found)
            assert not any("never" in mark for mark in found), life
            heard_to_the_end(client, host)
    assert died
    assert agtp("audit", "verify", cwd=config.parent).returncode == 0
