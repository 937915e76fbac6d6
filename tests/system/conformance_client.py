"""
The client that the official MCP conformance suite examines: an agent, and the host that it calls over AGTP.

Run as ``conformance_client.py URL``, by the suite: it starts a host with the scenario's server at
that URL, and does in its name what any agent would do: it lists what the server offers, and uses all of it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.client.sync import Client
from tests.system.hosting import Host, running, sample, until

HANDSHAKE = "2025-11-25"
ROUNDS = 4
METHOD_NOT_FOUND = -32601
VALUES: Mapping[str, Any] = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def server(url: str, revision: str) -> str:
    """The scenario's server, with what an agent is asked in a session of its own where the revision knows sessions."""
    isolation = 'isolation = "per-session"\n' if revision == HANDSHAKE else ""
    return (
        f'\n[[mcp.server]]\nname = "scenario"\nurl = {json.dumps(url)}\n'
        f'resource_scopes = ["mcp:tools:execute"]\nprompt_scopes = ["mcp:tools:execute"]\n{isolation}'
    )


class Agent:
    """Lists and calls; each call has a Task-ID of its own, and all have one Session-ID."""

    def __init__(self, host: Host, client: Client) -> None:
        self._host = host
        self._client = client

    def execute(self, action: str, payload: Mapping[str, Any]) -> Any:
        """The reply to one EXECUTE, the server's questions answered."""
        kind = f"application/vnd.mcp.{action.split('.')[1]}+json"
        task = uuid.uuid4().hex
        reply: Any = None
        for _ in range(ROUNDS):
            body = {"action": action, "payload_type": kind, "payload": payload}
            reply = self._client.call(
                self._host.uri, "EXECUTE", "/mcp/scenario", body, task_id=task, session_id="conformance"
            )
            if reply.status != 202:
                break
            answers = {name: answer(asked) for name, asked in reply.result["inputRequests"].items()}
            payload = {**payload, "inputResponses": answers, "requestState": reply.result["requestState"]}
        return reply

    def listed(self, kind: str) -> list[Mapping[str, Any]]:
        """What the server offers."""
        reply = self.execute(f"mcp.{kind}.list", {})
        assert reply.status == 200, reply.body
        answer = reply.result["tool_response" if kind == "tools" else "mcp_response"]
        return list(answer[kind])


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's answer: forms are accepted with the defaults that they propose."""
    assert asked["method"] == "elicitation/create", asked
    fields = asked["params"]["requestedSchema"]["properties"]
    return {"action": "accept", "content": {name: field.get("default", True) for name, field in fields.items()}}


def arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Some value for everything that a schema requires."""
    return {name: VALUES[schema["properties"][name].get("type", "string")] for name in schema.get("required", ())}


def calls(tools: list[Mapping[str, Any]], context: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What to call: what the suite says, or every tool once."""
    if "toolCalls" in context:
        return [(f"scenario.{call['name']}", call["arguments"]) for call in context["toolCalls"]]
    schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
    made = {name: arguments(schema) for name, schema in schemas.items()}
    if "scenario.json_schema_echo" in schemas:
        # This scenario wants to see what became of a schema on its way to the agent.
        made["scenario.json_schema_echo"] = {"schema": schemas["scenario.json_schema_2020_12_tool"]}
        del made["scenario.json_schema_2020_12_tool"]
    return list(made.items())


def use(agent: Agent, context: Mapping[str, Any]) -> None:
    """List everything and use it."""
    for name, given in calls(agent.listed("tools"), context):
        if None in given.values():
            # The schema of this tool allows no null, so the host refuses it; then it is left out.
            refused = agent.execute("mcp.tools.call", {"tool": name, "arguments": given})
            assert refused.status == 422, refused.body
            given = {key: value for key, value in given.items() if value is not None}
        reply = agent.execute("mcp.tools.call", {"tool": name, "arguments": given})
        # One scenario only lists; its server has no tools/call.
        assert reply.status == 200 or reply.result["error"]["code"] == METHOD_NOT_FOUND, reply.body
        print(name, json.dumps(reply.result))
    for resource in agent.listed("resources"):
        assert agent.execute("mcp.resources.read", {"uri": resource["uri"]}).status == 200
    for prompt in agent.listed("prompts"):
        assert agent.execute("mcp.prompts.get", {"prompt": prompt["name"]}).status == 200


def main() -> None:
    """One scenario."""
    url, revision = sys.argv[1], os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder:
        config = sample(Path(folder), append=server(url, revision))
        with running(config) as host:
            demo = host.state / "agents" / "demo"
            with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
                agent = Agent(host, client)
                until(lambda: "MCP server scenario: up" in host.output)
                try:
                    use(agent, context)
                finally:
                    print(host.output)


if __name__ == "__main__":
    main()
