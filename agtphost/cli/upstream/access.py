"""Which agents may call the tools of an upstream, as the host's own gates decide."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.cli.can import tool_question
from agtphost.cli.exchange import entries_of, inspect, open_client
from agtphost.cli.host_config import find_config, load_config
from agtphost.cli.identities import local_agents
from agtphost.cli.options import Connection
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agtphost.cli.target import Target
    from agtphost.client.sync import Client

AGENTS = 50
"""Agents that are asked about, in the order of their names."""

TOOLS = 200
"""Tools of one upstream that are asked about; the host lists as many in one answer."""

SHOWN = 10
"""Tools that are listed by name."""

WAIT = 60.0
"""Seconds until an upstream that starts must be up, or have failed."""

PAUSE = 0.2
"""Seconds between two looks at its state."""

STARTING = ("starting", "connecting")
UP = "up"
WORDS = {"backoff": "down, and will be started again", "failed": "down"}
"""The text for people in place of the name of a state."""

SHOWN_STDERR = 5
"""Lines of stderr that are shown."""


@dataclass
class UpstreamAccess:
    """The state of an upstream, and who may call its tools."""

    upstream: str
    """``PROTOCOL.NAME``."""

    state: str
    reason: str
    tools: list[str]
    stderr: list[str] = field(default_factory=list)
    """Of a server that is not up, the last lines that it wrote to stderr."""

    allowed: dict[str, list[str]] = field(default_factory=dict)
    """Names of tools by the label of the agent that may call them; empty for agents that may call none."""

    refused: dict[str, str] = field(default_factory=dict)
    """By label: why the first tool is refused and what helps, for agents that may call none."""

    def to_json(self) -> dict[str, Any]:
        """Return the members of ``--json``."""
        return {
            "name": self.upstream,
            "state": self.state,
            "reason": self.reason or None,
            "stderr": self.stderr,
            "tools": self.tools,
            "callable": self.allowed,
            "refused": self.refused,
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for people."""
        why = f": {self.reason}" if self.reason else ""
        yield f"{self.upstream} is {WORDS.get(self.state, self.state)}{why}"
        yield from (f"stderr: {line}" for line in self.stderr[-SHOWN_STDERR:])
        if not self.tools:
            if self.state != UP:
                yield f"`agtp upstream show {self.upstream}` shows its present state."
            return
        more = f" and {len(self.tools) - SHOWN} more" if len(self.tools) > SHOWN else ""
        yield f"tools: {', '.join(self.tools[:SHOWN])}{more}"
        for agent, tools in self.allowed.items():
            if tools:
                yield f"{agent} may call {len(tools)} of {len(self.tools)}"
            else:
                yield f"{agent} may call none of them: {self.refused.get(agent, '')}"


def access_of(where: Connection, upstreams: Sequence[str]) -> list[UpstreamAccess]:
    """
    Ask a host about its upstreams.

    :param upstreams: ``PROTOCOL.NAME`` of each.
    """
    if not upstreams:
        return []
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        return [_ask_about(client, target, where, name) for name in upstreams]


def _ask_about(client: Client, target: Target, where: Connection, upstream: str) -> UpstreamAccess:
    entry = _wait_until_settled(client, target, upstream)
    protocol = upstream.partition(".")[0]
    tools: list[str] = []
    if protocol == "mcp":
        listed = inspect(client, target, {"target": "tools", "upstream": upstream, "state": "on", "limit": TOOLS})
        tools = [f"{each.get('upstream')}.{each.get('name')}" for each in entries_of(listed.get("tools"), "tools")]
    found = UpstreamAccess(upstream, str(entry.get("state", "unknown")), str(entry.get("reason") or ""), tools)
    if found.state != UP:
        found.stderr = [str(line) for line in (entry.get("link") or {}).get("stderr") or ()]
    path = find_config(where)
    agents = [] if path is None or not tools else list(local_agents(load_config(path)))
    for agent in agents[:AGENTS]:
        if agent.hosted or agent.status != "active":
            continue
        found.allowed[agent.name] = []
        for tool in tools:
            decision = inspect(client, target, tool_question(agent.agent_id, tool))
            if decision.get("allowed") is True:
                found.allowed[agent.name].append(tool)
            elif agent.name not in found.refused:
                refusal = decision.get("refusal") or {}
                said = (str(refusal.get(name) or "") for name in ("explanation", "remedy"))
                found.refused[agent.name] = " ".join(text for text in said if text) or "refused"
    return found


def _wait_until_settled(client: Client, target: Target, upstream: str) -> Mapping[str, Any]:
    """Return the entry of an upstream once it no longer starts."""
    protocol, _, name = upstream.partition(".")
    end = time.monotonic() + WAIT
    while True:
        listed = entries_of(inspect(client, target, {"target": "upstreams"}).get("upstreams"), "upstreams")
        entry: Mapping[str, Any] = next(
            (each for each in listed if each.get("name") == name and str(each.get("protocol")).lower() == protocol), {}
        )
        if entry.get("state") not in STARTING or time.monotonic() > end:
            return entry
        time.sleep(PAUSE)
