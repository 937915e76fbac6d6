"""Methods take the ``agtp:`` URIs that the host publishes, also off the usual port and by its domain."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.testing import MemoryHost, TestAgent
from tests.methods.standard.test_collections import OPEN

DOMAIN = "agents.example.com"
ROOTS = (f"agtp://{DOMAIN}:4490", f"agtp://{DOMAIN}", "agtp://memory:4490")
ELSEWHERE = (f"agtp://{DOMAIN}:4491", "agtp://elsewhere.example")


@pytest.fixture(scope="module")
def host() -> tuple[MemoryHost, TestAgent, TestAgent]:
    settings = {
        "host": {"server_id": "memory"},
        "listen": {"port": 4490},
        "manifest": {"domain": DOMAIN},
        "methods": {
            "standard": "*",
            "collection": [{"name": "orders", **OPEN}, {"name": "work", **OPEN, "queue": True}],
        },
    }
    made = MemoryHost(settings)
    clerk = made.agent("clerk", hosted=True, scopes=("*:*",))
    scout = made.agent("scout", hosted=True)
    assert made.call("REGISTER", "/", {"entity_type": "orders", "data": {"id": "7"}}, caller=clerk).status in (200, 201)
    return made, clerk, scout


CALLS: dict[str, dict[str, Any]] = {
    "NOTIFY": {"recipient": "{root}/agents/scout", "content": "hello"},
    "ESCALATE": {
        "task_id": "task-1",
        "reason": "scope_limit",
        "context": {},
        "recipient": "{root}/agents/scout",
    },
    "FETCH": {"resource_id": "{root}/agents/scout"},
    "FETCH of an item": {"resource_id": "{root}/collections/orders/7"},
    "FETCH of the namespace": {"resource_id": "{root}/agents"},
    "CHECK": {"target": "{root}"},
    "CHECK of an agent": {"target": "{root}/agents/scout"},
    "FIND": {"criteria": "*", "namespace": "{root}"},
    "SUMMARIZE": {"source": "{root}/agents/scout"},
    "SUBMIT": {"target": "work", "payload": {"n": 1}, "callback": "{root}/agents/clerk"},
    "MONITOR": {"target": "{root}/agents/scout", "events": ["lifecycle"], "callback": "{root}/agents/clerk"},
    "MONITOR of several": {
        "target": ["{root}/agents/scout", "self"],
        "events": ["lifecycle"],
        "callback": "{root}/agents/clerk/notifications",
    },
    "MONITOR of an object": {
        "target": {"agents": ["{root}/agents/scout"]},
        "events": ["lifecycle"],
        "callback": "{root}/agents/{id}",
    },
}


def filled(value: Any, root: str, agent_id: str) -> Any:
    if isinstance(value, str):
        return value.replace("{root}", root).replace("{id}", agent_id)
    if isinstance(value, list):
        return [filled(each, root, agent_id) for each in value]
    return {name: filled(each, root, agent_id) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", CALLS)
def test_own_uris_are_taken_and_those_of_others_are_not(
    host: tuple[MemoryHost, TestAgent, TestAgent], name: str
) -> None:
    """By each name of the host, with its port or none; the URI of another host, or port, is not this one's."""
    made, clerk, _ = host
    method = name.partition(" ")[0]
    for root in ROOTS:
        answer = made.call(method, "/", filled(CALLS[name], root, clerk.agent_id), caller=clerk)
        assert answer.status in (200, 201, 202), (root, answer.status, answer.result)
    for root in ELSEWHERE:
        answer = made.call(method, "/", filled(CALLS[name], root, clerk.agent_id), caller=clerk)
        assert answer.status in (403, 404, 422), (root, answer.status, answer.result)


def test_a_callback_is_the_inbox_of_nobody_else(host: tuple[MemoryHost, TestAgent, TestAgent]) -> None:
    """Another agent's URI is refused by MONITOR and SUBMIT alike."""
    made, clerk, scout = host
    for callback in (f"{ROOTS[0]}/agents/scout", f"{ROOTS[0]}/agents/{scout.agent_id}", ROOTS[0], "scout"):
        given = {"target": "self", "events": ["lifecycle"], "callback": callback}
        assert made.call("MONITOR", "/", given, caller=clerk).status == 403
        submitted = {"target": "work", "payload": {"n": 1}, "callback": callback}
        assert made.call("SUBMIT", "/", submitted, caller=clerk).status == 422
