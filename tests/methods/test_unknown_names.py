"""Bare names of tools, resources and prompts on a host with several MCP servers: who may use none learns of none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agtphost.adapters.mcp import McpAdapter, McpServer
from agtphost.adapters.mcp.tools import read_tools
from agtphost.config.upstreams import MCPServerSection
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, WebUpstreams
from agtphost.testing.connection import Answer
from agtphost.upstream.log import UpstreamLog
from tests.methods.private_hosts import PrivateHost

SERVERS: Mapping[str, tuple[str, ...]] = {"files": ("read",), "mail": ("send", "both"), "post": ("stamp", "both")}
"""The names of what each server has, tools, resources and prompts alike."""

CALLERS = ("nobody", "header", "gateway", "bob", "reader")
NOTHING = "zqxj"
SOME = ("send", "both", "stam")
"""Things of servers that no caller may use; ``stam`` is a template's."""


class SeveralHost(PrivateHost):
    """Three MCP servers that have listed what they have, and never run; ``reader`` may use the first one alone."""

    def upstreams(self, on: HostServices) -> Upstreams:
        servers = []
        for name, things in SERVERS.items():
            scopes = (f"{name}:use",)
            settings = MCPServerSection(
                name=name, command=("nothing",), scopes=scopes, resource_scopes=scopes, prompt_scopes=scopes
            )
            server = McpServer(self.clock, settings, {})
            listed = [{"name": thing, "inputSchema": {"type": "object"}} for thing in things]
            server.catalogue._adopt(read_tools(listed, {}, UpstreamLog(self.clock, name, ())))
            server.resources._known = {
                "resources": {f"data:{thing}": {} for thing in things},
                "templates": {"data:sta{rest}": {}} if "stamp" in things else {},
                "prompts": {thing: {} for thing in things},
            }
            servers.append(server)
        adapter = McpAdapter(servers, authorization=on.authorization)
        return Upstreams(mcp=adapter, web=WebUpstreams(adapters=(), services=(), a2a={}))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralHost]:
    made = SeveralHost(tmp_path_factory.mktemp("several"))
    reader = made.agent("reader", scopes=("files:use",))
    made.callers = {
        **made.callers,
        "reader": lambda method, path, given: made.call(method, path, given, caller=reader),
    }
    made.callers["reader"]("QUERY", "/words", None)  # The first answer of a connection greets.
    yield made
    made.close()


def asking(action: str, kind: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": f"mcp.{action}", "payload_type": f"application/vnd.mcp.{kind}+json", "payload": payload}


def requests(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Everything that takes a bare name."""
    uri = f"data:{name}"
    argument = {"argument": {"name": "a", "value": "b"}}
    yield "tool", asking("tools.call", "tools", {"tool": name})
    yield "resource", asking("resources.read", "resources", {"uri": uri})
    yield "prompt", asking("prompts.get", "prompts", {"name": name})
    for ref in ({"type": "ref/prompt", "name": name}, {"type": "ref/resource", "uri": uri}):
        yield str(ref["type"]), asking("completion.complete", "completion", {"ref": ref, **argument})
    wanted = {"notifications": {"resourceSubscriptions": [uri]}}
    yield "subscription", asking("subscriptions.listen", "subscriptions", wanted)


def answer_without_name(answer: Answer, name: str) -> tuple[Any, ...]:
    """What an answer tells, but for the name itself."""
    texts = [text.replace(name, "<name>") for text in (answer.body.decode(), answer.explanation, answer.remedy)]
    return answer.status, answer.reason, *texts[1:], len(texts[0]), sorted(name for name, _ in answer.headers.fields)


@pytest.mark.parametrize("name", SOME)
def test_a_name_that_the_caller_may_not_use_is_a_name_that_nothing_has(host: SeveralHost, name: str) -> None:
    """Status, reason, texts, length and header names are those of a name of the same length that no server has."""
    told = []
    for (kind, given), (_, unknown) in zip(requests(name), requests(NOTHING[: len(name)]), strict=True):
        for who in CALLERS:
            found = answer_without_name(host.callers[who]("EXECUTE", "/", given=given), name)
            wanted = answer_without_name(host.callers[who]("EXECUTE", "/", given=unknown), NOTHING[: len(name)])
            if found != wanted:
                told.append(f"{kind} of {who}:\n  {found}\n  {wanted}")
    assert told == [], "\n".join(told)


def test_who_may_use_it_reaches_it(host: SeveralHost) -> None:
    """The control: names that are there lead to their server, and ambiguous ones name whom the caller may ask."""
    user = host.agent("user", scopes=("mail:use", "post:use"))
    for kind, given in requests("send"):
        answer = host.call("EXECUTE", "/", given, caller=user)
        assert answer.status in (502, 503) or answer.reason == "stream-required", (kind, answer.status, answer.document)
    for kind, given in (*requests("both"),):
        answer = host.call("EXECUTE", "/", given, caller=user)
        assert answer.reason.startswith("ambiguous-"), (kind, answer.reason)
        assert sorted(each.partition(".")[0] for each in answer.document["candidates"]) == ["mail", "post"]
