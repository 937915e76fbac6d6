"""A real agent of the official A2A SDK behind the adapter, in every dialect that this host speaks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.adapters.a2a import A2AAdapter, A2AAgent
from agtphost.config.web_upstreams import A2AAgentSection
from agtphost.errors import Refusal
from agtphost.upstream.ownership import TaskOwnership
from tests.adapters.peers import BOB, AdapterCalls, Book, kept, python

SCRIPT = Path(__file__).with_name("servers") / "sdk_agent.py"
STYLES = ("jsonrpc", "rest", "old")


@pytest.fixture(scope="module", params=STYLES)
def port(request: Any) -> Iterator[int]:
    """An agent that speaks one dialect."""
    with python(SCRIPT, request.param) as found:
        yield found


@asynccontextmanager
async def calling(port: int, **settings: Any) -> AsyncIterator[AdapterCalls]:
    """The agent behind the adapter."""
    book = Book()
    made = A2AAgentSection(
        name="helper", url=f"http://127.0.0.1:{port}", scopes=("a2a:messages:send",), **{"timeout": 10.0, **settings}
    )
    agent = A2AAgent(reactor, made)
    links = TaskOwnership(book, "a2a-task")
    adapter = A2AAdapter([agent], links)
    async with kept(agent):
        yield AdapterCalls(adapter, book)


def text(words: str, **members: Any) -> dict[str, Any]:
    """A payload that sends words."""
    return {"message": {"parts": [{"text": words}], **members}}


def said(task: Any) -> str:
    """The text of a task's artifacts."""
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


async def refused(calling: Any) -> Refusal:
    """How a call is refused."""
    with pytest.raises(Refusal) as caught:
        await calling
    return caught.value


@pytest_twisted.ensureDeferred
async def test_a_message_becomes_a_task_of_the_task_id(port: int) -> None:
    """AGTP-277: the Task-ID stands for the agent's own task id, durably, and reads the task again."""
    async with calling(port) as on:
        answer = await on.call("a2a.message.send", text("echo hello"), task_id="T-1")
        assert (answer.status, said(answer.result["task"])) == (200, "hello")
        assert answer.result["task_id"] == "T-1"
        remote = answer.result["a2a_task_id"]
        assert remote == answer.result["task"]["id"] != "T-1"
        again = await on.call("a2a.tasks.get", task_id="T-1")
        assert (again.result["task"]["id"], again.result["task_id"]) == (remote, "T-1")
        listed = await on.call("a2a.tasks.list")
        assert [(each["task_id"], each["state"]) for each in listed.result["tasks"]] == [
            ("T-1", "TASK_STATE_COMPLETED")
        ]


@pytest_twisted.ensureDeferred
async def test_a_task_is_nobody_elses(port: int) -> None:
    """The agent knows this host as one client: what Alice began, Bob can neither read, cancel nor go on with."""
    async with calling(port) as on:
        begun = await on.call("a2a.message.send", text("ask"), task_id="T-2")
        remote, context = begun.result["a2a_task_id"], begun.result["task"]["contextId"]
        for action in ("a2a.tasks.get", "a2a.tasks.cancel", "a2a.tasks.subscribe"):
            for named in ("T-2", remote):
                refusal = await refused(on.call(action, {"id": named}, caller=BOB))
                assert (refusal.status, refusal.reason) == (404, "unknown-task")
        taken = await refused(on.call("a2a.message.send", text("echo x", taskId=remote), caller=BOB))
        assert taken.reason == "unknown-task"
        joined = await refused(on.call("a2a.message.send", text("echo x", contextId=context), caller=BOB))
        assert joined.reason == "unknown-context"
        assert (await on.call("a2a.tasks.list", caller=BOB)).result["tasks"] == []


@pytest_twisted.ensureDeferred
async def test_input_is_asked_for_and_given(port: int) -> None:
    """Design decision 11: 202 input_required, then the same Task-ID with inputResponses and requestState."""
    async with calling(port) as on:
        asked = await on.call("a2a.message.send", text("ask"), task_id="T-3")
        assert (asked.status, asked.result["resultType"]) == (202, "input_required")
        question = asked.result["inputRequests"]["message"]["message"]
        assert question["parts"][0]["text"] == "which colour?"
        answer = {"message": {"parts": [{"text": "echo blue"}]}}
        given = {"inputResponses": {"message": answer}, "requestState": asked.result["requestState"]}
        wrong = await refused(on.call("a2a.message.send", {**given, "requestState": "x"}, task_id="T-3"))
        assert (wrong.status, wrong.reason) == (409, "stale-request-state")
        done = await on.call("a2a.message.send", given, task_id="T-3")
        assert (done.status, said(done.result["task"])) == (200, "blue")
        assert done.result["a2a_task_id"] == asked.result["a2a_task_id"]
        stale = await refused(on.call("a2a.message.send", given, task_id="T-3"))
        assert stale.reason == "stale-request-state"


@pytest_twisted.ensureDeferred
async def test_a_stream_is_interim_messages(port: int) -> None:
    """Each event of SendStreamingMessage is an interim message; the mapping is durable before the first."""
    async with calling(port) as on:
        answer = await on.call("a2a.message.send", text("stream"), task_id="T-4", stream=True)
        assert said(answer.result["task"]) == "onetwothree"
        assert answer.status == 200
        kinds = [next(iter(event["event"])) for event in on.events]
        assert kinds.count("artifactUpdate") == 3
        assert on.invocation is not None
        told, changes = on.invocation.committed[0]
        assert told["a2a_task_id"] == answer.result["a2a_task_id"]
        assert changes


@pytest.mark.parametrize(
    ("word", "status", "reason"),
    [("fail", 550, "a2a-task-failed"), ("reject", 422, "a2a-task-rejected"), ("auth", 262, "a2a-auth-required")],
)
@pytest_twisted.ensureDeferred
async def test_tasks_that_do_not_succeed(port: int, word: str, status: int, reason: str) -> None:
    """FAILED, REJECTED and AUTH_REQUIRED are 550, 422 and 262, with the task as the agent told it."""
    async with calling(port) as on:
        refusal = await refused(on.call("a2a.message.send", text(word), task_id=f"T-{word}"))
        assert (refusal.status, refusal.reason) == (status, reason)
        shown: Any = refusal.details["result"]
        assert shown["task"]["id"] == refusal.details["a2a_task_id"]
        known = await on.call("a2a.tasks.get", task_id=f"T-{word}")
        assert known.result["a2a_task_id"] == refusal.details["a2a_task_id"]


@pytest_twisted.ensureDeferred
async def test_an_error_in_the_middle_of_a_stream_ends_the_call(port: int) -> None:
    """The SDK's events of type ``error`` are no end like any other."""
    async with calling(port) as on:
        refusal = await refused(on.call("a2a.message.send", text("break"), task_id="T-break", stream=True))
        shown: Any = refusal.details["result"]
        if "error" in shown:
            assert (refusal.status, refusal.reason, shown["error"]["code"]) == (500, "a2a-error", -32603)
        else:
            # Some of its bindings tell of the task's failure first.
            assert (refusal.status, refusal.reason) == (550, "a2a-task-failed")
        assert refusal.details["a2a_task_id"]


@pytest_twisted.ensureDeferred
async def test_a_message_without_a_task(port: int) -> None:
    """An agent may answer with a message alone; the Session-ID stands for its context from then on."""
    async with calling(port) as on:
        answer = await on.call("a2a.message.send", text("say hi"), session_id="S-1")
        assert answer.result["message"]["parts"][0]["text"] == "hi"
        context = answer.result["message"]["contextId"]
        again = await on.call("a2a.message.send", text("echo x"), session_id="S-1")
        assert again.result["task"]["contextId"] == context
        other = await on.call("a2a.message.send", text("echo x"), session_id="S-1", caller=BOB)
        assert other.result["task"]["contextId"] != context


@pytest_twisted.ensureDeferred
async def test_running_tasks_are_left_followed_and_cancelled(port: int) -> None:
    """returnImmediately answers 202; the task is cancelled; a second cancel is 409."""
    async with calling(port) as on:
        payload = {**text("slow"), "configuration": {"returnImmediately": True}}
        begun = await on.call("a2a.message.send", payload, task_id="T-5")
        assert begun.status == 202
        cancelled = await on.call("a2a.tasks.cancel", task_id="T-5")
        assert cancelled.result["task"]["status"]["state"] == "TASK_STATE_CANCELED"
        refusal = await refused(on.call("a2a.tasks.cancel", task_id="T-5"))
        assert (refusal.status, refusal.reason) == (409, "a2a-task-not-cancelable")


@pytest_twisted.ensureDeferred
async def test_payload_identity_goes_no_further(port: int, caplog: Any) -> None:
    """AGTP-272, AGTP-279: claims in metadata, provenance among them, are on record and not passed on; the caller is."""
    claims: dict[str, Any] = {"agtp.agent_id": "f" * 64, "Authority-Scope": "*:*", "taskId": "other", "colour": "red"}
    claims["delegationChain"] = ["agtp://forged.example/agents/boss"]
    payload = {**text("metadata", metadata=claims), "metadata": claims}
    async with calling(port, forward_identity=True) as on:
        answer = await on.call("a2a.message.send", payload, task_id="T-6")
        told = json.loads(said(answer.result["task"]))
        assert told["request"] == {"agtp.agent_id": "a" * 64, "colour": "red"}
        assert told["message"] == {"colour": "red"}
        assert answer.extra["payload_contradicts"] == ["Agent-ID", "Authority-Scope", "Delegation-Chain", "Task-ID"]


@pytest_twisted.ensureDeferred
async def test_no_callback_is_taken_from_a_request(port: int) -> None:
    """T-SS: a URL to push to is refused wherever it stands, before the agent hears of it."""
    place = {"url": "http://169.254.169.254/"}
    async with calling(port) as on:
        for name in ("taskPushNotificationConfig", "pushNotificationConfig"):
            refusal = await refused(on.call("a2a.message.send", {**text("echo x"), "configuration": {name: place}}))
            assert (refusal.status, refusal.reason) == (422, "callback-refused")
        await on.call("a2a.message.send", text("echo x"), task_id="T-7")
        refusal = await refused(on.call("a2a.push.create", {"taskId": "T-7", **place}))
        assert refusal.reason == "callback-refused"
        refusal = await refused(on.call("a2a.push.create", {"taskId": "T-7"}))
        assert refusal.reason == "callback-refused"


@pytest_twisted.ensureDeferred
async def test_the_operator_says_where_to_push() -> None:
    """With push_url the task alone is named; what comes back has no secrets."""
    with python(SCRIPT, "jsonrpc") as port:
        async with calling(port, push_url="https://push.example.com/a2a") as on:
            await on.call("a2a.message.send", text("echo x"), task_id="T-8")
            made = await on.call("a2a.push.create", {"taskId": "T-8"})
            assert made.result["push"]["url"] == "https://push.example.com/a2a"
            listed = await on.call("a2a.push.list", {"taskId": "T-8"})
            assert len(listed.result["push"]["configs"]) == 1


@pytest_twisted.ensureDeferred
async def test_what_is_listed_is_what_the_card_offers(port: int) -> None:
    """The card's skills, digest and state are in hosted_protocols; actions without a foundation are not listed."""
    async with calling(port) as on:
        names = [tool.name for tool in on.adapter.tools()]
        assert "helper.a2a.message.send" in names
        assert "helper.a2a.push.create" not in names
        entry = on.adapter.hosted_protocols()[0]
        assert (entry["protocol"], entry["state"], entry["skills"]) == ("A2A", "up", ["echo"])
        card = (await on.call("a2a.card.get")).result
        assert (card["sha256"], card["card"]["name"], card["trust"]) == (entry["card_sha256"], "helper", "unsigned")


@pytest_twisted.ensureDeferred
async def test_an_operation_is_relayed_in_every_dialect(port: int) -> None:
    """What the front carries: the agent's own answer and errors, in the shapes of 1.0, and nobody else's tasks."""
    async with calling(port) as on:

        async def relay(operation: str, **more: Any) -> Any:
            params = more.pop("params")
            return await on.call(f"a2a.relay.{operation}", {"params": params}, **more)

        said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "ask"}], "contextId": "chosen"}
        asked = (await relay("SendMessage", params={"message": said})).result["response"]["task"]
        assert (asked["status"]["state"], asked["contextId"]) == ("TASK_STATE_INPUT_REQUIRED", "chosen")
        read = (await relay("GetTask", params={"id": asked["id"]})).result["response"]
        assert (read["id"], read["contextId"]) == (asked["id"], "chosen")
        assert read["status"]["state"] == asked["status"]["state"]
        more = {**said, "taskId": asked["id"], "parts": [{"text": "stream"}]}
        await relay("SendStreamingMessage", params={"message": more}, stream=True)
        events = [event["event"] for event in on.events if event["type"] == "a2a.event"]
        assert [next(iter(event)) for event in events[-4:]] == ["artifactUpdate"] * 3 + ["statusUpdate"]
        assert {inner["contextId"] for event in events for inner in event.values()} == {"chosen"}
        over = await refused(relay("CancelTask", params={"id": asked["id"]}))
        assert (over.status, over.details["result"]["error"]["code"]) == (409, -32002)
        for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
            none = await refused(relay(operation, params={"id": asked["id"]}, caller=BOB))
            assert (none.status, none.details["result"]["error"]["code"]) == (404, -32001)
