"""A2A through a running host: an SDK agent called over AGTP, and an SDK client at the A2A front."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, Role, SendMessageRequest
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from google.protobuf.json_format import MessageToDict
from jwt import PyJWK

from agtphost.client.sync import Client
from agtphost.identity import jws
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.provisioning import provision_development
from tests.adapters.a2a.test_sdk import SCRIPT, text
from tests.adapters.peers import python
from tests.system.hosting import Host, free_port, running, sample, until

A2A = "application/a2a+json"

HELPER = """
[[a2a.agent]]
name = "helper"
url = "http://127.0.0.1:{upstream}"
scopes = ["mcp:tools:execute"]
timeout = 10

[[a2a.agent]]
name = "dead"
url = "http://127.0.0.1:{dead}"
scopes = ["mcp:tools:execute"]
start = "lazy"

[[a2a.agent]]
name = "guarded"
url = "http://127.0.0.1:{upstream}"
scopes = ["payments:transfer"]

[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"
tokens = ["file:front.token"]

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""


@pytest.fixture(scope="module")
def front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, front: int) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("a2a"), eager=True)
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    echo = config.parent / "endpoints" / "text.toml"
    echo.write_text('min_assurance = "gateway"\n' + echo.read_text())
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    with python(SCRIPT, "jsonrpc") as upstream:
        more = HELPER.format(upstream=upstream, dead=free_port(), front=front, agent_id=demo)
        config.write_text(config.read_text() + more)
        token = config.parent / "front.token"
        token.touch(mode=0o600)
        token.write_text("let-me-in\n")
        with running(config) as host:
            until(lambda: "the A2A front is served" in host.output)
            yield host


def client(host: Host) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key")


def execute(action: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    return {"action": action, "payload_type": A2A, "payload": payload or {}, **more}


# Behind the host


def test_an_a2a_agent_is_called_over_agtp(host: Host) -> None:
    """AGTP-277, AGTP-279: a message by EXECUTE, the task and its artifacts in the response, its record verified."""
    payload = {"agent": "helper", **text("echo over agtp")}
    with client(host) as agtp:
        reply = agtp.call(host.uri, "EXECUTE", "/", execute("a2a.message.send", payload), task_id="S-1")
        assert reply.ok, reply.body
        task = reply.result["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "over agtp"
        assert reply.headers.get("task-id") == "S-1"
        public = VerifyingKey.load(host.state / "signing.pub")
        record = jws.verify(reply.record, {public.kid: public})["extra"]
        assert (record["a2a_agent"], record["a2a_action"]) == ("helper", "a2a.message.send")
        assert record["a2a_task_id"] == task["id"]
        again = agtp.call(host.uri, "EXECUTE", "/a2a/helper", execute("a2a.tasks.get"), task_id="S-1")
        assert again.result["task"]["id"] == task["id"]


def test_a_stream_is_sealed_message_by_message(host: Host) -> None:
    """Each event of the agent is an interim message with a record of its own."""
    payload = text("stream")
    seen: list[Any] = []
    with client(host) as agtp:
        reply = agtp.call(
            host.uri, "EXECUTE", "/a2a/helper", execute("a2a.message.send", payload), task_id="S-2", stream=seen.append
        )
        assert reply.ok, reply.body
        kinds = [interim.result["event"]["type"] for interim in seen]
        assert kinds[0] == "a2a.task"
        assert kinds.count("a2a.event") >= 4
        assert len({interim.audit_id for interim in (*seen, reply)}) == len(seen) + 1


def test_the_gates_decide_before_the_agent_hears(host: Host) -> None:
    """455 for a missing scope, 401 for an identity that nothing proves, 422 and 404 for what does not exist."""
    payload = text("echo x")
    with client(host) as agtp:
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/guarded", execute("a2a.message.send", payload))
        assert (reply.status, reply.json()["reason"]) == (455, "scope-required")
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/helper", execute("a2a.nothing", payload))
        assert (reply.status, reply.json()["reason"]) == (422, "unknown-action")
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/nobody", execute("a2a.message.send", payload))
        assert (reply.status, reply.json()["reason"]) == (404, "unknown-a2a-agent")
        named = reply.json()["a2a_agents"]
        assert "helper" in named and "guarded" not in named, "one that the caller may not call is not named"
        reply = agtp.call(host.uri, "EXECUTE", "/", execute("a2a.message.send", payload))
        assert (reply.status, reply.json()["reason"]) == (409, "ambiguous-agent")
        assert reply.json()["candidates"] == named
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/helper", execute("a2a.message.send", {"message": {}}))
        assert reply.status == 422
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/dead", execute("a2a.message.send", payload))
        assert (reply.status, reply.json()["reason"]) == (503, "upstream-down")


def test_the_header_wins_over_the_payload(host: Host) -> None:
    """AGTP-272: another agent and scope in the payload change nothing, and the log and the record tell of them."""
    claims = {"agent_id": "f" * 64, "authority_scope": "*:*"}
    payload = {**text("metadata", metadata=claims), "metadata": claims}
    with client(host) as agtp:
        reply = agtp.call(host.uri, "EXECUTE", "/a2a/helper", execute("a2a.message.send", payload), task_id="S-3")
        told = json.loads(reply.result["task"]["artifacts"][0]["parts"][0]["text"])
        assert told == {"request": {}, "message": {}}
        public = VerifyingKey.load(host.state / "signing.pub")
        record = jws.verify(reply.record, {public.kid: public})["extra"]
        assert record["payload_contradicts"] == ["Agent-ID", "Authority-Scope"]
    until(lambda: "contradicts Agent-ID, Authority-Scope" in host.output)


def test_upstreams_are_described_with_their_state(host: Host) -> None:
    """AGTP-278: DESCRIBE answers what A2A agents can do; the manifest names them, and commands list what they call."""
    with client(host) as agtp:
        shown = agtp.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result
        entries = {entry["path"]: entry for entry in shown["hosted_protocols"]}
        helper = entries["/a2a/helper"]
        assert (helper["protocol"], helper["state"], helper["skills"]) == ("A2A", "up", ["echo"])
        listed = {tool["name"]: tool for tool in agtp.call(host.uri, "DISCOVER", "/tools").result}
        assert "guarded.a2a.message.send" not in listed
        assert listed["helper.a2a.message.send"]["payload_type"] == A2A
    assert {tool["name"].partition(".")[0] for tool in host.agtp_json("tools", "ls")} == {"files", "helper"}


def test_the_task_is_known_after_a_restart(tmp_path: Path) -> None:
    """The Task-ID and the agent's task id stay together through a kill of the host."""
    config = sample(tmp_path)
    with python(SCRIPT, "jsonrpc") as upstream:
        entry = f'\n[[a2a.agent]]\nname = "h"\nurl = "http://127.0.0.1:{upstream}"\nscopes = ["mcp:tools:execute"]\n'
        config.write_text(config.read_text() + entry)
        first = Host(config).wait()
        with client(first) as agtp:
            begun = agtp.call(first.uri, "EXECUTE", "/", execute("a2a.message.send", text("ask")), task_id="S-9")
        first.kill()
        assert begun.status == 202
        with running(config) as second, client(second) as agtp:
            answer = execute("a2a.message.send", {"inputResponses": {"message": text("echo blue")}})
            done = agtp.call(second.uri, "EXECUTE", "/", answer, task_id="S-9")
            assert done.ok, done.body
            assert done.result["a2a_task_id"] == begun.result["a2a_task_id"]


# Before the host


async def _sdk(front: int, streaming: bool = True, token: str = "let-me-in") -> Any:
    http_client = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    base = f"http://127.0.0.1:{front}/agents/librarian"
    card = await A2ACardResolver(http_client, base).get_agent_card()
    return ClientFactory(ClientConfig(httpx_client=http_client, streaming=streaming)).create(card), card


def message(words: str, **members: Any) -> SendMessageRequest:
    return SendMessageRequest(message=new_text_message(words, role=Role.ROLE_USER, **members))


@pytest.mark.parametrize("streaming", [True, False])
def test_the_sdk_client_reaches_a_hosted_agent(host: Host, front: int, streaming: bool) -> None:
    """The official client reads the card, sends a message, follows or waits, and reads the task again."""

    async def story() -> None:
        sdk, card = await _sdk(front, streaming)
        assert card.name == "librarian"
        events = [MessageToDict(event) async for event in sdk.send_message(message("one two"))]
        if streaming:
            assert [next(iter(event)) for event in events] == [
                "task",
                "statusUpdate",
                "statusUpdate",
                "artifactUpdate",
                "statusUpdate",
            ]
            words = [event["statusUpdate"]["status"]["message"]["parts"][0]["data"]["word"] for event in events[1:3]]
            assert words == ["one", "two"]
            task_id = events[0]["task"]["id"]
        else:
            task_id = events[-1]["task"]["id"]
        task = await sdk.get_task(GetTaskRequest(id=task_id))
        shown = MessageToDict(task)
        assert shown["status"]["state"] == "TASK_STATE_COMPLETED"
        assert shown["artifacts"][0]["parts"][0]["text"] == "one two"
        assert re.fullmatch("[0-9a-f]{64}", shown["metadata"]["agtp.audit_id"])
        listed = await sdk.list_tasks(ListTasksRequest())
        assert task_id in [each.id for each in listed.tasks]
        with pytest.raises(TaskNotFoundError):
            await sdk.get_task(GetTaskRequest(id="nothing"))
        with pytest.raises(TaskNotCancelableError):
            await sdk.cancel_task(CancelTaskRequest(id=task_id))
        await sdk.close()

    asyncio.run(story())


def post(front: int, body: Any, **headers: str) -> tuple[int, Any]:
    """One POST to the front."""
    connection = http.client.HTTPConnection("127.0.0.1", front, timeout=60)
    fields = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer let-me-in", **headers}
    fields = {name: value for name, value in fields.items() if value}
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", "/agents/librarian", octets, fields)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, json.loads(read) if read[:1] == b"{" else read


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def test_the_call_is_made_by_the_agent_of_the_configuration(host: Host, front: int) -> None:
    """Nothing in HTTP chooses the caller: the record names the configured agent, with assurance ``gateway``."""
    claimed = {"metadata": {"agent_id": "f" * 64}, "role": "ROLE_USER", "parts": [{"text": "hello"}], "messageId": "m"}
    status, answer = post(front, rpc("SendMessage", message=claimed), **{"Agent-ID": "f" * 64, "Owner-ID": "root"})
    assert status == 200
    task = answer["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    with client(host) as agtp:
        found = agtp.call(host.uri, "INSPECT", "/", {"target": "audit", "audit_id": task["metadata"]["agtp.audit_id"]})
        told = jws.parse_unverified(found.result["record"]) if "record" in found.result else found.result
    shown = json.dumps(told)
    demo = json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
    assert demo in shown
    assert "gateway" in shown
    assert task["id"] in shown
    assert "f" * 64 not in shown


def test_what_the_front_refuses(host: Host, front: int) -> None:
    """No token, a browser's page, another version, no JSON-RPC, callbacks, other methods, foreign parts."""
    good = rpc("SendMessage", message={"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})
    assert post(front, good, Authorization="")[0] == 401
    assert post(front, good, Authorization="Bearer wrong")[0] == 401
    assert post(front, good, Origin="http://evil.example")[0] == 403

    def code(body: Any, **headers: str) -> int:
        status, answer = post(front, body, **headers)
        assert status == 200
        return int(answer["error"]["code"])

    assert code(good, **{"A2A-Version": "0.3"}) == -32009
    assert code(good, **{"A2A-Version": ""}) == -32009
    assert code(b"{") == -32700
    assert code([good]) == -32600
    assert code({**good, "jsonrpc": "1.0"}) == -32600
    assert code(rpc("Nothing")) == -32601
    assert code(rpc("CreateTaskPushNotificationConfig", url="http://x")) == -32003
    push = {"taskPushNotificationConfig": {"url": "http://169.254.169.254"}}
    assert code({**good, "params": {**good["params"], "configuration": push}}) == -32003
    assert code(rpc("SendMessage", message={"parts": []})) == -32602
    assert code(rpc("SendMessage", message={"parts": [{"raw": "AA=="}]})) == -32005
    assert code(rpc("SubscribeToTask", id="x")) == -32001


def test_a_refusal_of_the_gates_rejects_the_task(host: Host, front: int) -> None:
    """Input that the endpoint's schema does not allow is refused by its gate; the task says so, with the Audit-ID."""
    long = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x" * 3000}]}
    _, answer = post(front, rpc("SendMessage", message=long))
    task = answer["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["metadata"]["agtp.status"] == 422
    assert task["metadata"]["agtp.audit_id"]


def test_a_body_that_is_too_long_is_cut(host: Host, front: int) -> None:
    """A megabyte is the most; more is not even read: 413, or no answer to who goes on sending."""
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert post(front, b"x" * (3 << 20))[0] == 413
    assert post(front, rpc("ListTasks"))[0] == 200


def test_the_card_is_signed_by_the_host(host: Host, front: int) -> None:
    """AGTP-278: the card is derived from the Identity Document; the SDK verifies its signature by the host's key."""
    connection = http.client.HTTPConnection("127.0.0.1", front, timeout=60)
    connection.request("GET", "/agents/librarian/.well-known/agent-card.json")
    card = json.loads(connection.getresponse().read())
    document = json.loads((host.state / "hosted/librarian/document.json").read_text())
    assert card["description"] == document["description"]
    assert card["capabilities"]["extensions"][0]["params"]["agent_id"] == document["agent_id"]
    assert {skill["id"] for skill in card["skills"]} == {"file-access", "booking"}
    public = VerifyingKey.load(host.state / "signing.pub")
    key = PyJWK({"kty": "OKP", "crv": "Ed25519", "x": public.text, "alg": "EdDSA"})
    verify = create_signature_verifier(lambda kid, jku: key, ["EdDSA"])
    verify(parse_agent_card(dict(card)))
    with pytest.raises(InvalidSignaturesError):
        verify(parse_agent_card({**card, "name": "another"}))


# Beside EXECUTE


def delegated(host: Host, task: Any, task_id: str) -> Any:
    """DELEGATE of a task to the hosted agent, with a token of the caller's own."""
    me = json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
    librarian = json.loads((host.state / "hosted/librarian/document.json").read_text())["agent_id"]
    token = host.agtp_json(
        *("delegation", "issue", "--key", str(host.state / "agents/demo/agent.key"), "--from", me),
        *("--to", librarian, "--scope", "mcp:tools:execute", "--task-id", task_id),
    )["delegation_token"]
    given = {
        "target_agent_id": librarian,
        "authority_scope": "mcp:tools:execute",
        "delegation_token": token,
        "task": task,
    }
    with client(host) as agtp:
        return agtp.call(host.uri, "DELEGATE", input=given, task_id=task_id)


def test_an_a2a_task_is_delegated(host: Host) -> None:
    """AGTP-277: DELEGATE of an A2A task; the Task-ID stands for the agent's id, and a failed task is 550."""
    message = {"parts": [{"text": "echo"}]}
    artifact = {"artifactId": "a", "parts": [{"text": "ignored"}]}
    reply = delegated(host, {"agent": "helper", "message": message, "artifacts": [artifact]}, "D-1")
    assert reply.status == 200, reply.json()
    inner = reply.result["result"]
    assert (inner["task_id"], reply.headers.get("task-id")) == ("D-1", "D-1")
    assert inner["task"]["id"] == inner["a2a_task_id"]
    failed = delegated(host, {"agent": "helper", "message": {"parts": [{"text": "fail"}]}}, "D-2")
    assert (failed.status, failed.json()["sub_agent_error"]["reason"]) == (550, "a2a-task-failed")
    for bad in ({"message": 5}, {"message": {}, "artifacts": [5]}, {"message": {}, "path": "/"}):
        assert delegated(host, bad, "D-3").status == 422


def test_artifacts_and_messages_travel_by_notify(host: Host) -> None:
    """AGTP-279, AGTP-280: an A2A artifact and a one-way ACP message arrive unchanged, and a receipt comes back."""
    artifact = {"artifactId": "a1", "name": "chart", "parts": [{"data": {"y": [1, 2.5]}}, {"text": "größer"}]}
    one_way = {"role": "agent/bee", "parts": [{"content_type": "text/plain", "content": "done"}]}
    me = json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
    with client(host) as agtp:
        for content in (artifact, one_way):
            given = {"recipient": me, "content": content, "topic": "a2a-artifact"}
            receipt = agtp.call(host.uri, "NOTIFY", input=given)
            assert receipt.result["notification_id"], receipt.json()
        found = agtp.call(host.uri, "QUERY", "/notifications").result["notifications"]
        assert [each["content"] for each in found[-2:]] == [artifact, one_way]


def test_discovery_gives_canonical_ids(host: Host) -> None:
    """AGTP-281: what ANP asks for, discovery and identity, are DISCOVER and the Identity Document, by Agent-ID."""
    with client(host) as agtp:
        listed = agtp.call(host.uri, "DISCOVER", "/agents").result
        agents = listed if isinstance(listed, list) else listed["agents"]
        librarian = next(agent for agent in agents if agent["name"] == "librarian")
        assert re.fullmatch("[0-9a-f]{64}", librarian["agent_id"])
        document = agtp.call(host.uri, "DESCRIBE", "/agents/librarian").json()
        assert librarian["agent_id"] in json.dumps(document)
