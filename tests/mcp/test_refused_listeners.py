"""A client of the front that listens while its agent is refused hears immediately that the agent may call again."""

from __future__ import annotations

from typing import Any

from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mounts
from agtphost.mcp.changes import AFTER_REFUSAL
from agtphost.mcp.feature import McpFront
from agtphost.testing import MemoryHost
from agtphost.testing.identities import TestAgent, key_of
from tests.host.carried import carried
from tests.http.mounted import mounted
from tests.http.test_left_over import HERE, TOKEN, mcp
from tests.http.test_mounts import Wire

OPERATOR = key_of("anna")
SETTINGS: dict[str, Any] = {
    "operator": [{"name": "anna", "key": OPERATOR.public.fingerprint, "role": "administrator"}],
    "mcp": {"front": {"listen": "tcp:8080:interface=127.0.0.1"}},
    "http": {"client": [{"name": "tests", "token": "env:TOKEN", "agent": "clerk"}]},
}
CHANGED = b"notifications/tools/list_changed"


class Front:
    """A host in memory with a front, and its one client."""

    def __init__(self) -> None:
        self.host = MemoryHost(SETTINGS, environ={"TOKEN": TOKEN})
        self.host.endpoint("FETCH", "/one", lambda context: {})
        self.clerk, self.other = self.host.agent("clerk"), self.host.agent("other")
        self.resource = carried(self.host, "mcp", McpFront).resource
        self.operator = self.host.identities.of_key(OPERATOR, "anna")

    def turn(self, agent: TestAgent, method: str) -> None:
        """Change the lifecycle state of an agent as the operator."""
        given = {"agent_id": agent.agent_id, "reason": "a drill"}
        assert self.host.call(method, "/", given, caller=self.operator).status == 200

    def listen(self) -> Wire:
        """Begin ``subscriptions/listen``, and let so much time go by that pauses after refusals are long."""
        mounts = Mounts([mounted(self.resource, "/mcp")])
        channel: Any = HttpFactory(mounts, HTTP_LIMITS, self.host.clock).buildProtocol(HERE)
        wire = Wire(hostAddress=HERE)
        channel.makeConnection(wire)
        channel.dataReceived(mcp("subscriptions/listen", notifications={"toolsListChanged": True}))
        for _ in range(int(AFTER_REFUSAL) * 2):
            self.host.advance(1.0)
        assert b"acknowledged" in wire.value(), wire.value()
        return wire


def test_a_client_hears_of_a_reinstatement_without_waiting_for_the_next_attempt() -> None:
    """Attempts are a minute apart by then; the reinstatement of another agent announces nothing."""
    front = Front()
    for agent in (front.clerk, front.other):
        front.turn(agent, "DEACTIVATE")
    wire = front.listen()
    front.turn(front.other, "REINSTATE")
    front.host.advance(0.0)
    assert CHANGED not in wire.value()
    front.turn(front.clerk, "REINSTATE")
    front.host.advance(0.0)
    assert CHANGED in wire.value()
