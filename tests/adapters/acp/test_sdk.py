"""A real server of the ACP SDK behind the adapter: the nine operations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.adapters.acp import ACPAdapter, ACPServer
from agtphost.config.web_upstreams import ACPServerSection
from agtphost.errors import Refusal
from agtphost.upstream.ownership import TaskOwnership
from tests.adapters.acp.environment import interpreter
from tests.adapters.mcp.hosting import pause
from tests.adapters.peers import BOB, AdapterCalls, Book, kept, process

SCRIPT = Path(__file__).with_name("servers") / "sdk_server.py"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with four agents."""
    with process(interpreter(), str(SCRIPT)) as found:
        yield found


@asynccontextmanager
async def calling(port: int, **settings: Any) -> AsyncIterator[AdapterCalls]:
    """The server behind the adapter."""
    book = Book()
    made = ACPServerSection(
        name="bee", url=f"http://127.0.0.1:{port}", scopes=("acp:runs:execute",), **{"timeout": 10.0, **settings}
    )
    server = ACPServer(reactor, made)
    adapter = ACPAdapter([server], TaskOwnership(book, "acp-run"))
    async with kept(server):
        yield AdapterCalls(adapter, book)


def run(agent: str, words: str, **members: Any) -> dict[str, Any]:
    """A RunCreateRequest."""
    return {"agent_name": agent, "input": [{"role": "user", "parts": [{"content": words}]}], **members}


def said(answer: Any) -> str:
    """The text of a run's output."""
    return "".join(part["content"] for message in answer["output"] for part in message["parts"]).strip()


async def refused(calling: Any) -> Refusal:
    """How a call is refused."""
    with pytest.raises(Refusal) as caught:
        await calling
    return caught.value


@pytest_twisted.ensureDeferred
async def test_the_server_and_its_agents(port: int) -> None:
    """ping, agents list and get: the approved manifests, and DESCRIBE's view of them (AGTP-280)."""
    async with calling(port, agents=("echo", "ask")) as on:
        assert (await on.call("acp.ping")).result == {"pong": True}
        listed = (await on.call("acp.agents.list")).result["agents"]
        assert [manifest["name"] for manifest in listed] == ["ask", "echo"]
        one = (await on.call("acp.agents.get", {"name": "echo"})).result["agent"]
        assert one["description"] == "Repeats what it hears, word by word."
        assert (await refused(on.call("acp.agents.get", {"name": "slow"}))).reason == "unknown-acp-agent"
        assert (await refused(on.call("acp.runs.create", run("slow", "x")))).reason == "unknown-acp-agent"
        assert on.adapter.hosted_protocols()[0]["agents"] == ["ask", "echo"]


@pytest_twisted.ensureDeferred
async def test_a_run_of_each_mode(port: int) -> None:
    """sync is 200 with the output, async 202 with the run to read later, stream interim messages."""
    async with calling(port) as on:
        done = await on.call("acp.runs.create", run("echo", "hello there"), task_id="R-1")
        assert (done.status, said(done.result["run"]), done.result["task_id"]) == (200, "hello there", "R-1")
        begun = await on.call("acp.runs.create", run("echo", "later on", mode="async"), task_id="R-2")
        assert begun.status == 202
        for _ in range(2000):
            read = await on.call("acp.runs.get", task_id="R-2")
            if read.result["run"]["status"] == "completed":
                break
            await pause(0.02)
        assert said(read.result["run"]) == "later on"
        assert read.result["acp_run_id"] == begun.result["acp_run_id"]
        streamed = await on.call("acp.runs.create", run("echo", "one two"), task_id="R-3", stream=True)
        assert (streamed.status, said(streamed.result["run"])) == (200, "one two")
        kinds = [event["event"]["type"] for event in on.events]
        assert kinds.count("message.part") == 2
        assert kinds[-1] == "run.completed"
        assert on.invocation is not None
        assert on.invocation.committed[0][0]["acp_run_id"] == streamed.result["acp_run_id"]
        events = (await on.call("acp.runs.events", task_id="R-3")).result["events"]
        assert [event["type"] for event in events] == kinds


@pytest.mark.parametrize("stream", [False, True])
@pytest_twisted.ensureDeferred
async def test_await_and_resume(port: int, stream: bool) -> None:
    """awaiting is 202 input_required; inputResponses with the same Task-ID, or acp.runs.resume, go on."""
    answer = {"message": {"role": "user", "parts": [{"content": "blue"}]}}
    async with calling(port) as on:
        asked = await on.call("acp.runs.create", run("ask", "x"), task_id="R-4", stream=stream)
        assert (asked.status, asked.result["resultType"]) == (202, "input_required")
        question = asked.result["inputRequests"]["await"]["message"]["parts"][0]["content"]
        assert question == "which colour?"
        given = {"inputResponses": {"await": answer}, "requestState": asked.result["requestState"]}
        assert (await refused(on.call("acp.runs.create", given, task_id="R-4", caller=BOB))).status == 409
        done = await on.call("acp.runs.create", given, task_id="R-4", stream=stream)
        assert (done.status, said(done.result["run"])) == (200, "it is blue")
        assert (await refused(on.call("acp.runs.create", given, task_id="R-4"))).reason == "stale-request-state"
        await on.call("acp.runs.create", run("ask", "x"), task_id="R-5")
        resumed = await on.call("acp.runs.resume", {"await_resume": answer}, task_id="R-5", stream=stream)
        assert said(resumed.result["run"]) == "it is blue"


@pytest_twisted.ensureDeferred
async def test_a_run_is_cancelled_once(port: int) -> None:
    """cancel is 202 at first and 409 for a run that has ended; a run that failed is 500 with what was said."""
    async with calling(port) as on:
        await on.call("acp.runs.create", run("slow", "x", mode="async"), task_id="R-6")
        assert (await on.call("acp.runs.cancel", task_id="R-6")).status == 202
        for _ in range(2000):
            read = await on.call("acp.runs.get", task_id="R-6")
            if read.result["run"]["status"] == "cancelled":
                break
            await pause(0.05)
        refusal = await refused(on.call("acp.runs.cancel", task_id="R-6"))
        assert (refusal.status, refusal.reason) == (409, "acp-run-state")
        broken = await refused(on.call("acp.runs.create", run("broken", "x"), task_id="R-7"))
        assert (broken.status, broken.reason) == (500, "acp-run-failed")
        shown: Any = broken.details["result"]
        assert said(shown["run"]) == "so far"


@pytest_twisted.ensureDeferred
async def test_sessions_are_the_callers_own(port: int) -> None:
    """The Session-ID stands for the server's session; what a payload calls one is not read (AGTP-272, T-AC)."""
    async with calling(port) as on:
        payload = run("echo", "one", session_id="00000000-0000-0000-0000-000000000001")
        first = await on.call("acp.runs.create", payload, session_id="S-1", task_id="R-8")
        assert first.extra["payload_contradicts"] == ["Session-ID"]
        second = await on.call("acp.runs.create", run("echo", "two"), session_id="S-1", task_id="R-9")
        other = await on.call("acp.runs.create", run("echo", "two"), session_id="S-1", task_id="R-9", caller=BOB)
        sessions = [answer.result["run"]["session_id"] for answer in (first, second, other)]
        assert sessions[0] == sessions[1] != sessions[2]
        read = await on.call("acp.sessions.get", session_id="S-1")
        assert read.result["session"]["id"] == sessions[0]
        assert len(read.result["session"]["history"]) == 4
        assert (await refused(on.call("acp.sessions.get", session_id="S-2"))).reason == "unknown-session"
        fetched = await refused(on.call("acp.runs.create", run("echo", "x", session={"history": ["http://x"]})))
        assert (fetched.status, fetched.reason) == (422, "callback-refused")
        for action in ("acp.runs.get", "acp.runs.cancel", "acp.runs.events", "acp.runs.resume"):
            mine = first.result["acp_run_id"]
            refusal = await refused(on.call(action, {"run_id": mine}, caller=BOB))
            assert (refusal.status, refusal.reason) == (404, "unknown-run")


@pytest_twisted.ensureDeferred
async def test_a_manifest_that_is_not_the_approved_one_is_off(port: int) -> None:
    """Design decision 16: a pinned manifest that changed is off, and the others are on."""
    async with calling(port, pins={"echo": "0" * 64}) as on:
        refusal = await refused(on.call("acp.runs.create", run("echo", "x")))
        assert (refusal.status, refusal.reason) == (503, "acp-manifest-changed")
        assert on.adapter.hosted_protocols()[0]["changed_agents"] == ["echo"]
        asked = await on.call("acp.runs.create", run("ask", "x"))
        assert asked.status == 202
