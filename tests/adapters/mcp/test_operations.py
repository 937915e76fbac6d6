"""Everything besides tool calls, in both eras: resources, prompts, completions, input, events, cancellation."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from agtphost.adapters.mcp import McpAdapter, McpServer, UpstreamState
from agtphost.config.upstreams import MCPServerSection, ToolOverride
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status
from tests.adapters.mcp.hosting import SERVERS, alive, context, heard, hosted, pause, until
from tests.dispatch.hosts import agent
from tests.measuring import measured

ALICE, BOB = "a" * 64, "b" * 64
UNKNOWN = "No hosted MCP server has that prompt."
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
IDLE = 1.0
"""Seconds after which an instance ends that nobody uses."""


def asking(era: str, *arguments: object) -> tuple[str, ...]:
    """The command of the server that uses everything."""
    return (sys.executable, "-S", str(SERVERS / "asking.py"), era, *map(str, arguments))


class Host:
    """An adapter over one server, and callers of it."""

    def __init__(self, server: McpServer) -> None:
        self.held = server.calls.items
        self.server = server
        self.adapter = McpAdapter([server])
        self.events: list[Mapping[str, Any]] = []

    async def __call__(
        self, action: str, payload: Any = None, *, who: str = ALICE, stream: bool = False, **members: Any
    ) -> Any:
        """What EXECUTE answers: the response."""
        resolution = self.adapter.resolve(action, payload, None)
        answer = resolution.effective_handler.handle(self.context(resolution.input, who, stream, **members))
        if not isinstance(answer, EndpointResponse):
            answer = await answer
        for change in answer.changes:
            value = None if change.value is None else jsontext.encode(change.value)
            self.held.apply(
                [
                    ItemRow(
                        kind=change.kind,
                        key=change.key,
                        value=value,
                        owner=bytes.fromhex(change.owner),
                        expires_at=change.expires_at,
                        version=1,
                    )
                ]
            )
        return answer

    def context(self, given: Mapping[str, Any], who: str, stream: bool, **members: Any) -> EndpointContext:
        caller = agent(who, "caller", hosted=False, scopes=frozenset({"mcp:*"}))
        exchange = SimpleNamespace(context={"stream": stream})

        async def emit(event: Mapping[str, Any]) -> None:
            self.events.append(event)

        return context(given, caller=caller, invocation=SimpleNamespace(exchange=exchange), emit=emit, **members)

    async def refused(self, action: str, payload: Any = None, **members: Any) -> Refusal:
        """The refusal that a request must end in."""
        with pytest.raises(Refusal) as caught:
            await self(action, payload, **members)
        return caught.value

    def start(self, action: str, payload: Any = None, **members: Any) -> list[Any]:
        """Begin a request; the list gets its one outcome."""
        outcomes: list[Any] = []
        running = Deferred.fromCoroutine(self(action, payload, **members))
        running.addCallbacks(outcomes.append, lambda failure: outcomes.append(failure.value))
        return outcomes


@asynccontextmanager
async def host(era: str, *arguments: object, **settings: Any) -> AsyncIterator[Host]:
    """A host of the server that uses everything."""
    async with hosted(asking(era, *arguments), name="srv", **settings) as server:
        yield Host(server)


async def seen(ask: Host) -> list[str]:
    """What its server has noted."""
    noted: list[str] = said(await ask(CALL, {"tool": "seen"}))["seen"]
    return noted


def said(answer: EndpointResponse) -> Any:
    """The text of a tool's answer."""
    text = answer.result["tool_response"]["content"][0]["text"]
    return json.loads(text) if text.startswith(("{", "[")) else text


@ERAS
@pytest_twisted.ensureDeferred
async def test_resources_are_listed_and_read(era: str) -> None:
    """AGTP-274: lists name the server of each entry; reads are as the server gave them; a missing one is 422."""
    async with host(era) as ask:
        listed = (await ask("mcp.resources.list")).result["mcp_response"]
        assert [entry["uri"] for entry in listed["resources"]] == ["test://one", "test://two"]
        assert listed["resources"][0]["_meta"] == {"agtp/server": "srv"}
        templates = (await ask("mcp.resources.templates.list")).result["mcp_response"]["resourceTemplates"]
        assert [entry["uriTemplate"] for entry in templates] == ["test://item/{id}"]
        read = (await ask("mcp.resources.read", {"uri": "test://item/7"})).result["mcp_response"]
        assert read["contents"] == [{"uri": "test://item/7", "text": "content of test://item/7"}]
        refusal = await ask.refused("mcp.resources.read", {"uri": "test://gone"})
        assert (refusal.status, refusal.details["result"]["error"]["code"]) == (422, -32602)  # type: ignore[index]


@ERAS
@pytest_twisted.ensureDeferred
async def test_lists_say_how_long_the_upstream_lets_them_be_kept(era: str) -> None:
    """The shortest ``ttlMs`` of a list's pages is in the answer; without one there is none."""
    async with host(era, 150) as ask:
        answers = [(await ask(f"mcp.{name}.list")).result for name in ("tools", "resources", "prompts")]
        answers.append((await ask("mcp.resources.templates.list")).result)
        told = [next(iter(answer.values())).get("ttlMs") for answer in answers]
        assert told == ([1_500, 7_000, 0, None] if era == "stateless" else [None] * 4)


@pytest_twisted.ensureDeferred
async def test_tools_are_listed_again_once_the_upstream_calls_them_stale() -> None:
    """A server that announces no changes is asked again for a reader, when its ``ttlMs`` and a second are over."""
    async with hosted((sys.executable, "-S", str(SERVERS / "growing.py"), "0"), name="srv") as server:
        ask = Host(server)
        assert set(server.catalogue.tools) == {"tool0"}

        async def names() -> list[str]:
            return [each["name"] for each in (await ask("mcp.tools.list")).result["tool_response"]["tools"]]

        assert await heard("srv.tool1", names) == ["srv.tool0", "srv.tool1"]


@pytest_twisted.ensureDeferred
async def test_the_first_reader_after_the_time_of_a_list_has_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers wait for the listing that they cause, and for one under way; not for one that takes long."""
    async with hosted((sys.executable, "-S", str(SERVERS / "growing.py"), "0"), name="srv") as server:
        ask, catalogue = Host(server), server.catalogue

        async def last() -> str:
            return str((await ask("mcp.tools.list")).result["tool_response"]["tools"][-1]["name"])

        monkeypatch.setattr("agtphost.adapters.mcp.catalogue.SHORTEST_INTERVAL", 0.0)
        first, second = Deferred.fromCoroutine(last()), Deferred.fromCoroutine(last())
        assert [await first, await second] == ["srv.tool1", "srv.tool1"]
        assert await last() == "srv.tool2"
        monkeypatch.setattr("agtphost.adapters.mcp.catalogue.LONGEST_REFRESH", 0.0)
        monkeypatch.setattr(catalogue, "load", lambda session: Deferred())
        assert await last() == "srv.tool2"


@pytest_twisted.ensureDeferred
async def test_long_lists_come_in_pages() -> None:
    """A server's own pages are walked to the end; ours have 200 entries, and none is lost or twice."""
    async with host("handshake", 450) as ask:
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        sizes = []
        while True:
            page = (await ask("mcp.resources.list", cursor)).result["mcp_response"]
            sizes.append(len(page["resources"]))
            seen += [entry["uri"] for entry in page["resources"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sizes == [200, 200, 52]
        assert len(set(seen)) == len(seen) == 452


@ERAS
@pytest_twisted.ensureDeferred
async def test_prompts_and_completions(era: str) -> None:
    """Prompts are named with their server; completions go to the server of what they complete."""
    async with host(era) as ask:
        listed = (await ask("mcp.prompts.list")).result["mcp_response"]["prompts"]
        assert [prompt["name"] for prompt in listed] == ["srv.bye", "srv.greet"]
        for name in ("srv.greet", "greet"):
            got = (await ask("mcp.prompts.get", {"prompt": name, "arguments": {"who": "Ada"}})).result
            assert got["mcp_response"]["messages"][0]["content"]["text"] == "Hello Ada"
        argument = {"name": "who", "value": "A"}
        for ref, sent in (
            ({"type": "ref/prompt", "name": "srv.greet"}, {"type": "ref/prompt", "name": "greet"}),
            ({"type": "ref/resource", "uri": "test://item/{id}"}, {"type": "ref/resource", "uri": "test://item/{id}"}),
        ):
            answer = await ask("mcp.completion.complete", {"ref": ref, "argument": argument})
            values = answer.result["mcp_response"]["completion"]["values"]
            assert (values[0], json.loads(values[1])) == ("Ax", sent)


@pytest_twisted.ensureDeferred
async def test_overrides_of_resources_and_prompts_win() -> None:
    """What the operator turned off is neither listed nor read, however its URI is written; scopes are per entry."""
    settings = {
        "resources": {
            "test://t*": ToolOverride(enabled=False),
            "test://one": ToolOverride(scopes=("documents:secret",)),
        },
        "prompts": {"bye": ToolOverride(enabled=False)},
    }
    async with host("handshake", **settings) as ask:
        listed = (await ask("mcp.resources.list")).result["mcp_response"]["resources"]
        assert [entry["uri"] for entry in listed] == ["test://one"]
        prompts = (await ask("mcp.prompts.list")).result["mcp_response"]["prompts"]
        assert [entry["name"] for entry in prompts] == ["srv.greet"]
        for uri in ("test://two", "test://%74wo", "test://a/../two", "TEST://two", "test://a/%2e%2e/two", "test://Two"):
            assert (await ask.refused("mcp.resources.read", {"uri": uri})).status == 422, uri
        binding = ask.adapter.resolve("mcp.resources.read", {"uri": "test://one"}, None).binding
        assert binding.required_scopes == ("documents:secret",)
        other = ask.adapter.resolve("mcp.resources.read", {"uri": "test://item/1"}, None).binding
        assert other.required_scopes == ("mcp:resources:read",)
        # A name that is turned off, and one that there is not: the server is asked for neither.
        for name in ("bye", "nothing"):
            completing = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": "A"}}
            for action, payload in (("mcp.prompts.get", {"prompt": name}), ("mcp.completion.complete", completing)):
                refusal = await ask.refused(action, payload)
                assert (refusal.reason, refusal.explanation) == ("unknown-prompt", UNKNOWN), (name, action)


@pytest.mark.parametrize("payload", [{}, {"server": "srv"}])
@pytest.mark.parametrize("action", ["mcp.resources.list", "mcp.resources.templates.list", "mcp.prompts.list"])
@pytest_twisted.ensureDeferred
async def test_a_server_of_which_a_caller_may_use_nothing_is_not_asked(action: str, payload: dict[str, Any]) -> None:
    """Its list is empty, whatever the server has, and no process of it is started for that."""
    async with host("handshake", isolation="per-agent") as ask:
        asked: list[str] = []
        instance_of = ask.server.instance_of

        def note(agent_id: str, *rest: Any) -> Any:
            asked.append(agent_id)
            return instance_of(agent_id, *rest)

        ask.server.instance_of = note  # type: ignore[method-assign]
        closed = (await ask(action, payload, admits=lambda binding: False)).result["mcp_response"]
        assert ([*closed.values()], asked) == ([[]], [])
        assert await ask(action, payload) and len(asked) == 1


@pytest_twisted.ensureDeferred
async def test_lists_show_what_may_be_used() -> None:
    """Design decision 14: an entry that its reader may not use is not listed."""
    async with host("handshake") as ask:

        def admits(binding: Binding) -> bool:
            return binding.extra.get("mcp_resource") != "test://one" and "mcp_prompt" not in binding.extra

        listed = (await ask("mcp.resources.list", admits=admits)).result["mcp_response"]["resources"]
        assert [entry["uri"] for entry in listed] == ["test://two"]
        assert (await ask("mcp.prompts.list", admits=admits)).result["mcp_response"]["prompts"] == []


CALL = "mcp.tools.call"


@pytest.mark.parametrize(("era", "isolation"), [("handshake", "per-session"), ("stateless", "shared")])
@pytest_twisted.ensureDeferred
async def test_a_call_that_needs_input_is_repeated_with_it(era: str, isolation: str) -> None:
    """Design decision 11, AGTP-275: one model for both eras, elicitation and sampling together."""
    async with host(era, isolation=isolation) as ask:
        first = await ask(CALL, {"tool": "both"}, task_id="t-1", session_id="s")
        assert (first.status, first.result["resultType"]) == (202, "input_required")
        requests = first.result["inputRequests"]
        assert sorted(r["method"] for r in requests.values()) == ["elicitation/create", "sampling/createMessage"]
        responses = {name: {"answer": r["method"]} for name, r in requests.items()}
        repeated = {"tool": "both", "inputResponses": responses, "requestState": first.result["requestState"]}
        # Control: the state is good for this agent, this Task-ID and this call alone.
        for wrong in ({"who": BOB, "task_id": "t-1"}, {"task_id": "t-2"}, {}):
            assert (await ask.refused(CALL, repeated, session_id="s", **wrong)).reason == "request-state-unknown"
        other = {**repeated, "tool": "elicit"}
        assert (await ask.refused(CALL, other, task_id="t-1", session_id="s")).reason == "request-state-unknown"
        done = await ask(CALL, repeated, task_id="t-1", session_id="s")
        assert done.status == 200
        got = said(done)["got"]
        assert {r["answer"] for r in got.values()} == {"elicitation/create", "sampling/createMessage"}
        if era == "handshake":
            assert (await ask.refused(CALL, repeated, task_id="t-1")).reason == "request-state-unknown"


@pytest_twisted.ensureDeferred
async def test_what_a_caller_cannot_answer_is_not_asked() -> None:
    """A caller says what it can answer; a server of the handshake era gets -32601 for everything else."""
    meta = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    async with host("handshake", isolation="per-agent") as ask:
        answer = await ask(CALL, {"tool": "elicit", "_meta": meta}, task_id="t")
        assert said(answer)["got"]["who"]["error"]["code"] == -32601
        # Control: it is asked where it says nothing.
        assert (await ask(CALL, {"tool": "elicit"}, task_id="t")).status == 202


@pytest_twisted.ensureDeferred
async def test_a_shared_handshake_server_asks_nobody() -> None:
    """Adapters rule G3: a process that several agents share cannot ask, for nobody could tell whom."""
    async with host("handshake", isolation="shared") as ask:
        answer = await ask(CALL, {"tool": "elicit"}, task_id="t")
        assert said(answer)["got"]["who"]["error"]["code"] == -32601
        assert said(await ask(CALL, {"tool": "seen"}))["seen"][0] == {"client": {}}


@pytest.mark.parametrize(
    ("era", "isolation"), [("handshake", "shared"), ("handshake", "per-agent"), ("stateless", "shared")]
)
@pytest_twisted.ensureDeferred
async def test_configured_roots_are_answered_by_the_host(era: str, isolation: str) -> None:
    """``roots/list`` takes no round with the caller where the operator named the roots."""
    async with host(era, isolation=isolation, roots=("file:///srv/data",)) as ask:
        got = said(await ask(CALL, {"tool": "roots"}, task_id="t"))["got"]
        assert got["r"] == {"roots": [{"uri": "file:///srv/data", "name": "data"}]}


@pytest_twisted.ensureDeferred
async def test_a_parked_call_is_given_up_with_its_task() -> None:
    """Cancelling by Task-ID reaches calls that wait for input; the server is told."""
    async with host("handshake", isolation="per-agent") as ask:
        first = await ask(CALL, {"tool": "elicit"}, task_id="t")
        answer = await ask("mcp.requests.cancel", {"task_id": "t"})
        assert answer.result["mcp_response"] == {"cancelled": 1}
        repeated = {"tool": "elicit", "inputResponses": {}, "requestState": first.result["requestState"]}
        assert (await ask.refused(CALL, repeated, task_id="t")).reason == "request-state-unknown"
        instance = ask.server.instances.all()[0]
        await until(lambda: not instance.busy)


@ERAS
@pytest_twisted.ensureDeferred
async def test_a_call_is_cancelled_by_its_task_id(era: str) -> None:
    """The caller gets 409 at once, and the server ``notifications/cancelled``; another agent cancels nothing."""
    async with host(era) as ask:
        running = ask.start(CALL, {"tool": "wait"}, task_id="t")
        await pause(0.1)
        assert (await ask("mcp.requests.cancel", {"task_id": "t"}, who=BOB)).result["mcp_response"] == {"cancelled": 0}
        assert running == []
        assert (await ask("mcp.requests.cancel", {"task_id": "t"})).result["mcp_response"] == {"cancelled": 1}
        await until(lambda: running)
        assert (running[0].status, running[0].reason) == (409, "upstream-cancelled")
        await heard("cancelled", lambda: seen(ask))


@pytest.mark.parametrize(("era", "isolation"), [("handshake", "per-agent"), ("stateless", "shared")])
@pytest_twisted.ensureDeferred
async def test_progress_and_log_messages_are_streamed_in_order(era: str, isolation: str) -> None:
    """Interim events come in order and before the answer, log messages from the level asked for on."""
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    async with host(era, isolation=isolation) as ask:
        # What a shared server logs goes to a caller if nothing else is asked of the server, also by the host itself.
        await until(lambda: not ask.server.busy)
        answer = await ask(CALL, {"tool": "progress", "_meta": meta}, stream=True)
        assert said(answer) == "done"
        steps = [event for event in ask.events if event["type"] == "progress"]
        assert [event["progress"] for event in steps] == [0, 1, 2]
        assert steps[0] == {"type": "progress", "server": "srv", "progress": 0, "total": 3, "message": "step 0"}
        assert [e["data"] for e in ask.events if e["type"] == "log"] == ["log 1", "log 2"]
        # Control: without a stream nothing is emitted, and no progress asked for.
        ask.events.clear()
        await ask(CALL, {"tool": "progress"})
        assert ask.events == []


@pytest_twisted.ensureDeferred
async def test_a_shared_handshake_server_gives_its_logs_to_nobody() -> None:
    """Log messages that may be another agent's stay in the host's log; progress has a token and is told."""
    async with host("handshake") as ask:
        await ask(CALL, {"tool": "progress"}, stream=True)
        assert {event["type"] for event in ask.events} == {"progress"}


@pytest_twisted.ensureDeferred
async def test_the_level_of_an_agents_session_is_set() -> None:
    """``mcp.logging.setLevel`` holds for the agent's session, and reaches the instance that is its own."""
    async with host("handshake", isolation="per-session") as ask:
        await ask(CALL, {"tool": "pid"}, session_id="s")
        await ask("mcp.logging.setLevel", {"level": "warning"}, session_id="s")
        await ask(CALL, {"tool": "progress"}, stream=True, session_id="s")
        assert not [event for event in ask.events if event["type"] == "log"]
        assert "level warning" in said(await ask(CALL, {"tool": "seen"}, session_id="s"))["seen"]
        assert (await ask.refused("mcp.logging.setLevel", {"level": "loud"})).status == 422


@ERAS
@pytest_twisted.ensureDeferred
async def test_changes_are_told_to_who_listens(era: str) -> None:
    """Updates of a subscribed resource and changed lists come as events, first of all an acknowledgement."""
    async with host(era) as ask:
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": ["test://one"]}
        for seconds in (1.0, 5.0, 25.0):  # As long as a touch takes on this machine.
            ask.events.clear()
            running = ask.start("mcp.subscriptions.listen", {"notifications": wanted, "seconds": seconds}, stream=True)
            await until(lambda: ask.events)
            await ask(CALL, {"tool": "touch"})
            in_time = not running
            await until(lambda running=running: running)  # type: ignore[misc]
            assert running[0].result == {"mcp_response": {}, "ended": "time-up"}
            if in_time:
                break
        assert ask.events[0] == {"type": "acknowledged", "notifications": wanted}
        methods = [event.get("method") for event in ask.events[1:]]
        assert methods == ["notifications/resources/updated", "notifications/resources/list_changed"]
        if era == "handshake":
            await heard("unsubscribed test://one", lambda: seen(ask))
        refusal = await ask.refused("mcp.subscriptions.listen", {"notifications": {}})
        assert refusal.reason == "stream-required"


@pytest_twisted.ensureDeferred
async def test_optional_resources_that_cannot_be_read_are_left_out() -> None:
    """Those that the caller may not read, and those that there are not; without ``optional`` they are refused."""
    async with host("stateless", resources={"test://two": {"scopes": ["notes:read"]}}) as ask:
        wanted = {"resourceSubscriptions": ["test://one", "test://two", "test://Item/../one"]}
        payload = {"notifications": wanted, "seconds": 0.1}
        assert (await ask.refused("mcp.subscriptions.listen", payload, stream=True)).reason == "resource-uri-ambiguous"
        payload["optional"] = True
        may_read = lambda binding: "notes:read" not in binding.required_scopes  # noqa: E731
        await ask("mcp.subscriptions.listen", payload, stream=True, admits=may_read)
        assert ask.events == [{"type": "acknowledged", "notifications": {"resourceSubscriptions": ["test://one"]}}]
        for entry in (5, {}, {"uri": "test://one", "server": 5}):
            wanted["resourceSubscriptions"] = [entry]
            refusal = await ask.refused("mcp.subscriptions.listen", payload, stream=True)
            assert refusal.reason == "invalid-payload", "an error of the client is no missing right"


@pytest.mark.parametrize(("isolation", "processes"), [("shared", 1), ("per-agent", 2), ("per-session", 3)])
@pytest_twisted.ensureDeferred
async def test_isolation_separates_processes(isolation: str, processes: int) -> None:
    """AGTP-276: calls of one session share a process; others share it only as configured."""
    async with host("handshake", isolation=isolation) as ask:
        seen = [
            said(await ask(CALL, {"tool": "pid"}, who=who, session_id=session))
            for who, session in ((ALICE, "1"), (ALICE, "1"), (ALICE, "2"), (BOB, "1"))
        ]
        assert len(set(seen)) == processes
        assert seen[0] == seen[1]


@measured
@pytest_twisted.ensureDeferred
async def test_instances_are_bounded_and_end_when_idle() -> None:
    """The one used longest ago makes room; one that nobody uses ends; none outlives its server."""
    async with host("handshake", isolation="per-session", max_instances=3, idle_stop=IDLE) as ask:
        began = reactor.seconds()  # type: ignore[attr-defined]
        pids = [int(said(await ask(CALL, {"tool": "pid"}, session_id=str(n)))) for n in range(3)]
        left = len(ask.server.instances)
        await until(lambda: not alive(pids[0]))
        # Unless the machine was so busy that the last one has had nothing to do for long enough to be ended.
        assert (left == 2 and alive(pids[2])) or reactor.seconds() - began > IDLE  # type: ignore[attr-defined]
        busy = [ask.start(CALL, {"tool": "wait"}, session_id=str(n), task_id=f"w{n}") for n in (1, 2)]
        await pause(0.1)
        refusal = await ask.refused(CALL, {"tool": "pid"}, session_id="9")
        assert (refusal.status, refusal.reason) == (Status.RATE_LIMITED, "upstream-busy")
        # Another agent has its place all the same: no agent has all of them.
        assert int(said(await ask(CALL, {"tool": "pid"}, session_id="9", who=BOB))) not in pids
        for n in (1, 2):
            await ask("mcp.requests.cancel", {"task_id": f"w{n}"})
        await until(lambda: all(busy))
        await until(lambda: len(ask.server.instances) == 0)
        await until(lambda: not any(map(alive, pids)))


@pytest_twisted.ensureDeferred
async def test_a_crash_of_one_instance_is_nobody_elses() -> None:
    """The caller of the crashed process gets 503 with the exit code; another agent's goes on."""
    async with host("handshake", isolation="per-agent") as ask:
        mine = said(await ask(CALL, {"tool": "pid"}, who=BOB))
        refusal = await ask.refused(CALL, {"tool": "exit"})
        assert (refusal.status, refusal.details["exit_code"]) == (503, 4)
        assert said(await ask(CALL, {"tool": "pid"}, who=BOB)) == mine
        assert ask.server.state is UpstreamState.UP


@pytest_twisted.ensureDeferred
async def test_tasks_belong_to_the_agent_that_made_them() -> None:
    """The tasks extension: 202 with the task, followed up by its agent alone, 404 for everyone else."""
    meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    async with host("stateless") as ask:
        first = await ask(CALL, {"tool": "task", "_meta": meta})
        assert (first.status, first.result["resultType"]) == (202, "task")
        assert first.result["tool_response"]["taskId"] == "t-1"
        assert (await ask("mcp.tasks.get", {"taskId": "t-1"})).result["mcp_response"]["status"] == "working"
        assert (await ask.refused("mcp.tasks.get", {"taskId": "t-1"}, who=BOB)).reason == "unknown-task"
        denied = await ask.refused("mcp.tasks.get", {"taskId": "t-1"}, admits=lambda binding: False)
        assert denied.status == 404
        await ask("mcp.tasks.update", {"taskId": "t-1", "inputResponses": {}})
        assert (await ask("mcp.tasks.get", {"taskId": "t-1"})).result["mcp_response"]["status"] == "completed"
        await ask("mcp.tasks.cancel", {"taskId": "t-1"})
        # Another agent's call that comes back with the same identifier gets no access to the first one's task.
        assert (await ask.refused(CALL, {"tool": "task", "_meta": meta}, who=BOB)).status == 500


@pytest_twisted.ensureDeferred
async def test_structured_output_is_checked_where_the_operator_says_so() -> None:
    """``validate_output``: content outside the tool's own schema is 500; by default it passes untouched."""
    async with host("handshake", validate_output=True) as ask:
        assert (await ask(CALL, {"tool": "structured"})).result["tool_response"]["structuredContent"] == {"n": 1}
        refusal = await ask.refused(CALL, {"tool": "structured", "arguments": {"n": "x"}})
        assert (refusal.status, refusal.reason) == (500, "invalid-output")
    async with host("handshake") as ask:
        answer = await ask(CALL, {"tool": "structured", "arguments": {"n": "x"}})
        assert answer.result["tool_response"]["structuredContent"] == {"n": "x"}


@pytest.mark.parametrize(
    ("action", "payload"),
    [
        ("mcp.resources.read", None),
        ("mcp.resources.read", {"uri": 7}),
        ("mcp.resources.read", []),
        ("mcp.prompts.get", {}),
        ("mcp.prompts.get", {"prompt": "greet", "arguments": []}),
        ("mcp.completion.complete", {"ref": {"type": "x"}, "argument": {"name": "a", "value": "b"}}),
        ("mcp.completion.complete", {"ref": {}, "argument": {}}),
        ("mcp.subscriptions.listen", {"notifications": {"resourceSubscriptions": "x"}}),
        ("mcp.subscriptions.listen", {"seconds": 1e9}),
        ("mcp.tasks.get", {}),
        ("mcp.requests.cancel", {}),
        ("mcp.tools.call", {"tool": "elicit", "inputResponses": []}),
        ("mcp.tools.call", {"tool": "elicit", "requestState": 5}),
        ("mcp.nothing", {}),
    ],
)
@pytest_twisted.ensureDeferred
async def test_malformed_payloads_are_422(action: str, payload: Any) -> None:
    """Nothing that is not as documented reaches a server."""
    async with host("handshake") as ask:
        assert (await ask.refused(action, payload)).status == 422


def test_unknown_servers_are_404() -> None:
    """A server that is named and not hosted is 404, whatever the action."""
    adapter = McpAdapter([McpServer(reactor, MCPServerSection(name="x", command=("x",)), {})])
    for action in ("mcp.resources.list", "mcp.prompts.get", "mcp.tools.list"):
        payload = {"server": "nope", "prompt": "p"} if action != "mcp.tools.list" else {}
        with pytest.raises(Refusal) as caught:
            adapter.resolve(action, payload, None if payload else "nope")
        assert caught.value.status == 404
