"""A host in memory with tools, endpoints and an operator, for tests of grants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.adapters.mcp.lists import list_binding
from agtphost.contract.binding import Binding, Resolution
from agtphost.errors import Refusal
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, WebUpstreams
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.peer import PeerCertificate
from agtphost.testing import MemoryHost
from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent, key_of
from agtphost.vocabulary.media_types import MCP_TOOLS
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

SCOPES = ("booking:*", "mcp:tools:execute", "documents:query")
TOOLS = ("read_file", "write_file", "list_files")


@implementer(IBuiltInHandler)
class Done:
    """A tool that does nothing."""

    kind = "mcp"

    def handle(self, context: Any) -> Mapping[str, Any]:
        return {"tool_response": {"content": []}}


def tool(server: str, name: str) -> Binding:
    """As :mod:`agtphost.adapters.mcp.bindings` makes it."""
    return Binding(
        method="EXECUTE",
        path=f"/mcp/{server}",
        handler=Done(),
        tier="B",
        name=f"{server}.{name}",
        required_scopes=("mcp:tools:execute",),
        scope_status=Status.SCOPE_VIOLATION,
        extra={"mcp_server": server, "mcp_tool": name},
        details={"mcp": {"name": name}, "semantic": {}, "input_schema": {}, "definition_digest": ""},
    )


@implementer(IPayloadAdapter)
class Shelf:
    """Carries calls of tools of the servers ``files`` and ``notes``; ``later`` has not said yet what it has."""

    name = "mcp"
    payload_types = frozenset({MCP_TOOLS})
    servers: Mapping[str, Any] = {}

    def __init__(self, *names: str) -> None:
        made = (tool(server, name) for server in ("files", "notes") for name in names or TOOLS)
        self._tools = {each.name: each for each in made}

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        if action == "mcp.tools.list":
            return Resolution(binding=list_binding(()), input={})
        found = self._tools.get(payload["tool"])
        if found is None:
            raise Refusal(Reason.UNKNOWN_TOOL)
        return Resolution(binding=found, input={})

    def tools(self) -> Sequence[Binding]:
        return list(self._tools.values())

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        return [{"protocol": "MCP", "name": name} for name in ("files", "notes", "later")]

    describe_protocols = upstreams = list_offered = hosted_protocols

    def definition(self, upstream: str, name: str) -> None:
        return None


OPERATOR = key_of("operator")


class GrantingHost(MemoryHost):
    """
    Endpoints ``QUERY /words``, ``QUERY /books/{book}`` and ``RESERVE /desk``, tools, the agents demo and other.

    :param settings: beside the operator's key.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, **options: Any) -> None:
        given = {"audit": {"operators": [OPERATOR.public.fingerprint]}, **(settings or {})}
        super().__init__(given, **options)
        for method, path in (("QUERY", "/words"), ("QUERY", "/books/{book}"), ("RESERVE", "/desk")):
            scopes = ["booking:desk"] if method == "RESERVE" else []
            self.endpoint(method, path, lambda context: {"done": True}, required_scopes=scopes)
        self.demo: TestAgent = self.agent("demo", scopes=SCOPES)
        self.other: TestAgent = self.agent("other", scopes=("mcp:tools:execute",))
        self.operator: PeerCertificate = self.identities.of_key(OPERATOR)

    def upstreams(self, on: HostServices) -> Upstreams:
        return Upstreams(mcp=Shelf(), web=WebUpstreams(adapters=(), services=(), a2a={}))  # type: ignore[arg-type]

    def grant(self, *things: str, agent: str = "demo", **more: Any) -> Answer:
        """What an operator says."""
        given = {"subject": agent, "resource": list(things), "scope": "call", **more}
        return self.call("AUTHORIZE", "/grants", given, caller=self.operator)

    def ungrant(self, *things: str, agent: str = "demo") -> Answer:
        """Take some back; without any, all."""
        given = {"resource": list(things)} if things else {"all": True}
        return self.call("REVOKE", "/grants", {"subject": agent, **given}, caller=self.operator)

    def use(self, thing: str, caller: TestAgent | None = None, **options: Any) -> Answer:
        """Call a tool, or an endpoint written ``METHOD /path``."""
        who = caller or self.demo
        method, _, path = thing.partition(" ")
        if path:
            return self.call(method, path, options.pop("input", {}), caller=who, **options)
        given = {"action": "mcp.tools.call", "payload_type": MCP_TOOLS, "payload": {"tool": thing, "arguments": {}}}
        return self.call("EXECUTE", "/", given, caller=who, **options)

    def listed(self, caller: TestAgent | None = None) -> set[str]:
        """What DISCOVER lists: endpoints and tools, as grants name them."""
        who = caller or self.demo
        methods = self.call("DISCOVER", "/methods", caller=who).result
        tools = self.call("DISCOVER", "/tools", caller=who).result
        places = {f"{entry['method']} {entry['path']}" for entry in methods if entry.get("path")}
        return places | {entry["name"] for entry in tools}
