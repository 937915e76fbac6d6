"""Servers that misbehave in everything besides tool calls: P16, T-MC-1 to 70."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList

from agtphost.adapters.mcp import McpServer, UpstreamState
from agtphost.config.upstreams import MCPServerSection
from tests.adapters.mcp.hosting import ENVIRON, alive, hosted, until
from tests.adapters.mcp.test_operations import BOB, CALL, Host
from tests.late import lateness
from tests.measuring import measured
from tests.programmes import length

SCRIPT = """
import json, os, sys, threading, time
FAULT = sys.argv[1]
def put(m):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\\n"); sys.stdout.flush()
CAPS = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
for line in sys.stdin:
    m = json.loads(line); method, n = m.get("method"), m.get("id")
    if method == "initialize":
        put({"id": n, "result": {"protocolVersion": "2025-11-25", "capabilities": CAPS}})
    elif method == "tools/list":
        put({"id": n, "result": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        if FAULT == "asks-much":
            for i in range(1000):
                put({"id": "s%d" % i, "method": "elicitation/create", "params": {"message": "?"}})
        elif FAULT == "asks-and-dies":
            put({"id": "s", "method": "elicitation/create", "params": {"message": "?"}})
            time.sleep(0.5); os._exit(3)
        elif FAULT == "progress-flood":
            t = m["params"].get("_meta", {}).get("progressToken")
            for i in range(5000):
                put({"method": "notifications/progress", "params": {"progressToken": t, "progress": i}})
            put({"id": n, "result": {"content": []}})
        elif FAULT == "foreign-progress":
            for token in (0, n + 1, str(n), True, None, [n], {"a": 1}):
                put({"method": "notifications/progress", "params": {"progressToken": token, "progress": 9}})
            put({"id": n, "result": {"content": []}})
        elif FAULT == "odd-input":
            put({"id": n, "result": {"resultType": "input_required", "inputRequests": [1], "requestState": {"a": 1}}})
        elif FAULT == "odd-kind":
            put({"id": n, "result": {"resultType": ["input_required"], "content": []}})
        elif FAULT == "odd-task":
            put({"id": n, "result": {"resultType": "task", "taskId": "a\\u202eb"}})
        elif FAULT == "great-state":
            put({"id": n, "result": {"resultType": "input_required", "requestState": "x" * 100000}})
    elif method in ("resources/list", "prompts/list"):
        member = method.split("/")[0]
        if FAULT == "list-hang":
            continue
        if FAULT == "list-endless":
            put({"id": n, "result": {member: [], "nextCursor": "more"}})
        elif FAULT == "list-odd":
            put({"id": n, "result": {member: [7, {}, {"uri": 5},
                {"uri": "a\\u202eb", "name": "x"}, {"name": "a\\u200bb"}, {"uri": "test://ok", "name": "ok"}]}})
        elif FAULT == "list-crash":
            os._exit(2)
        else:
            put({"id": n, "result": {member: 5}})
    elif method == "resources/read":
        if FAULT == "list-hang": continue
        put({"id": n, "result": [1]})
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "faulty.py"
    path.write_text(SCRIPT)
    return path


def command(script: Path, fault: str) -> tuple[str, ...]:
    return (sys.executable, "-S", str(script), fault)


@measured
@pytest.mark.parametrize(
    ("fault", "status"), [("list-hang", 408), ("list-endless", 500), ("list-nonsense", 500), ("list-crash", 503)]
)
@pytest_twisted.ensureDeferred
async def test_lists_end_by_their_deadline(script: Path, fault: str, status: int) -> None:
    """A list that does not come, does not end or is none has its status; the list of all servers leaves it out."""
    settings: dict[str, Any] = {"protocol": "2025-11-25", "timeout": 1.0, "wait": fault != "list-crash"}
    async with hosted(command(script, fault), name="srv", **settings) as server:
        ask = Host(server)
        if fault != "list-crash":
            began = reactor.seconds()  # type: ignore[attr-defined]
            with lateness(reactor) as late:
                refusal = await ask.refused("mcp.resources.list", {"server": "srv"})
            assert refusal.status == status
            assert reactor.seconds() - began < 3 + late.seconds  # type: ignore[attr-defined]
            assert (await ask("mcp.resources.list")).result["mcp_response"]["resources"] == []
            assert server.state is UpstreamState.UP
        else:
            await until(lambda: server.state is UpstreamState.BACKOFF)
            assert (await ask.refused("mcp.resources.list", {"server": "srv"})).status == status


@pytest_twisted.ensureDeferred
async def test_entries_that_deceive_are_left_out(script: Path) -> None:
    """T-MC-90: what has no name, or one with invisible characters, is not listed; the rest is."""
    async with hosted(command(script, "list-odd"), name="srv", protocol="2025-11-25") as server:
        ask = Host(server)
        listed = (await ask("mcp.resources.list")).result["mcp_response"]["resources"]
        assert [entry["uri"] for entry in listed] == ["test://ok"]
        assert [e["name"] for e in (await ask("mcp.prompts.list")).result["mcp_response"]["prompts"]] == ["srv.ok"]
        assert (await ask.refused("mcp.resources.read", {"uri": "test://ok"})).status == 500


@pytest_twisted.ensureDeferred
async def test_a_server_that_asks_without_end_is_bounded(script: Path) -> None:
    """Sixteen requests of one call wait for answers; all others are refused, and the caller still hears of sixteen."""
    async with hosted(command(script, "asks-much"), name="srv", protocol="2025-11-25", isolation="per-agent") as server:
        ask = Host(server)
        answer = await ask(CALL, {"tool": "work"}, task_id="t")
        assert (answer.status, len(answer.result["inputRequests"])) == (202, 16)
        await ask("mcp.requests.cancel", {"task_id": "t"})


@pytest_twisted.ensureDeferred
async def test_a_process_that_dies_while_its_caller_thinks(script: Path) -> None:
    """The answer comes too late: 503 with the exit code, at once."""
    settings: dict[str, Any] = {"protocol": "2025-11-25", "isolation": "per-agent"}
    async with hosted(command(script, "asks-and-dies"), name="srv", **settings) as server:
        ask = Host(server)
        first = await ask(CALL, {"tool": "work"}, task_id="t")
        instance = server.instances.all()[0]
        await until(lambda: instance.state is UpstreamState.BACKOFF)
        (name,) = first.result["inputRequests"]
        payload = {"tool": "work", "inputResponses": {name: {}}, "requestState": first.result["requestState"]}
        refusal = await ask.refused(CALL, payload, task_id="t")
        assert refusal.status == 503


@pytest_twisted.ensureDeferred
async def test_a_flood_of_progress_is_thinned(script: Path) -> None:
    """Events that come faster than they are sealed are dropped beyond a bound, and the call ends."""
    async with hosted(command(script, "progress-flood"), name="srv", protocol="2025-11-25") as server:
        ask = Host(server)
        slow: list[Any] = []

        async def emit(event: Any) -> None:
            slow.append(event)
            waiting: Deferred[None] = Deferred()
            reactor.callLater(0.001, waiting.callback, None)  # type: ignore[attr-defined]
            await waiting

        resolution = ask.adapter.resolve(CALL, {"tool": "work"}, None)
        context = ask.context(resolution.input, BOB, True)
        context.emit = emit
        await resolution.effective_handler.handle(context)
        assert 256 <= len(slow) < 5000
        assert [e["progress"] for e in slow] == sorted(e["progress"] for e in slow)


@pytest_twisted.ensureDeferred
async def test_progress_of_other_calls_reaches_nobody(script: Path) -> None:
    """A token counts only if it is the call's own, by type as well as value."""
    async with hosted(command(script, "foreign-progress"), name="srv", protocol="2025-11-25") as server:
        ask = Host(server)
        await ask(CALL, {"tool": "work"}, stream=True)
        assert ask.events == []


@pytest.mark.parametrize(
    ("fault", "status"), [("odd-input", 202), ("odd-kind", 200), ("odd-task", 500), ("great-state", 429)]
)
@pytest_twisted.ensureDeferred
async def test_odd_results_are_harmless(script: Path, fault: str, status: int) -> None:
    """What only looks like a request for input, or a task, is answered with its status and harms nothing."""
    async with hosted(command(script, fault), name="srv", protocol="2025-11-25") as server:
        ask = Host(server)
        if status < 300:
            answer = await ask(CALL, {"tool": "work"})
            assert answer.status == status
            if fault == "odd-input":
                assert answer.result["inputRequests"] == {}
        else:
            assert (await ask.refused(CALL, {"tool": "work"})).status == status
        assert server.state is UpstreamState.UP


CYCLES = length(3, 80)
"""Each of 25 processes; in the suite every kind of end occurs once at least."""


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest_twisted.ensureDeferred
async def test_cycles_of_many_at_once_leave_no_process() -> None:
    """
    T-MC-70: started and killed, 25 at once and at different moments, and 0 children or zombies are left.

    The control is that every cycle had a process: each is seen alive before it is ended.
    """
    before = children()
    seen: set[int] = set()
    idle = ("sleep", "600")
    for cycle in range(CYCLES):
        servers = [
            McpServer(reactor, MCPServerSection(name=f"s{number}", command=idle, start_timeout=30), ENVIRON)
            for number in range(25)
        ]
        for server in servers:
            server.startService()
        pids = [server.snapshot().pid for server in servers]
        assert all(pid is not None and alive(pid) for pid in pids)
        seen.update(pid for pid in pids if pid is not None)
        if cycle % 3:
            for pid in pids[: cycle % 10]:
                os.kill(pid or 0, 9)
        await DeferredList([server.stopService() for server in servers])
    assert len(seen) > 22 * CYCLES
    await until(lambda: children() <= before, 20)


def children() -> set[int]:
    """Child processes of this one, zombies included."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
