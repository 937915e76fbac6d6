"""Calls that wait for a person, as callers see them: command, client library and bridge, at a real host over TLS."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp.client.session import ClientRequestContext

from agtphost.client.mcp.held_calls import NOTE
from tests import forking
from tests.npm import document, node
from tests.rows import each_row
from tests.system.bridging import http_bridge, stdio
from tests.system.held_calls import TOOL, caller, decide, delete, deletion, held_sample, listed, note, operator
from tests.system.hosting import BIN, Host, running, until
from tests.system.mcp_sessions import ERAS, said

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]

SHOWN = TOOL.replace(".", "__")
"""What clients of the bridge call the tool."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Deleting a note needs the registrar's approval."""
    with running(held_sample(tmp_path_factory.mktemp("held"))) as started:
        yield started


def approve_next(host: Host, name: str, status: str = "accepted", **more: Any) -> str:
    """Wait until the deletion of a note is asked for, and decide about it."""
    with operator(host) as client:
        found: list[dict[str, Any]] = []

        def asked() -> bool:
            waiting = listed(client, host, state="pending")
            found[:] = [each for each in waiting if name in json.dumps(each["input"])]
            return bool(found)

        until(asked)
        reply = decide(client, host, found[0]["approval_id"], status, **more)
        assert reply.ok, reply.body
        return str(found[0]["approval_id"])


# The command


def test_the_story_on_the_command_line(host: Host) -> None:
    """Held with exit status 5, listed, shown, approved, made, and explained from any of its three records."""
    file = note(host, "told")
    held = host.agtp("tools", "call", TOOL, "name=told")
    assert held.returncode == 5 and file.exists(), held.stderr
    (entry,) = [each for each in host.agtp_json("approvals", "ls") if each["input"] == {"name": "told"}]
    approval_id = entry["approval_id"]
    assert approval_id in held.stderr and approval_id in host.agtp("approvals", "ls", "--ids").stdout.split()
    shown = host.agtp("approvals", "show", approval_id)
    assert shown.returncode == 0 and '"name": "told"' in shown.stdout and TOOL in shown.stdout
    own = host.agtp("approvals", "approve", approval_id, "--as", "demo")
    assert own.returncode == 1 and "[own-approval]" in own.stderr and "--as NAME" in own.stderr
    done = host.agtp("approvals", "approve", approval_id, "--reason", "ticket 4711")
    assert done.returncode == 0 and "may be made once until" in done.stdout, done.stderr
    again = host.agtp("approvals", "reject", approval_id)
    assert again.returncode == 1 and "[already-decided]" in again.stderr and "approvals show" in again.stderr
    assert host.agtp("tools", "call", TOOL, "name=told").returncode == 0
    assert not file.exists()
    kept = host.agtp_json("approvals", "show", approval_id)
    assert kept["state"] == "used"
    steps = {step: kept[f"{step}_audit_id"] for step in ("proposed", "decided", "executed")}
    for audit_id in steps.values():
        explained = host.agtp("explain", audit_id)
        assert explained.returncode == 0, explained.stderr
        said = (*steps, *steps.values(), "accepted by admin: ticket 4711")
        assert all(each in explained.stdout for each in said), explained.stdout
        as_json = host.agtp_json("explain", audit_id)
        assert {step: as_json["approval"][step]["audit_id"] for step in steps} == steps
        assert all(as_json["approval"][step]["read"] for step in steps)


def test_rejected_is_told_with_its_reason(host: Host) -> None:
    """The repeat is refused, with what whoever decided has said; the file stays."""
    file = note(host, "kept")
    assert host.agtp("tools", "call", TOOL, "name=kept").returncode == 5
    (entry,) = [each for each in host.agtp_json("approvals", "ls") if each["input"] == {"name": "kept"}]
    assert host.agtp("approvals", "reject", entry["approval_id"], "--reason", "not on a Friday").returncode == 0
    refused = host.agtp("tools", "call", TOOL, "name=kept")
    assert refused.returncode == 1 and "[approval-rejected]" in refused.stderr and file.exists()
    assert "not on a Friday" in refused.stderr


def test_the_command_waits(host: Host) -> None:
    """``--wait-approval``: it says what it waits for, and the call is made when somebody approves."""
    file = note(host, "waited")
    process = forking.start(
        [str(BIN / "agtp"), "tools", "call", TOOL, "name=waited", "--wait-approval", "120"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=host.config.parent,
        env=dict(os.environ),
    )
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    assert line.startswith("held for a person: apr-") and file.exists()
    assert host.agtp("approvals", "approve", line.split()[4].rstrip(";")).returncode == 0
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and not file.exists(), (output, errors)


def test_can_and_lists_say_so(host: Host) -> None:
    """Before anybody calls: ``agtp can``, ``agtp tools ls``."""
    can = host.agtp("can", "demo", "EXECUTE", "/", "--tool", TOOL, "name=x")
    assert can.returncode == 0 and "once a person has approved it" in can.stdout
    plain = host.agtp("can", "demo", "EXECUTE", "/", "--tool", "files.list_files")
    assert plain.returncode == 0 and "approved" not in plain.stdout
    rows = {line.split()[0]: line for line in host.agtp("tools", "ls").stdout.splitlines()}
    assert "by a person" in rows[TOOL] and "by a person" not in rows["files.list_files"]


# The client library


def test_a_stream_waits_at_the_host(host: Host) -> None:
    """One interim message says which approval; the answer comes when somebody has decided."""
    file = note(host, "streamed")
    told: list[Any] = []
    deciding = threading.Thread(target=approve_next, args=(host, "streamed"))
    deciding.start()
    with caller(host) as client:
        reply = delete(host, client, "streamed", stream=told.append, wait_for_approval=60)
    deciding.join(60)
    assert reply.ok and not file.exists()
    event = told[0].result["event"]
    assert event["type"] == "approval-required" and event["approval_id"].startswith("apr-")


def test_a_stream_that_has_waited_enough_is_answered(host: Host) -> None:
    """202, as without a stream: the approval stays, and the very same call finds it again."""
    file = note(host, "patient")
    told: list[Any] = []
    with caller(host) as client:
        first = delete(host, client, "patient", stream=told.append, wait_for_approval=0.3)
        assert first.approval is not None and file.exists()
        assert told[0].result["event"]["approval_id"] == first.approval.approval_id
        at_once = delete(host, client, "patient", stream=told.append, wait_for_approval=0)
        assert at_once.approval == first.approval and len(told) == 1, "who waits for nothing is told by the answer"
        with operator(host) as person:
            assert decide(person, host, first.approval.approval_id).ok
        assert delete(host, client, "patient", stream=told.append, wait_for_approval=0).ok
    assert not file.exists()


@each_row("given", ["soon", -5, True, [1], None, {"a": 1}])
def test_a_wait_that_is_none(host: Host, given: Any) -> None:
    """Negative is none at all; what is no number is left out of account, and the stream waits."""
    name = f"odd{abs(hash(str(given))) % 10_000}"
    note(host, name)
    told: list[Any] = []
    with caller(host) as client:
        context = {"stream": True, "approval_wait": given}
        if given == -5:
            reply = delete(host, client, name, context=context)
            assert reply.approval is not None
            return
        deciding = threading.Thread(target=approve_next, args=(host, name))
        deciding.start()
        reply = delete(host, client, name, context=context, stream=told.append)
        deciding.join(60)
    assert reply.ok and told


# The bridge


@each_row("transport", ["stdio", "http"])
@each_row("era", ERAS)
def test_a_held_call_over_the_bridge(era: str, transport: str, host: Host) -> None:
    """Listed as such; an answer with ``isError`` that says what to do, and the same call again runs once approved."""
    name = f"{era[:3]}{transport}".replace("2026", "m").replace("-", "")
    file = note(host, name)

    async def story(where: Any) -> None:
        async with McpClient(where, mode=era) as mcp:  # type: ignore[arg-type]
            tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
            assert (tools[SHOWN].description or "").endswith(NOTE)
            assert dict(tools[SHOWN].meta or {})["agtp/approval"] == "required"
            assert NOTE not in (tools["files__list_files"].description or "")
            assert (tools["echo_text"].description or "").endswith(NOTE)
            held = await mcp.call_tool(SHOWN, {"name": name})
            facts = dict(held.meta or {})["agtp/approval"]
            assert held.is_error and file.exists()
            assert said(held).startswith(
                f"held for a person: {facts['approval_id']}; call again with the same arguments"
            )
            again = await mcp.call_tool(SHOWN, {"name": name})
            assert dict(again.meta or {})["agtp/approval"] == facts
            with operator(host) as person:
                assert decide(person, host, facts["approval_id"]).ok
            assert (await mcp.call_tool(SHOWN, {"name": f"{name}x"})).is_error, "other arguments are another call"
            assert file.exists()
            done = await mcp.call_tool(SHOWN, {"name": name})
            assert not done.is_error and not file.exists(), said(done)
            echoed = await mcp.call_tool("echo_text", {"text": name})
            assert echoed.is_error and "held for a person" in said(echoed)

    if transport == "stdio":
        anyio.run(story, stdio(host))
        return
    with http_bridge(host) as bridge:
        anyio.run(story, bridge.url)


@each_row("era", ERAS)
@each_row("tool", [SHOWN, "echo_text"])
def test_the_bridge_waits(era: str, tool: str, host: Host) -> None:
    """``--approval-wait``: progress says what it waits for, and the answer is the tool's."""
    name = f"wait{era[:3]}{tool[:4]}".replace("2026", "m")
    file = note(host, name)
    messages: list[tuple[float, str | None]] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        messages.append((progress, message))

    async def story() -> types.CallToolResult:
        async with McpClient(stdio(host, "--approval-wait", "120"), mode=era) as mcp:  # type: ignore[arg-type]
            await mcp.list_tools()
            arguments = {"name": name} if tool == SHOWN else {"text": name}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, approve_next, host, name)
                result: types.CallToolResult = await mcp.call_tool(tool, arguments, progress_callback=step)
            return result

    result = anyio.run(story)
    assert not result.is_error, said(result)
    assert messages and (messages[0][1] or "").startswith("held for a person to approve: apr-")
    assert [progress for progress, _ in messages] == sorted(progress for progress, _ in messages)
    assert (name in said(result)) if tool != SHOWN else not file.exists()


def test_a_bridge_that_has_waited_enough_says_so(host: Host) -> None:
    """After its seconds the answer is what it would have been at once."""
    file = note(host, "enough")

    async def story() -> types.CallToolResult:
        async with McpClient(stdio(host, "--approval-wait", "0.3"), mode="legacy") as mcp:
            result: types.CallToolResult = await mcp.call_tool(SHOWN, {"name": "enough"})
            return result

    held = anyio.run(story)
    assert held.is_error and "call again with the same arguments" in said(held) and file.exists()


def test_a_rejected_call_over_the_bridge(host: Host) -> None:
    """An error that names the reason; while it is waited for, and when it is made again."""
    note(host, "never")

    async def rejecting() -> None:
        await anyio.to_thread.run_sync(lambda: approve_next(host, "never", "rejected", reason="no, Bob"))

    async def story() -> list[str]:
        async with McpClient(stdio(host, "--approval-wait", "120"), mode="legacy") as mcp:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(rejecting)
                first = await mcp.call_tool(SHOWN, {"name": "never"})
            second = await mcp.call_tool(SHOWN, {"name": "never"})
            assert first.is_error and second.is_error
            return [said(first), said(second)]

    for told in anyio.run(story):
        assert "approval-rejected" in told and "no, Bob" in told


def test_nobody_is_asked_at_the_calling_client(host: Host) -> None:
    """A client that answers every question is asked none: whoever calls does not decide about it."""
    asked: list[str] = []

    async def elicited(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async def story() -> types.CallToolResult:
        async with McpClient(stdio(host), mode="legacy", elicitation_callback=elicited) as mcp:
            result: types.CallToolResult = await mcp.call_tool(SHOWN, {"name": "unasked"})
            return result

    assert anyio.run(story).is_error and asked == []


@pytest.mark.npm
def test_the_typescript_client_is_told(host: Host) -> None:
    """The MCP Inspector's command line, on the TypeScript SDK: the tool is marked, the call held, and then made."""
    file = note(host, "typed")
    inspector = document("@modelcontextprotocol/inspector", "clients/launcher/build/index.js", "2.12.0")

    def inspect(*words: str) -> dict[str, Any]:
        bridge = (f"{forking.path()}/agtp", "mcp-bridge")
        done = subprocess.run(
            [str(node()), str(inspector), "--cli", *bridge, *words],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=host.config.parent,
            env={**os.environ, "PATH": f"{node().parent}:{os.environ['PATH']}"},
            check=False,
        )
        # It tells an answer with isError by its exit status too.
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    tools = {tool["name"]: tool for tool in inspect("--method", "tools/list")["tools"]}
    assert tools[SHOWN]["_meta"]["agtp/approval"] == "required"
    words = ("--method", "tools/call", "--tool-name", SHOWN, "--tool-arg", "name=typed")
    held = inspect(*words)
    approval_id = held["_meta"]["agtp/approval"]["approval_id"]
    assert held["isError"] is True and approval_id in held["content"][0]["text"] and file.exists()
    with operator(host) as person:
        assert decide(person, host, approval_id).ok
    assert not inspect(*words).get("isError") and not file.exists()


def test_the_input_that_is_bound(host: Host) -> None:
    """The control of all of these: what the library sends is what is shown."""
    with caller(host) as client, operator(host) as person:
        reply = delete(host, client, "bound")
        assert reply.approval is not None
        (entry,) = listed(person, host, id=reply.approval.approval_id)
        assert entry["input"] == deletion("bound")["payload"]["arguments"]
        assert entry["digest"] == reply.approval.digest
