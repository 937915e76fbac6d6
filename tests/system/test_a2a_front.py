"""The A2A front of a running host: who its clients are, what their tasks survive, and clients of A2A 0.3."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import PushNotificationNotSupportedError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict
from joserfc.jwk import OKPKey

from agtphost.adapters.a2a import card as cards
from agtphost.adapters.a2a.card import CardRefused
from agtphost.client.sync import Client
from agtphost.identity import jws
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.provisioning import provision_development
from tests.rows import each_row
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.provider import Provider, providing

SETTINGS = """
[a2a.front]
listen = "ssl:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"
tokens = ["file:first.token", "file:second.token"]
client_certificates = true
oauth = true
timeout = 20

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"

[policies.oauth]
[[policies.oauth.issuer]]
expected_issuer = "{issuer}"
expected_audience = ["agtphost"]
discovery_url = "{issuer}/.well-known/openid-configuration"
ca = "{ca}"
"""

SLOW_HANDLER = """
from twisted.internet import reactor
from twisted.internet.defer import Deferred


async def wait(ctx):
    await ctx.emit({"begun": True})
    waiting = Deferred(lambda d: None)
    later = reactor.callLater(ctx.input["seconds"], waiting.callback, None)
    try:
        await waiting
    finally:
        if later.active():
            later.cancel()
    return {"text": "done"}
"""

SLOW = """
method = "BOOK"
path = "/slow"
description = "Changes the world after a while."
namespace = "samples"
errors = []
min_assurance = "gateway"

[handler]
type = "registered_function"
function = "handlers.slow.wait"

[semantic]
intent = "Change the world after a while."
actor = "agent"
outcome = "The world is another one."
capability = "transaction"
confidence = 1.0
impact = "irreversible"
is_idempotent = false

[input_schema]
type = "object"
additionalProperties = false
properties = { seconds = { type = "number" }, note = { type = "string" } }
required = ["seconds"]

[output_schema]
type = "object"
additionalProperties = true
"""

EXECUTE = """
[[a2a.front.agent]]
name = "{name}"
method = "EXECUTE"
input = {{ action = "mcp.tools.call", payload_type = "application/vnd.mcp.tools+json", payload = {payload} }}
text = ""
"""
PAYLOAD = '{ tool = "files.list_files", arguments = {} }'


def deploy(folder: Path, front: int, provider: Provider, *, agent: str = "", more: str = "") -> Path:
    """The sample host with a front at which the only agent is exposed as ``agent`` says."""
    config = sample(folder)
    (config.parent / "handlers" / "slow.py").write_text(SLOW_HANDLER)
    (config.parent / "endpoints" / "slow.toml").write_text(SLOW)
    echo = config.parent / "endpoints" / "text.toml"
    echo.write_text('min_assurance = "gateway"\n' + echo.read_text())
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    text = SETTINGS.format(front=front, agent_id=demo, issuer=provider.issuer, ca=provider.ca)
    if agent:
        begin, end = text.index("[[a2a.front.agent]]"), text.index("[policies.oauth]")
        text = text[:begin] + agent + text[end:]
    config.write_text(config.read_text() + text + more)
    for name in ("first", "second"):
        token = config.parent / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(f"{name}-token\n")
    return config


BOOKING = '[[a2a.front.agent]]\nname = "librarian"\nmethod = "BOOK"\npath = "/slow"\nanswer = "text"\ntext = "note"\n'


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """An identity provider."""
    with providing(tmp_path_factory.mktemp("provider")) as serving:
        yield serving


@pytest.fixture(scope="module")
def front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, front: int, provider: Provider) -> Iterator[Host]:
    """Messages to its front are echoed."""
    with running(deploy(tmp_path_factory.mktemp("front"), front, provider)) as started:
        until(lambda: "the A2A front is served" in started.output and "keys of" in started.output)
        yield started


@pytest.fixture(scope="module")
def slow_front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def slow_host(tmp_path_factory: pytest.TempPathFactory, slow_front: int, provider: Provider) -> Iterator[Host]:
    """Messages to its front book, which takes as long as they say."""
    with running(deploy(tmp_path_factory.mktemp("slow"), slow_front, provider, agent=BOOKING)) as started:
        until(lambda: "the A2A front is served" in started.output)
        yield started


# Clients


def tls(host: Host, *, certificate: bool = False) -> ssl.SSLContext:
    """What a client trusts, and shows."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    if certificate:
        demo = host.state / "agents" / "demo"
        context.load_cert_chain(demo / "agent.pem", demo / "agent.key")
    return context


def post(
    host: Host, front: int, method: str, *, certificate: bool = False, token: str = "", **more: Any
) -> tuple[int, Any]:
    """One JSON-RPC request; the HTTP status and the answer."""
    headers, version = dict(more.pop("headers", {})), more.pop("version", "1.0")
    connection = http.client.HTTPSConnection("localhost", front, timeout=25, context=tls(host, certificate=certificate))
    fields = {"Content-Type": "application/json", "A2A-Version": version, **headers}
    if token:
        fields["Authorization"] = f"Bearer {token}"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": more})
    connection.request("POST", "/agents/librarian", body, {name: value for name, value in fields.items() if value})
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, json.loads(read) if read[:1] == b"{" else read


def message(*parts: Any, **members: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": list(parts), **members}


def record(host: Host, audit_id: str) -> dict[str, Any]:
    """A record of the host, its signature checked."""
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as agtp:
        found = agtp.call(host.uri, "INSPECT", "/", {"target": "audit", "audit_id": audit_id})
    assert found.ok, found.body
    public = VerifyingKey.load(host.state / "signing.pub")
    shown = json.dumps(found.json())
    text = next(part for part in shown.split('"') if part.count(".") == 2 and part.startswith("ey"))
    return dict(jws.verify(text, {public.kid: public}))


def task_of(answer: Any) -> dict[str, Any]:
    assert "result" in answer, answer
    found = answer["result"]
    return dict(found.get("task", found))


def demo_id(host: Host) -> str:
    return str(json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"])


# Who clients are


def test_a_certificate_is_the_caller_at_certificate_assurance(host: Host, front: int) -> None:
    """The agent of the client certificate calls, with assurance ``certificate``; what HTTP says of it counts not."""
    claims = {"Agent-ID": "f" * 64, "Owner-ID": "root", "Authority-Scope": "admin:all"}
    said = message({"text": "hello"}, metadata={"agent_id": "f" * 64})
    status, answer = post(host, front, "SendMessage", certificate=True, message=said, headers=claims)
    assert status == 200
    task = task_of(answer)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    shown = record(host, task["metadata"]["agtp.audit_id"])
    assert shown["identity_assurance"] == "certificate"
    assert shown["caller_id"] == demo_id(host)
    assert shown["task_id"] == task["id"]
    assert "f" * 64 not in json.dumps(shown)


def test_a_token_is_vouched_for_by_the_front(host: Host, front: int) -> None:
    """With a token alone the configured agent calls, with assurance ``gateway``; without either nobody does."""
    said = message({"text": "hello"})
    assert post(host, front, "SendMessage", message=said)[0] == 401
    assert post(host, front, "SendMessage", token="third-token", message=said)[0] == 401
    status, answer = post(host, front, "SendMessage", token="first-token", message=said)
    assert status == 200
    shown = record(host, task_of(answer)["metadata"]["agtp.audit_id"])
    assert (shown["identity_assurance"], shown["caller_id"]) == ("gateway", demo_id(host))


def test_a_providers_token_says_on_whose_behalf(host: Host, front: int, provider: Provider) -> None:
    """Core v08 section 8.6: the acting principal is in the record, assurance is what it was; a bad one is 401."""
    said = message({"text": "hello"})
    status, answer = post(host, front, "SendMessage", token=provider.token(sub="alice"), message=said)
    assert status == 200, answer
    task = task_of(answer)
    shown = record(host, task["metadata"]["agtp.audit_id"])
    assert (shown["acting_principal_id"], shown["identity_assurance"]) == ("alice", "gateway")
    mine = post(host, front, "GetTask", token=provider.token(sub="alice"), id=task["id"])[1]
    assert mine["result"]["id"] == task["id"]
    other = post(host, front, "GetTask", token=provider.token(sub="bob"), id=task["id"])[1]
    assert other["error"]["code"] == -32001
    forged = provider.token(sub="alice")[:-8] + "AAAAAAAA"
    assert post(host, front, "SendMessage", token=forged, message=said)[0] == 401


@pytest.mark.release
@pytest.mark.parametrize(
    ("certificate", "tool", "state"),
    [
        (True, 'min_assurance = "certificate"\n', "COMPLETED"),
        (False, 'min_assurance = "certificate"\n', "REJECTED"),
        (False, 'min_assurance = "gateway"\n', "COMPLETED"),
        (False, "", "COMPLETED"),  # In development on loopback.
    ],
)
def test_a_tool_is_reached_by_what_it_asks_for(
    tmp_path: Path, provider: Provider, certificate: bool, tool: str, state: str
) -> None:
    """A hosted tool is for a client certificate; with ``min_assurance = "gateway"`` for a token too; ``can`` agrees."""
    port = free_port()
    exposed = EXECUTE.format(name="librarian", payload=PAYLOAD)
    more = f"[mcp.server.tools.list_files]\n{tool}" if tool else ""
    with running(deploy(tmp_path, port, provider, agent=exposed, more=more)) as started:
        until(lambda: "the A2A front is served" in started.output)
        # The server is listed by then: before, every name is one of a tool that is not known yet.
        post(started, port, "SendMessage", message=message({"data": {}}), certificate=True)
        who: Any = {"certificate": True} if certificate else {"token": "first-token"}
        status, answer = post(started, port, "SendMessage", message=message({"data": {}}), **who)
        assert status == 200
        task = task_of(answer)
        assert task["status"]["state"] == f"TASK_STATE_{state}", task
        if state == "COMPLETED":
            assert "welcome.txt" in json.dumps(task["artifacts"])
        else:
            assert task["metadata"]["agtp.status"] == 422, "as a tool that does not exist"
        assurance = "certificate" if certificate else "gateway"
        asked = ("can", "demo", "EXECUTE", "/", "--tool", "files.list_files", "--assurance", assurance)
        assert (started.agtp(*asked).returncode == 0) is (state == "COMPLETED")


# Tasks


def test_tasks_are_their_clients_own(host: Host, front: int) -> None:
    """Each client lists and reads its own tasks alone, page by page; reading is sealed as any request is."""
    for words in ("one", "two", "three"):
        post(host, front, "SendMessage", token="second-token", message=message({"text": words}, contextId="mine"))
    first = post(host, front, "ListTasks", token="second-token", contextId="mine", pageSize=2)[1]["result"]
    assert (len(first["tasks"]), first["totalSize"], first["nextPageToken"]) == (2, 3, "2")
    rest = post(
        host, front, "ListTasks", token="second-token", contextId="mine", pageSize=2, pageToken=first["nextPageToken"]
    )[1]["result"]
    assert (len(rest["tasks"]), rest["nextPageToken"]) == (1, "")
    assert "artifacts" not in first["tasks"][0]
    full = post(host, front, "ListTasks", token="second-token", contextId="mine", includeArtifacts=True)[1]["result"]
    assert full["tasks"][0]["artifacts"][0]["parts"][0]["text"] == "three"
    task_id = first["tasks"][0]["id"]
    assert post(host, front, "GetTask", token="second-token", id=task_id)[1]["result"]["id"] == task_id
    others: list[dict[str, Any]] = [{"token": "first-token"}, {"certificate": True}]
    for who in others:
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            answer = post(host, front, method, id=task_id, **who)[1]
            assert answer["error"]["code"] == -32001
            info = answer["error"]["data"][0]
            assert (info["reason"], info["domain"]) == ("TASK_NOT_FOUND", "a2a-protocol.org")
            assert info["metadata"]["audit_id"]
    assert post(host, front, "ListTasks", token="first-token", contextId="mine")[1]["result"]["totalSize"] == 0
    assert post(host, front, "ListTasks", token="second-token", pageToken="x")[1]["error"]["code"] == -32602


def test_a_running_call_is_truly_cancelled(slow_host: Host, slow_front: int) -> None:
    """CancelTask ends a call that changes the world: the stream and the record say so, and a second time is -32002."""
    begun, ended = threading.Event(), threading.Event()
    events: list[dict[str, Any]] = []

    async def follow() -> None:
        async with httpx.AsyncClient(
            verify=tls(slow_host), headers={"Authorization": "Bearer first-token"}, timeout=30
        ) as web:
            card = await A2ACardResolver(web, f"https://localhost:{slow_front}/agents/librarian").get_agent_card()
            card.supported_interfaces[0].url = f"https://localhost:{slow_front}/agents/librarian"
            sdk = ClientFactory(ClientConfig(httpx_client=web)).create(card)
            async for event in sdk.send_message(booking(60)):
                events.append(MessageToDict(event))
                if len(events) == 2:
                    begun.set()
            ended.set()

    following = threading.Thread(target=lambda: asyncio.run(follow()))
    following.start()
    assert begun.wait(120)
    task_id = events[0]["task"]["id"]
    status, answer = post(slow_host, slow_front, "CancelTask", token="first-token", id=task_id)
    assert (status, task_of(answer)["status"]["state"]) == (200, "TASK_STATE_CANCELED")
    assert ended.wait(60)
    following.join()
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    metadata = task_of(answer)["metadata"]
    shown = record(slow_host, metadata["agtp.audit_id"])
    assert (shown["status"], shown["reason"], shown["task_id"]) == (408, "cancelled", task_id)
    again = post(slow_host, slow_front, "CancelTask", token="first-token", id=task_id)[1]
    assert again["error"]["code"] == -32002


def booking(seconds: float) -> SendMessageRequest:
    said = new_text_message("book", role=Role.ROLE_USER)
    said.parts.add().data.struct_value.update({"seconds": seconds})
    return SendMessageRequest(message=said)


def test_suspend_ends_the_call_of_a_task(slow_host: Host, slow_front: int) -> None:
    """SUSPEND of the Task-ID over AGTP, by the agent that calls, ends the call (adapters rule G6)."""
    said = message({"data": {"seconds": 60}})
    answer = post(
        slow_host,
        slow_front,
        "SendMessage",
        certificate=True,
        message=said,
        configuration={"returnImmediately": True},
    )[1]
    task_id = task_of(answer)["id"]
    assert task_of(answer)["status"]["state"] == "TASK_STATE_WORKING"
    demo = slow_host.state / "agents" / "demo"
    with Client(trust=slow_host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as agtp:
        assert agtp.call(slow_host.uri, "SUSPEND", "/", {"task_id": task_id}).ok
        found = agtp.call(slow_host.uri, "QUERY", f"/a2a-tasks/{task_id}")
        assert found.ok, found.body
    until(
        lambda: (
            task_of(post(slow_host, slow_front, "GetTask", certificate=True, id=task_id)[1])["status"]["state"]
            == "TASK_STATE_CANCELED"
        )
    )


def test_a_subscriber_follows_a_running_task(slow_host: Host, slow_front: int) -> None:
    """SubscribeToTask tells of the task as it is, and of its end; a task goes on when its client leaves."""
    connection = http.client.HTTPSConnection("localhost", slow_front, timeout=25, context=tls(slow_host))
    said = message({"data": {"seconds": 1.5}}, contextId="left")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}})
    fields = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer first-token"}
    connection.request("POST", "/agents/librarian", body, fields)
    first = connection.getresponse().readline()
    task_id = json.loads(first.removeprefix(b"data: "))["result"]["task"]["id"]
    connection.close()
    status, octets = post(slow_host, slow_front, "SubscribeToTask", token="first-token", id=task_id)
    assert status == 200
    told = [json.loads(line.removeprefix(b"data: "))["result"] for line in octets.split(b"\r\n\r\n") if line]
    assert next(iter(told[0])) == "task"
    assert told[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    late = post(slow_host, slow_front, "SubscribeToTask", token="first-token", id=task_id)[1]
    assert late["error"]["code"] == -32004


def test_tasks_survive_a_kill_of_the_host(tmp_path: Path, provider: Provider) -> None:
    """GetTask after a restart: what had ended is as it was, and what ran counts as failed."""
    port = free_port()
    config = deploy(tmp_path, port, provider, agent=BOOKING)
    first = Host(config).wait()
    until(lambda: "the A2A front is served" in first.output)
    done = task_of(post(first, port, "SendMessage", token="first-token", message=message({"data": {"seconds": 0}}))[1])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    ran = task_of(
        post(
            first,
            port,
            "SendMessage",
            token="first-token",
            message=message({"data": {"seconds": 60}}),
            configuration={"returnImmediately": True},
        )[1]
    )
    first.kill()
    with running(config) as second:
        until(lambda: "the A2A front is served" in second.output)
        assert task_of(post(second, port, "GetTask", token="first-token", id=done["id"])[1]) == done
        after = task_of(post(second, port, "GetTask", token="first-token", id=ran["id"])[1])
        assert after["status"]["state"] == "TASK_STATE_FAILED"
        assert "stopped" in after["status"]["message"]["parts"][0]["text"]
        cancel = post(second, port, "CancelTask", token="first-token", id=ran["id"])[1]
        assert cancel["error"]["code"] == -32002
        listed = post(second, port, "ListTasks", token="first-token")[1]["result"]
        assert [task["id"] for task in listed["tasks"]] == [ran["id"], done["id"]]


def test_a_renewed_certificate_is_shown(tmp_path: Path, provider: Provider) -> None:
    """Core v08 section 6.1: after SIGHUP, to new connections; and who shows a client certificate is known as before."""
    port = free_port()

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    with running(deploy(tmp_path, port, provider)) as host:
        until(lambda: "the A2A front is served" in host.output)
        before = shown()
        renewed = host.config.parent / "renewed.pem"
        words = ("cert", "issue", "server", "localhost", "--ca", "state/ca.pem", "-o", str(renewed))
        assert host.agtp(*words).returncode == 0
        (host.state / "server.pem").write_bytes(renewed.read_bytes())
        (host.state / "server.key").write_bytes(renewed.with_suffix(".key").read_bytes())
        host.process.send_signal(signal.SIGHUP)
        until(lambda: shown() != before)
        assert shown().split() == renewed.read_text().split()
        done = task_of(post(host, port, "SendMessage", certificate=True, message=message({"text": "hello"}))[1])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


# Versions


@each_row(("version", "binding"), [("1.0", "JSONRPC"), ("0.3", "JSONRPC"), ("1.0", "HTTP+JSON")])
@each_row("streaming", [True, False])
def test_the_sdk_client_of_both_versions(host: Host, front: int, version: str, binding: str, streaming: bool) -> None:
    """The official client sends, follows, reads and is refused push notifications, however it speaks."""

    async def story() -> None:
        async with httpx.AsyncClient(
            verify=tls(host), headers={"Authorization": "Bearer first-token"}, timeout=20
        ) as web:
            card = await A2ACardResolver(web, f"https://localhost:{front}/agents/librarian").get_agent_card()
            spoken = [
                one
                for one in card.supported_interfaces
                if (one.protocol_version, one.protocol_binding) == (version, binding)
            ]
            assert len(spoken) == 1
            spoken[0].url = f"https://localhost:{front}/agents/librarian"
            chosen = spoken[0]
            del card.supported_interfaces[:]
            card.supported_interfaces.append(chosen)
            sdk = ClientFactory(
                ClientConfig(httpx_client=web, streaming=streaming, supported_protocol_bindings=[binding])
            ).create(card)
            said = SendMessageRequest(message=new_text_message("one two", role=Role.ROLE_USER))
            events = [MessageToDict(event) async for event in sdk.send_message(said)]
            kinds = [next(iter(event)) for event in events]
            if streaming:
                assert kinds == ["task", "statusUpdate", "statusUpdate", "artifactUpdate", "statusUpdate"]
            task_id = events[0]["task"]["id"]
            task = MessageToDict(await sdk.get_task(GetTaskRequest(id=task_id)))
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert task["artifacts"][0]["parts"][0]["text"] == "one two"
            assert task["metadata"]["agtp.audit_id"]
            with pytest.raises(TaskNotFoundError):
                await sdk.get_task(GetTaskRequest(id="nothing"))
            with pytest.raises(PushNotificationNotSupportedError):
                await sdk.create_task_push_notification_config(
                    TaskPushNotificationConfig(task_id=task_id, url="https://evil.example/hook")
                )
            if version == "1.0":
                assert task_id in [each.id for each in (await sdk.list_tasks(ListTasksRequest())).tasks]

    asyncio.run(story())


SENT = json.dumps({"message": message({"text": "hello"})})
HOOK = json.dumps({"url": "https://evil.example/hook"})
REST_FAULTS: dict[str, tuple[str, str, str | None, dict[str, str], int, str]] = {
    "no-json": ("POST", "/message:send", "{", {}, 400, "INVALID_REQUEST"),
    "no-object": ("POST", "/message:send", "[]", {}, 400, "INVALID_REQUEST"),
    "no-message": ("POST", "/message:stream", "{}", {}, 400, "INVALID_PARAMS"),
    "other-type": ("POST", "/message:send", SENT, {"Content-Type": "text/plain"}, 415, "CONTENT_TYPE_NOT_SUPPORTED"),
    "cancel-type": ("POST", "/tasks/x:cancel", "", {"Content-Type": "text/plain"}, 415, "CONTENT_TYPE_NOT_SUPPORTED"),
    "other-version": ("POST", "/message:send", SENT, {"A2A-Version": "0.3"}, 400, "VERSION_NOT_SUPPORTED"),
    "no-version": ("POST", "/message:send", SENT, {"A2A-Version": ""}, 400, "VERSION_NOT_SUPPORTED"),
    "no-task": ("GET", "/tasks/nothing", None, {}, 404, "TASK_NOT_FOUND"),
    "odd-task": ("GET", "/tasks/%2e%2e%2fx", None, {}, 404, "TASK_NOT_FOUND"),
    "cancel": ("POST", "/tasks/nothing:cancel", None, {}, 404, "TASK_NOT_FOUND"),
    "subscribe": ("GET", "/tasks/nothing:subscribe", None, {}, 404, "TASK_NOT_FOUND"),
    "size": ("GET", "/tasks?pageSize=x", None, {}, 400, "INVALID_PARAMS"),
    "page": ("GET", "/tasks?pageToken=x", None, {}, 400, "INVALID_PARAMS"),
    "push": ("POST", "/tasks/t/pushNotificationConfigs", HOOK, {}, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "push-nowhere": ("POST", "/tasks/t/pushNotificationConfigs", "{}", {}, 400, "INVALID_PARAMS"),
    "unpush": ("DELETE", "/tasks/t/pushNotificationConfigs/p", None, {}, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "card": ("GET", "/extendedAgentCard", None, {}, 400, "UNSUPPORTED_OPERATION"),
    "method": ("GET", "/message:send", None, {}, 405, ""),
    "elsewhere": ("GET", "/tasks/a/b", None, {}, 404, ""),
    "stranger": ("GET", "/tasks", None, {"Authorization": "Bearer nobody"}, 401, ""),
}


@each_row("name", REST_FAULTS)
def test_what_http_json_refuses(host: Host, front: int, name: str) -> None:
    """Each refusal has the status and the reason that A2A 1.0 has for it."""
    method, path, body, more, status, reason = REST_FAULTS[name]
    fields = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer first-token", **more}
    connection = http.client.HTTPSConnection("localhost", front, timeout=25, context=tls(host))
    connection.request(method, f"/agents/librarian{path}", body, fields)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    assert answer.status == status, read
    if reason:
        error = json.loads(read)["error"]
        assert error["code"] == status
        assert (error["details"][0]["reason"], error["details"][0]["domain"]) == (reason, "a2a-protocol.org")


def test_an_old_client_cancels(slow_host: Host, slow_front: int) -> None:
    """``tasks/cancel`` and ``tasks/resubscribe`` of A2A 0.3, with the SDK's own reader of 0.3."""

    async def story() -> None:
        async with httpx.AsyncClient(
            verify=tls(slow_host), headers={"Authorization": "Bearer second-token"}, timeout=20
        ) as web:
            card = await A2ACardResolver(web, f"https://localhost:{slow_front}/agents/librarian").get_agent_card()
            old = card.supported_interfaces[1]
            old.url = f"https://localhost:{slow_front}/agents/librarian"
            del card.supported_interfaces[0]
            sdk = ClientFactory(ClientConfig(httpx_client=web, streaming=False, polling=True)).create(card)
            events = [MessageToDict(event) async for event in sdk.send_message(booking(60))]
            task_id = events[-1]["task"]["id"]
            assert events[-1]["task"]["status"]["state"] == "TASK_STATE_WORKING"
            streaming = ClientFactory(ClientConfig(httpx_client=web)).create(card)
            followed = streaming.subscribe(SubscribeToTaskRequest(id=task_id))
            assert MessageToDict(await anext(followed))["task"]["id"] == task_id
            ended = MessageToDict(await sdk.cancel_task(CancelTaskRequest(id=task_id)))
            assert ended["status"]["state"] == "TASK_STATE_CANCELED"
            last = [MessageToDict(event) async for event in followed][-1]
            assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"

    asyncio.run(story())


NEW_MEMBERS = {"supportedInterfaces", "securityRequirements"}
OLD_MEMBERS = {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"}


@each_row(
    ("query", "fields", "old"),
    [
        ("", {"A2A-Version": "1.0"}, False),
        ("", {"A2A-Version": "0.3"}, True),
        ("", {"A2A-Version": "0.3.0"}, True),
        ("?version=0.3", {}, True),
        ("?A2A-Version=0.3", {}, True),
        ("?version=0.3", {"A2A-Version": "1.0"}, False),
    ],
)
def test_a_card_is_of_one_version_and_signed(
    host: Host, front: int, query: str, fields: dict[str, str], old: bool
) -> None:
    """No member of the other version unless asked; another host's adapter verifies each."""
    connection = http.client.HTTPSConnection("localhost", front, timeout=10, context=tls(host))
    connection.request("GET", f"/agents/librarian/.well-known/agent-card.json{query}", headers=fields)
    octets = connection.getresponse().read()
    document = json.loads(octets)
    wanted, foreign = (OLD_MEMBERS, NEW_MEMBERS) if old else (NEW_MEMBERS, OLD_MEMBERS)
    assert foreign.isdisjoint(document)
    assert wanted - {"additionalInterfaces"} <= set(document)
    kinds = [set(scheme) for scheme in document["securitySchemes"].values()]
    if old:
        assert (document["protocolVersion"], document["security"]) == ("0.3.0", [{"mtls": []}, {"bearer": []}])
        assert all("type" in kind and not any(name.endswith("SecurityScheme") for name in kind) for kind in kinds)
    else:
        assert kinds == [{"mtlsSecurityScheme"}, {"httpAuthSecurityScheme"}]
    public = VerifyingKey.load(host.state / "signing.pub")
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": public.text})
    place = document["url"] if old else document["supportedInterfaces"][0]["url"]
    home = place.partition("/agents/")[0]
    read = cards.read(octets, home, {public.kid: key})
    assert (read.trust, read.interface.version) == ("verified", "0.3" if old else "1.0")
    changed = json.dumps({**document, "description": "another"}).encode()
    with pytest.raises(CardRefused):
        cards.read(changed, home, {public.kid: key})


@each_row("fields", [{}, {"A2A-Version": "2.0"}, {"A2A-Version": ""}])
def test_the_card_that_all_see_is_of_both_versions(host: Host, front: int, fields: dict[str, str]) -> None:
    """
    Clients of 0.3 name no version when they fetch a card.

    It is verified as it is, and as readers see it that know the members of one version alone.
    """
    connection = http.client.HTTPSConnection("localhost", front, timeout=10, context=tls(host))
    connection.request("GET", "/agents/librarian/.well-known/agent-card.json", headers=fields)
    document = json.loads(connection.getresponse().read())
    assert (NEW_MEMBERS | OLD_MEMBERS) - {"additionalInterfaces"} <= set(document)
    public = VerifyingKey.load(host.state / "signing.pub")
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": public.text})
    home = document["url"].partition("/agents/")[0]
    for signature in document["signatures"]:
        shown = {**document, "signatures": [signature]}
        alone = {name: value for name, value in document.items() if name not in ("signatures", *OLD_MEMBERS)}
        alone["securitySchemes"] = {
            name: {kind: inner for kind, inner in scheme.items() if kind.endswith("SecurityScheme")}
            for name, scheme in document["securitySchemes"].items()
        }
        if signature == document["signatures"][0]:
            # Of the whole: every member counts.
            assert cards.read(json.dumps(shown).encode(), home, {public.kid: key}).trust == "verified"
            with pytest.raises(CardRefused):
                cards.read(json.dumps({**shown, "url": f"{home}/agents/x"}).encode(), home, {public.kid: key})
        elif signature == document["signatures"][1]:
            shown = {**alone, "signatures": [signature]}
            assert cards.read(json.dumps(shown).encode(), home, {public.kid: key}).trust == "verified"
    assert len(document["signatures"]) == 3


@each_row(
    ("name", "value", "status"),
    [
        ("Authorization", b"Bearer \xff", 401),
        ("Authorization", "Bearer ÿ".encode(), 401),
        ("Authorization", b"\xff\xfe", 401),
        ("A2A-Version", b"\xff", 401),
        ("Content-Type", b"\xff", 401),
        ("Origin", b"\xff", 403),
    ],
    ids=["token", "utf-8", "scheme", "version", "type", "origin"],
)
def test_octets_that_are_no_text_are_refused_without_a_traceback(
    host: Host, front: int, name: str, value: bytes, status: int
) -> None:
    """A clean answer, and not a line in the log, however often: nobody but the sender has anything to do with it."""
    before = len(host.lines)
    connection = http.client.HTTPSConnection("127.0.0.1", front, context=tls(host), timeout=20)
    for _ in range(30):
        connection.putrequest("POST", "/agents/librarian")
        connection.putheader(name, value)
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()
    assert host.lines[before:] == []
