"""Calls that wait for a person at the A2A front: tasks that are auth-required meanwhile, and go on by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SendMessageRequest, SubscribeToTaskRequest
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from tests.rows import each_row
from tests.system.a2a_sides import Side, behind
from tests.system.held_calls import caller, decide, held_sample, listed, operator
from tests.system.hosting import Host, free_port, running, until

pytestmark = pytest.mark.slow

FRONT = """
[a2a.front]
listen = "tcp:{port}:interface=127.0.0.1"
agent_id = "{agent_id}"
tokens = ["file:first.token", "file:second.token"]
timeout = 20

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""
HELD_OF_ONE = 8


@pytest.fixture(scope="module")
def front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, front: int) -> Iterator[Host]:
    """Messages to its front are echoed, each once a person has approved that."""
    config = held_sample(tmp_path_factory.mktemp("front"))
    document = json.loads((config.parent / "state/agents/demo/document.json").read_text())
    config.write_text(config.read_text() + FRONT.format(port=front, agent_id=document["agent_id"]))
    for name in ("first", "second"):
        token = config.parent / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(f"{name}-token-of-this-front-0123456789\n")
    with running(config) as started:
        until(lambda: "the A2A front is served" in started.output)
        yield started


async def client_of(web: httpx.AsyncClient, front: int, version: str, binding: str, streaming: bool) -> Any:
    """The official client, speaking so."""
    home = f"http://127.0.0.1:{front}/agents/librarian"
    card = await A2ACardResolver(web, home).get_agent_card()
    chosen = [
        one for one in card.supported_interfaces if (one.protocol_version, one.protocol_binding) == (version, binding)
    ]
    chosen[0].url = home
    del card.supported_interfaces[:]
    card.supported_interfaces.append(chosen[0])
    config = ClientConfig(httpx_client=web, streaming=streaming, supported_protocol_bindings=[binding])
    return ClientFactory(config).create(card)


def web_of(token: str = "first") -> httpx.AsyncClient:
    fields = {"Authorization": f"Bearer {token}-token-of-this-front-0123456789"}
    return httpx.AsyncClient(headers=fields, timeout=60, trust_env=False)


def approval_of(status: Any) -> str:
    """The approval that a task waits for, as its status says."""
    assert status["state"] == "TASK_STATE_AUTH_REQUIRED", status
    text, data = status["message"]["parts"]
    approval_id = str(data["data"]["approval"]["approval_id"])
    assert approval_id in text["text"] and data["data"]["approval"]["expires_at"]
    return approval_id


def waiting_for(host: Host, text: str) -> dict[str, Any]:
    """The approval of the call with that text."""
    with operator(host) as person:
        (found,) = [each for each in listed(person, host) if each["input"] == {"text": text}]
    return found


def decided(host: Host, approval_id: str, status: str = "accepted", **more: Any) -> None:
    with operator(host) as person:
        reply = decide(person, host, approval_id, status, **more)
        assert reply.ok, reply.body


async def task_at_its_end(following: Any, task_id: str) -> dict[str, Any]:
    """
    A task once it has ended: its events are followed until there are no more.

    :param following: a client that reads streams.
    """
    try:
        async for _ in following.subscribe(SubscribeToTaskRequest(id=task_id)):
            pass
    except UnsupportedOperationError:
        pass  # It has ended already.
    task: dict[str, Any] = MessageToDict(await following.get_task(GetTaskRequest(id=task_id)))
    return task


def sending(text: str) -> SendMessageRequest:
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))


SPOKEN = [("1.0", "JSONRPC"), ("0.3", "JSONRPC"), ("1.0", "HTTP+JSON")]


@pytest.mark.parametrize(("version", "binding"), SPOKEN)
def test_a_held_message_is_answered_and_goes_on(host: Host, front: int, version: str, binding: str) -> None:
    """SendMessage answers at once with a task that is auth-required; approved it completes, as its approval names."""
    text = f"sent {version} {binding}"

    async def story() -> dict[str, Any]:
        async with web_of() as web:
            sdk = await client_of(web, front, version, binding, streaming=False)
            events = [MessageToDict(event) async for event in sdk.send_message(sending(text))]
            task = events[-1]["task"]
            approval_id = approval_of(task["status"])
            seen = MessageToDict(await sdk.get_task(GetTaskRequest(id=task["id"])))
            assert approval_of(seen["status"]) == approval_id
            await asyncio.to_thread(decided, host, approval_id)
            return await task_at_its_end(await client_of(web, front, version, binding, streaming=True), task["id"])

    done = asyncio.run(story())
    assert done["status"]["state"] == "TASK_STATE_COMPLETED", done
    assert done["artifacts"][0]["parts"][0]["text"] == text
    entry = waiting_for(host, text)
    assert entry["state"] == "used" and entry["executed_audit_id"] == done["metadata"]["agtp.audit_id"]


@pytest.mark.parametrize(("version", "binding"), SPOKEN)
def test_a_stream_tells_of_the_wait(host: Host, front: int, version: str, binding: str) -> None:
    """Task, auth-required, then what the call says and its end; nothing of the call before the decision."""
    text = f"streamed {version} {binding}"

    async def story() -> list[dict[str, Any]]:
        async with web_of() as web:
            sdk = await client_of(web, front, version, binding, streaming=True)
            events = []
            async for event in sdk.send_message(sending(text)):
                events.append(MessageToDict(event))
                status = events[-1].get("statusUpdate", {}).get("status", {})
                if status.get("state") == "TASK_STATE_AUTH_REQUIRED":
                    await asyncio.to_thread(decided, host, approval_of(status))
            return events

    events = asyncio.run(story())
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states[0] == "TASK_STATE_AUTH_REQUIRED" and states.count("TASK_STATE_AUTH_REQUIRED") == 1
    assert states[-1] == "TASK_STATE_COMPLETED" and set(states[1:-1]) == {"TASK_STATE_WORKING"}
    assert [next(iter(event)) for event in events][:2] == ["task", "statusUpdate"]


def test_rejected_and_cancelled(host: Host, front: int) -> None:
    """A rejected task is over, and says why; a cancelled one is, and what was approved then releases nothing."""

    async def story() -> None:
        async with web_of() as web:
            sdk = await client_of(web, front, "1.0", "JSONRPC", streaming=False)
            (event,) = [MessageToDict(event) async for event in sdk.send_message(sending("rejected"))]
            await asyncio.to_thread(decided, host, approval_of(event["task"]["status"]), "rejected", reason="no, Bob")
            following = await client_of(web, front, "1.0", "JSONRPC", streaming=True)
            task = await task_at_its_end(following, event["task"]["id"])
            assert task["status"]["state"] == "TASK_STATE_REJECTED", task
            assert "approval-rejected" in task["status"]["message"]["parts"][0]["text"]
            (event,) = [MessageToDict(event) async for event in sdk.send_message(sending("cancelled"))]
            approval_id = approval_of(event["task"]["status"])
            cancelled = MessageToDict(await sdk.cancel_task(CancelTaskRequest(id=event["task"]["id"])))
            assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
            await asyncio.to_thread(decided, host, approval_id)
            task = MessageToDict(await sdk.get_task(GetTaskRequest(id=event["task"]["id"])))
            assert task["status"]["state"] == "TASK_STATE_CANCELED"

    asyncio.run(story())
    assert waiting_for(host, "cancelled")["state"] == "approved", "it was approved, and never used"


def test_one_client_holds_few_tasks(host: Host, front: int) -> None:
    """Beyond eight, a message is answered with a task that is over: the same message passes once it is approved."""

    async def story() -> None:
        async with web_of("second") as web:
            sdk = await client_of(web, front, "1.0", "JSONRPC", streaming=False)
            held = []
            for number in range(HELD_OF_ONE + 1):
                (event,) = [MessageToDict(event) async for event in sdk.send_message(sending(f"many {number}"))]
                held.append(event["task"])
            *waiting, over = held
            assert len({approval_of(task["status"]) for task in waiting}) == HELD_OF_ONE
            assert over["status"]["state"] == "TASK_STATE_FAILED"
            said = over["status"]["message"]["parts"][0]["text"]
            approval_id = over["metadata"]["agtp.approval_id"]
            assert approval_id in said and "Send the same message again" in said
            await asyncio.to_thread(decided, host, approval_id)
            (event,) = [MessageToDict(event) async for event in sdk.send_message(sending(f"many {HELD_OF_ONE}"))]
            assert event["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            for task in waiting:
                await sdk.cancel_task(CancelTaskRequest(id=task["id"]))

    asyncio.run(story())


def test_many_at_once_hold_no_more(host: Host, front: int) -> None:
    """Twenty messages of one client at the same moment: eight wait, the others are told and over."""

    async def story() -> list[dict[str, Any]]:
        async with web_of("second") as web:
            sdk = await client_of(web, front, "1.0", "JSONRPC", streaming=False)

            async def send(number: int) -> dict[str, Any]:
                (event,) = [MessageToDict(event) async for event in sdk.send_message(sending(f"at once {number}"))]
                task: dict[str, Any] = event["task"]
                return task

            tasks = await asyncio.gather(*(send(number) for number in range(20)))
            held = [task for task in tasks if task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"]
            for task in held:
                await sdk.cancel_task(CancelTaskRequest(id=task["id"]))
            return tasks

    states = [task["status"]["state"] for task in asyncio.run(story())]
    assert states.count("TASK_STATE_AUTH_REQUIRED") == HELD_OF_ONE and states.count("TASK_STATE_FAILED") == 12, states


def test_mutated_messages_are_other_calls(host: Host, front: int) -> None:
    """A letter more, or another client: each waits for itself; approved is what was shown, and it passes once."""

    async def sent(sdk: Any, message: SendMessageRequest) -> dict[str, Any]:
        (event,) = [MessageToDict(event) async for event in sdk.send_message(message)]
        task: dict[str, Any] = event["task"]
        return task

    async def story() -> None:
        async with web_of() as web:
            sdk = await client_of(web, front, "1.0", "JSONRPC", streaming=False)
            first = await sent(sdk, sending("shown"))
            approval_id = approval_of(first["status"])
            await sdk.cancel_task(CancelTaskRequest(id=first["id"]))
            await asyncio.to_thread(decided, host, approval_id)
            for text in ("shown ", " shown", "Shown", "shown\u200b", "shown\n", "show", "shown shown"):
                task = await sent(sdk, sending(text))
                assert approval_of(task["status"]) != approval_id
                await sdk.cancel_task(CancelTaskRequest(id=task["id"]))
            async with web_of("second") as elsewhere:
                another = await client_of(elsewhere, front, "1.0", "JSONRPC", streaming=False)
                task = await sent(another, sending("shown"))
                assert approval_of(task["status"]) != approval_id, "it calls as the same agent, and is another client"
                await another.cancel_task(CancelTaskRequest(id=task["id"]))
            assert (await sent(sdk, sending("shown")))["status"]["state"] == "TASK_STATE_COMPLETED"
            last = await sent(sdk, sending("shown"))
            assert approval_of(last["status"]) != approval_id, "once"
            await sdk.cancel_task(CancelTaskRequest(id=last["id"]))

    asyncio.run(story())


def test_what_the_agent_may_its_front_may_not(host: Host, front: int) -> None:
    """Approved for the agent that its certificate proves: the same call of the front's client, in its name, waits."""
    with caller(host) as client:
        reply = client.call(host.uri, "ECHO", "/text", {"text": "native"})
        assert reply.approval is not None
        native = reply.approval.approval_id
    decided(host, native)

    async def story() -> None:
        async with web_of() as web:
            sdk = await client_of(web, front, "1.0", "JSONRPC", streaming=False)
            (event,) = [MessageToDict(event) async for event in sdk.send_message(sending("native"))]
            assert approval_of(event["task"]["status"]) != native
            await sdk.cancel_task(CancelTaskRequest(id=event["task"]["id"]))

    asyncio.run(story())
    with caller(host) as client:
        assert client.call(host.uri, "ECHO", "/text", {"text": "native"}).ok


@pytest.fixture(scope="module")
def relaying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """An agent of the official SDK behind the front, of which each message needs an approval."""
    with behind(
        tmp_path_factory.mktemp("relay"), tokens="first-token-0123456789", more='approval = "required"'
    ) as side:
        yield replace(side, token="first-token-0123456789")


@each_row("streaming", [True, False])
@each_row("rest", [True, False])
def test_a_message_to_an_agent_behind_the_front(relaying: Side, streaming: bool, rest: bool) -> None:
    """An error that names the approval, as data; the very same message passes once it is approved, and once."""
    assert relaying.host is not None
    operation = "SendStreamingMessage" if streaming else "SendMessage"
    side = replace(relaying, rest=rest)
    message = {"messageId": f"m-{rest}-{streaming}", "role": "ROLE_USER", "parts": [{"text": "echo"}]}

    def approval_in(answer: Any) -> str:
        error = answer["body"]["error"]
        (info,) = [each for each in error.get("data", error.get("details")) if "metadata" in each]
        assert info["metadata"]["reason"] == "approval-required" and info["metadata"]["expires_at"]
        return str(info["metadata"]["approval_id"])

    approval_id = approval_in(side.call(operation, {"message": message}))
    assert approval_in(side.call(operation, {"message": message})) == approval_id
    decided(relaying.host, approval_id)
    assert approval_in(side.call(operation, {"message": {**message, "messageId": "another"}})) != approval_id
    passed = side.call(operation, {"message": message})
    assert passed["status"] == 200 and "error" not in (passed.get("body") or {}), passed
    assert approval_in(side.call(operation, {"message": message})) != approval_id
    assert "error" not in (side.call("ListTasks", {}).get("body") or {}), "reading needs nobody"
