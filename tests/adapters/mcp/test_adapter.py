"""What EXECUTE asks of the adapter: resolution, refusals, lists, and the mapping of every failure."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from agtphost.adapters.mcp import McpAdapter, McpServer
from agtphost.adapters.mcp.adapter import LIST
from agtphost.adapters.mcp.bindings import CALL, resource_binding, unlisted_binding
from agtphost.adapters.mcp.versions import NegotiationFailed
from agtphost.config.upstreams import MCPServerSection, ToolOverride
from agtphost.errors import NamingRefusal, Refusal
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.peer import Assurance
from agtphost.upstream.failures import (
    ErrorAnswer,
    RulesUnmatched,
    UpstreamFailure,
)
from agtphost.upstream.refusals import refusal
from agtphost.vocabulary.media_types import MCP_TOOLS
from agtphost.vocabulary.status import Status
from tests.adapters.mcp.hosting import context, hosted, hostile, sdk
from tests.adapters.peers import ALICE
from tests.rows import each_row


def refused(adapter: McpAdapter, action: str, payload: Any, server: str | None = None) -> Refusal:
    """How a resolution is refused to somebody who may call everything; before that is known, nothing is named."""
    told = False
    with pytest.raises(Refusal) as caught:
        binding = adapter.resolve(action, payload, server).binding
        told = binding.missing is not None
        if binding.missing is not None:
            assert not any(getattr(binding.missing(lambda other: False), "details", {}).get("close_matches", ()))
            raise binding.missing(lambda other: True)
    if isinstance(caught.value, NamingRefusal):
        if not told:
            assert not any(caught.value.details.values())
        caught.value.name_to(lambda binding: True)
    return caught.value


@pytest_twisted.ensureDeferred
async def test_tools_are_found_by_full_and_bare_name() -> None:
    """
    AGTP-271, AGTP-273: core v08 appendix D's payload, MCP's own, and the path that names the server, all reach the
    tool.
    """
    async with hosted(sdk("stdio"), name="sdk") as server, hosted(hostile(), name="plain") as plain:
        adapter = McpAdapter([server, plain])
        verifyObject(IPayloadAdapter, adapter)
        assert MCP_TOOLS in adapter.payload_types
        assert "application/vnd.mcp.resources+json" in adapter.payload_types
        forms: list[tuple[dict[str, Any], str | None]] = [
            ({"tool": "sdk.add", "arguments": {"a": 1, "b": 2}}, None),
            ({"tool": "add", "arguments": {"a": 1, "b": 2}}, None),
            ({"name": "add", "arguments": {"a": 1, "b": 2}}, None),
            ({"tool": "add", "arguments": {"a": 1, "b": 2}}, "sdk"),
            ({"tool": "sdk.add", "arguments": {"a": 1, "b": 2}}, "sdk"),
            ({"tool": "add", "server": "sdk", "arguments": {"a": 1, "b": 2}}, None),
        ]
        for payload, path in forms:
            resolution = adapter.resolve(CALL, payload, path)
            binding = resolution.binding
            verifyObject(IBuiltInHandler, binding.handler)
            assert (binding.name, binding.method, binding.path) == ("sdk.add", "EXECUTE", "/mcp/sdk")
            assert (binding.required_scopes, binding.scope_status) == (
                ("mcp:tools:execute",),
                Status.SCOPE_VIOLATION,
            )
            assert binding.min_assurance is Assurance.CERTIFICATE
            assert binding.extra == {"mcp_server": "sdk", "mcp_tool": "add"}
            assert binding.input_schema is not None
            assert binding.input_schema.is_valid({"a": 1, "b": 2})
            assert not binding.input_schema.is_valid({"a": "x"})
            response = await binding.handler.handle(context(resolution.input))
            assert response.status == 200
            assert response.result["tool_response"]["content"] == [{"type": "text", "text": "3"}]
        assert [binding.name for binding in adapter.tools()][:1] == ["plain.work"]
        entries = {entry["name"]: entry for entry in adapter.hosted_protocols()}
        assert entries["sdk"] == {
            "protocol": "MCP", "method": "EXECUTE", "path": "/mcp/sdk", "version": "2026-07-28",
            "name": "sdk", "state": "up", "tools": 9,
        }  # fmt: skip


@pytest_twisted.ensureDeferred
async def test_what_does_not_exist_is_refused_with_its_remedy() -> None:
    """
    422 with close matches, 409 with candidates, 404 for a server, 422 for actions and malformed payloads.
    """
    async with hosted(hostile(), name="one") as one, hosted(hostile(), name="two") as two:
        adapter = McpAdapter([one, two])
        ambiguous = refused(adapter, CALL, {"tool": "work"})
        assert (ambiguous.status, ambiguous.details["candidates"]) == (409, ["one.work", "two.work"])
        unknown = refused(adapter, CALL, {"tool": "one.wrok"})
        assert (unknown.status, unknown.reason) == (422, "unknown-tool")
        assert "one.work" in unknown.details["close_matches"]  # type: ignore[operator]
        assert refused(adapter, CALL, {"tool": "work"}, "three").status == 404
        assert refused(adapter, CALL, {"tool": "one.work"}, "two").status == 422
        assert refused(adapter, "mcp.tools.delete", {}).reason == "unknown-action"
        for payload in (None, [], "x", {}, {"tool": 3}, {"tool": ""}, {"tool": "one.work", "arguments": []},
                        {"tool": "one.work", "_meta": 1}):  # fmt: skip
            assert refused(adapter, CALL, payload).reason == "invalid-payload"


@pytest_twisted.ensureDeferred
async def test_a_payload_that_contradicts_header_fields_is_told_of() -> None:
    """
    AGTP-272, T-SC-70: what a tool call's payload says of its caller changes nothing; the record says so, once.

    Control: a payload that repeats the header fields as they are, and arguments of such names, are nothing to tell.
    """
    said: list[str] = []
    async with hosted(hostile(), name="one") as one:
        one.say = lambda text, level: said.append(text)  # type: ignore[method-assign]
        adapter = McpAdapter([one])

        async def told(payload: dict[str, Any]) -> Any:
            resolution = adapter.resolve(CALL, {"tool": "one.work", **payload}, None)
            assert resolution.binding.required_scopes == ("mcp:tools:execute",)
            asked = context(resolution.input, caller=ALICE, scopes=frozenset({"mcp:tools:execute"}), task_id="T")
            return (await resolution.effective_handler.handle(asked)).extra.get("payload_contradicts")

        assert await told({"agent_id": "f" * 64, "authority_scope": "*:*"}) == ["Agent-ID", "Authority-Scope"]
        assert await told({"_meta": {"agtp/agent-id": "f" * 64}}) == ["Agent-ID"]
        assert len(said) == 2 and "contradicts Agent-ID, Authority-Scope" in said[0]
        assert await told({"arguments": {"agent_id": "f" * 64}}) is None
        assert await told({"task_id": "T", "agent_id": ALICE.agent_id}) is None
        assert await told({"_meta": {"traceparent": "t"}}) is None
        assert len(said) == 2


@pytest_twisted.ensureDeferred
async def test_an_unlisted_server_hides_no_mistake_at_another() -> None:
    """A tool that names its server is unknown, 422, however long another one takes to start (control: a bare name)."""
    sleeping = McpServer(reactor, MCPServerSection(name="late", command=("sleep", "60"), start="lazy"), {})
    async with hosted(hostile(), name="one") as one:
        adapter = McpAdapter([one, sleeping])
        wrong = refused(adapter, CALL, {"tool": "one.wrok"})
        assert (wrong.status, wrong.reason, wrong.details["close_matches"]) == (422, "unknown-tool", ["one.work"])
        assert refused(adapter, CALL, {"tool": "wrok"}).reason == "tools-not-listed"


@pytest_twisted.ensureDeferred
async def test_a_tool_that_is_off_shadows_others_of_its_name() -> None:
    """
    Design decision 16: a bare name that stands for a quarantined tool is 503, and never another server's tool.

    Control: before the change the bare name reaches it.
    """
    async with hosted(hostile(), name="one") as one, hosted(hostile(), name="two") as two:
        lone, both = McpAdapter([one]), McpAdapter([one, two])
        assert lone.resolve(CALL, {"tool": "work"}, None).binding.name == "one.work"
        one.catalogue.pins.approve("work", "0" * 64)
        one.catalogue.recheck()
        off = refused(lone, CALL, {"tool": "work"})
        assert (off.status, off.reason) == (503, "tool-definition-changed")
        ambiguous = refused(both, CALL, {"tool": "work"})
        assert (ambiguous.status, ambiguous.details["candidates"]) == (409, ["one.work", "two.work"])
        assert both.resolve(CALL, {"tool": "two.work"}, None).binding.name == "two.work"


@pytest_twisted.ensureDeferred
async def test_the_operators_overrides_decide() -> None:
    """Per tool: scopes, assurance, impact and existence; a disabled tool is as unknown as any other."""
    tools = {
        "add": ToolOverride(scopes=("maths:add",), min_assurance=Assurance.HEADER, impact="informational"),
        "echo": ToolOverride(enabled=False),
        "fail": ToolOverride(scopes=()),
    }
    async with hosted(sdk("stdio"), name="sdk", tools=tools, scopes=("mcp:sdk:*",)) as server:
        adapter = McpAdapter([server])
        add = adapter.resolve(CALL, {"tool": "add"}, None).binding
        assert (add.required_scopes, add.min_assurance, add.state_changing) == (
            ("maths:add",),
            Assurance.HEADER,
            False,
        )
        assert adapter.resolve(CALL, {"tool": "fail"}, None).binding.required_scopes == ()
        other = adapter.resolve(CALL, {"tool": "history"}, None).binding
        assert (other.required_scopes, other.min_assurance) == (("mcp:sdk:*",), Assurance.CERTIFICATE)
        assert refused(adapter, CALL, {"tool": "sdk.echo"}).reason == "unknown-tool"


@pytest_twisted.ensureDeferred
async def test_a_server_that_is_down_is_503_at_call_time() -> None:
    """Its known tools resolve, so that scopes are checked first; the call then says when to try again."""
    async with hosted(hostile("crash", 1), name="one") as server:
        adapter = McpAdapter([server])
        binding = adapter.resolve(CALL, {"tool": "one.work"}, None).binding
        with pytest.raises(Refusal) as lost:
            await binding.handler.handle(context())
        assert (lost.value.status, lost.value.details["exit_code"]) == (503, 1)
        assert adapter.tools() == []
        with pytest.raises(Refusal) as down:
            await adapter.resolve(CALL, {"tool": "work"}, None).effective_handler.handle(context())
        assert (down.value.status, down.value.reason) == (503, "upstream-down")
        assert int(dict(down.value.headers)["Retry-After"]) >= 1


def test_a_server_that_never_listed_its_tools_demands_what_is_configured() -> None:
    """Before the first start a full name resolves with the settings' scopes; a bare one is 503, not 422."""
    settings = MCPServerSection(name="one", command=("x",), tools={"a": ToolOverride(scopes=("a:b",))})
    adapter = McpAdapter([McpServer(reactor, settings, {})])
    assert adapter.resolve(CALL, {"tool": "one.a"}, None).binding.required_scopes == ("a:b",)
    assert adapter.resolve(CALL, {"tool": "a"}, "one").binding.min_assurance is Assurance.CERTIFICATE
    assert refused(adapter, CALL, {"tool": "a"}).reason == "tools-not-listed"
    assert adapter.tools() == []


@pytest_twisted.ensureDeferred
async def test_a_lazy_server_starts_with_the_call() -> None:
    """Nothing runs before; a tool that it turns out not to have is 422."""
    async with hosted(sdk("stdio"), wait=False, start="lazy", name="sdk") as server:
        adapter = McpAdapter([server])
        assert server.snapshot().pid is None
        binding = adapter.resolve(CALL, {"tool": "sdk.add"}, None).binding
        response = await binding.handler.handle(context({"a": 1, "b": 1}))
        assert response.result["tool_response"]["content"][0]["text"] == "2"
        assert server.snapshot().pid is not None
        with pytest.raises(Refusal) as unknown:
            await binding.handler.__class__(server, "nothing").handle(context())
        assert unknown.value.status == 422


@pytest_twisted.ensureDeferred
async def test_the_list_is_lossless_and_shows_what_may_be_called() -> None:
    """
    mcp.tools.list: definitions as received under prefixed names, filtered by the caller's gates, page by
    page.
    """
    async with hosted(sdk("stdio"), name="sdk") as server, hosted(hostile(), name="plain") as plain:
        adapter = McpAdapter([server, plain])
        every = adapter.resolve(LIST, {}, None)
        listed = every.effective_handler.handle(context()).result["tool_response"]["tools"]
        assert [tool["name"] for tool in listed] == sorted(binding.name for binding in adapter.tools())
        echo = next(tool for tool in listed if tool["name"] == "sdk.echo")
        assert {**echo, "name": "echo"} == server.catalogue.tools["echo"].definition
        only = adapter.resolve(LIST, None, "plain").binding.handler
        assert [tool["name"] for tool in only.handle(context()).result["tool_response"]["tools"]] == ["plain.work"]
        few = context(admits=lambda binding: binding.name == "sdk.add")
        assert [t["name"] for t in every.effective_handler.handle(few).result["tool_response"]["tools"]] == ["sdk.add"]
        after = every.effective_handler.handle(context({"cursor": "sdk.noisy"})).result["tool_response"]["tools"]
        assert [tool["name"] for tool in after] == ["sdk.routed", "sdk.sleep"]
        with pytest.raises(Refusal):
            every.effective_handler.handle(context({"cursor": 3}))


@pytest_twisted.ensureDeferred
async def test_meta_is_passed_on_without_what_is_the_hosts() -> None:
    """A call with _meta still goes through the tool's own gates; the binding differs in its handler alone."""
    async with hosted(sdk("stdio"), name="sdk") as server:
        adapter = McpAdapter([server])
        meta = {"traceparent": "00-1", "io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        resolution = adapter.resolve(CALL, {"name": "add", "arguments": {"a": 1, "b": 1}, "_meta": meta}, None)
        known = server.catalogue.bindings["add"]
        assert resolution.binding.required_scopes == known.required_scopes
        response = await resolution.effective_handler.handle(context(resolution.input))
        assert response.result["tool_response"]["isError"] is False


@pytest_twisted.ensureDeferred
async def test_errors_of_a_tool_are_results() -> None:
    """isError is kept, with 200; a deadline of the exchange shortens the server's own; cancelling is 409."""
    async with hosted(sdk("stdio"), name="sdk") as server:
        adapter = McpAdapter([server])
        failing = adapter.resolve(CALL, {"tool": "fail", "arguments": {"reason": "r"}}, None)
        response = await failing.effective_handler.handle(context(failing.input))
        assert (response.status, response.result["tool_response"]["isError"]) == (200, True)
        sleep = adapter.resolve(CALL, {"tool": "sleep"}, None).effective_handler
        with pytest.raises(Refusal) as late:
            await sleep.handle(context({"seconds": 20}, deadline=reactor.seconds() + 0.2))
        assert late.value.status == 408
        running = Deferred.fromCoroutine(sleep.handle(context({"seconds": 20})))
        reactor.callLater(0.05, running.cancel)
        with pytest.raises(Refusal) as gone:
            await running
        assert gone.value.status == 409


@each_row(
    ("failure", "status", "retry"),
    [
        (ErrorAnswer({"code": -32602, "message": "m"}), 422, False),
        (ErrorAnswer({"code": -32601, "message": "m"}), 422, False),
        (ErrorAnswer({"code": -32603, "message": "m", "data": {"x": 1}}), 500, False),
        (ErrorAnswer({"message": "no code"}), 500, False),
        (NegotiationFailed("n"), 503, True),
        (RulesUnmatched(), 503, False),
    ],
)
def test_each_failure_has_its_status(failure: UpstreamFailure, status: int, retry: bool) -> None:
    """Adapters section 1.1: what MCP adds to the table; what the server said of an error is kept whole."""
    answer = refusal("mcp", "fs", failure)
    assert answer.status == status
    assert bool(dict(answer.headers).get("Retry-After")) is retry
    assert answer.details["mcp_server"] == "fs"
    if isinstance(failure, ErrorAnswer):
        assert answer.details["result"] == {"error": failure.error}


@each_row(
    "floor, changing, reading",
    [
        (Assurance.CERTIFICATE, Assurance.CERTIFICATE, Assurance.GATEWAY),
        (Assurance.HEADER, Assurance.GATEWAY, Assurance.GATEWAY),
    ],
)
def test_what_the_operator_left_open_follows_the_rule_of_bindings(
    floor: Assurance, changing: Assurance, reading: Assurance
) -> None:
    """A certificate for what changes state, a token for what the operator says only reads; a header for nothing."""
    settings = MCPServerSection(
        name="one",
        command=("x",),
        tools={"read": ToolOverride(impact="informational"), "write": ToolOverride(impact="reversible")},
    )
    server = McpServer(reactor, settings, {}, floor=floor)
    adapter = McpAdapter([server])
    for tool, least in (("read", reading), ("write", changing), ("other", changing)):
        assert adapter.resolve(CALL, {"tool": f"one.{tool}"}, None).binding.min_assurance is least
    resource = resource_binding(server, unlisted_binding(server, "x").handler, "resource", "file:///x", None)
    assert resource.min_assurance is reading


def test_the_hint_of_an_unknown_tool_is_of_no_tool() -> None:
    """Every name that no server has is answered with one remedy, which says how tools are opened to tokens."""
    adapter = McpAdapter([])
    remedies = {refused(adapter, CALL, {"tool": name}).remedy for name in ("a", "b.c", "files.read_file")}
    (remedy,) = remedies
    assert 'min_assurance = "gateway"' in remedy
