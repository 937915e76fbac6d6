"""A2A agents and ACP servers behind the host, called by their cards: natively and over HTTP, with the SDKs' servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.adapters.a2a.test_sdk import SCRIPT as A2A_AGENT
from tests.adapters.a2a.test_sdk import said as said_by_task
from tests.adapters.a2a.test_sdk import text
from tests.adapters.acp.environment import interpreter
from tests.adapters.acp.test_sdk import SCRIPT as ACP_SERVER
from tests.adapters.acp.test_sdk import run
from tests.adapters.acp.test_sdk import said as said_by_run
from tests.adapters.peers import process, python
from tests.registry.served import NARROW, Registry, deploy
from tests.system.hosting import free_port, running, until
from tests.system.test_a2a_front import record

UPSTREAMS = """
[[a2a.agent]]
name = "helper"
url = "http://127.0.0.1:{a2a}"
scopes = ["mcp:tools:execute"]
min_assurance = "gateway"

[[a2a.agent]]
name = "guarded"
url = "http://127.0.0.1:{a2a}"
scopes = ["payments:transfer"]
min_assurance = "gateway"

[[a2a.agent]]
name = "dead"
url = "http://127.0.0.1:{dead}"
scopes = ["mcp:tools:execute"]
min_assurance = "gateway"
start = "lazy"

[[acp.agent]]
name = "bee"
url = "http://127.0.0.1:{acp}"
scopes = ["mcp:tools:execute"]
min_assurance = "gateway"
"""

CALLS: dict[str, tuple[str, dict[str, Any], Any, str]] = {
    "a2a:helper": ("a2a.message.send", text("echo by card"), said_by_task, "task"),
    "acp:bee": ("acp.runs.create", run("echo", "by card"), said_by_run, "run"),
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    config, port = deploy(tmp_path_factory.mktemp("upstreams"))
    with python(A2A_AGENT, "jsonrpc") as a2a, process(interpreter(), str(ACP_SERVER)) as acp:
        more = UPSTREAMS.format(a2a=a2a, acp=acp, dead=free_port())
        config.write_text(config.read_text() + more)
        with running(config) as host:
            until(lambda: "the registry is served" in host.output)
            served = Registry(host, port)
            until(lambda: CALLS.keys() <= set(listed(served)))
            yield served


def listed(registry: Registry, **options: Any) -> dict[str, Any]:
    reply = registry.ask("GET", "/agents?top=100", **options)
    assert reply.status == 200, reply.value
    return {each["id"]: each for each in reply.value["agents"]}


def of_card(registry: Registry, card_id: str, audit_id: str, result: Any) -> None:
    """Two records: the call by the card, and the upstream's own, each with the other in it."""
    said, member = CALLS[card_id][2:]
    assert said(result[member]) == "by card"
    outer = record(registry.host, audit_id)
    assert (outer["path"], outer["extra"]["card"]) == (f"/cards/{card_id}", card_id)
    (called,) = outer["invoked"]
    inner = record(registry.host, called)
    assert inner["path"] == f"/{card_id.replace(':', '/')}" and inner["extra"]


@pytest.mark.parametrize("card_id", CALLS)
def test_an_upstream_is_called_by_its_card(registry: Registry, card_id: str) -> None:
    """The same operation and input natively and over HTTP."""
    action, given = CALLS[card_id][:2]
    demo = registry.host.state / "agents" / "demo"
    with Client(trust=registry.ca, cert=demo / "agent.pem", key=demo / "agent.key") as client:
        asked = {"action": action, "parameters": given}
        reply = client.call(registry.host.uri, "EXECUTE", f"/cards/{card_id}", asked, task_id=f"by-{card_id[:3]}")
    assert reply.status == 200, reply.json()
    of_card(registry, card_id, reply.audit_id or "", reply.result)
    for path, sent in ((action, given), ("invoke", {"operation": action, **given})):
        answered = registry.ask("POST", f"/agents/{card_id}/{path}", sent)
        assert answered.status == 200, answered.value
        of_card(registry, card_id, answered.fields["audit-id"], answered.value)


def test_upstreams_are_listed_if_and_only_if_they_can_be_called(registry: Registry) -> None:
    """Up and within the caller's scopes: nobody is shown what is away, or not for it, and what is shown does answer."""
    shown = listed(registry)
    assert {each for each in shown if each.partition(":")[0] in ("a2a", "acp")} == set(CALLS)
    assert not {each for each in listed(registry, token=NARROW) if each.partition(":")[0] in ("a2a", "acp")}
    for card_id, (action, given, *_) in CALLS.items():
        hidden = registry.ask("POST", f"/agents/{card_id}/{action}", given, token=NARROW)
        assert (hidden.status, hidden.code) == (404, "NotFound")
    for card_id in ("a2a:guarded", "a2a:dead"):
        away = registry.ask("POST", f"/agents/{card_id}/invoke", text("echo x"))
        assert (away.status, away.code) == (404, "NotFound"), away.value
