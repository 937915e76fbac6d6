"""An A2A agent behind the host's front is, case by case, the agent that it is directly."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SendMessageRequest, SubscribeToTaskRequest
from google.protobuf.json_format import MessageToDict

from agtphost.vocabulary import a2a_errors
from tests.rows import each_row
from tests.system.a2a_sides import Side, behind, direct, events_of, plain, webhook

BINDINGS = {"JSON-RPC": False, "HTTP+JSON": True}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """The agent directly, and another of the same behind a host."""
    with direct() as one, behind(tmp_path_factory.mktemp("relay")) as other:
        yield one, other


@pytest.fixture(scope="module")
def plain_sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """The same of an agent without streams, push notifications and an extended card."""
    with direct("plain") as one, behind(tmp_path_factory.mktemp("plain"), "plain") as other:
        yield one, other


def said(words: str, *, message: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """What SendMessage takes."""
    parts = [{"text": words}]
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": parts, **(message or {})}, **params}


def task_in(answer: Any) -> dict[str, Any]:
    """The task of an answer in either binding and version."""
    body = answer["body"]
    found = body.get("result", body)
    task = found.get("task", found)
    assert "id" in task, answer
    return dict(task)


Case = Callable[[Side], Any]
CASES: dict[str, Case] = {}
"""Stories that are told in both bindings."""


def case(story: Case) -> Case:
    CASES[story.__name__.removeprefix("_")] = story
    return story


def same(sides: tuple[Side, Side], story: Case, *, old: bool = False) -> Any:
    """Tell it at both places, and compare; what came of it."""
    one, other = (plain(story(side), old=old) for side in sides)
    assert other == one
    return one


for _word in ("echo hello", "parts", "chunks", "ask", "auth", "fail", "reject", "say hello", "raise", "burst"):
    for _operation in ("SendMessage", "SendStreamingMessage"):
        CASES[f"{_operation}-{_word.partition(' ')[0]}"] = lambda side, word=_word, operation=_operation: side.call(
            operation, said(word)
        )


@case
def _parts_of_every_kind(side: Side) -> Any:
    parts = [
        {"text": "parts", "metadata": {"lang": "en"}},
        {"raw": base64.b64encode(b"\x00\x01").decode(), "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://example.com/a", "mediaType": "text/plain"},
        {"data": {"a": [1, {"b": None}], "c": 1.5}},
        {"data": [1, "two"]},
    ]
    return side.call("SendMessage", said("", message={"parts": parts}))


@case
def _metadata_extensions_and_references(side: Side) -> Any:
    first = task_in(side.call("SendMessage", said("echo x")))
    message = {"metadata": {"colour": "red"}, "referenceTaskIds": [first["id"]], "extensions": ["https://e.example/1"]}
    params = said("told", message=message, metadata={"depth": {"er": [1, 2]}})
    return side.call("SendMessage", params, **{"A2A-Extensions": "https://e.example/1,https://e.example/2"})


@case
def _a_question_answered(side: Side) -> Any:
    asked = task_in(side.call("SendMessage", said("ask")))
    named = {"taskId": asked["id"], "contextId": asked["contextId"], "messageId": "m-2"}
    answered = side.call("SendMessage", said("echo blue", message=named))
    read = [side.call("GetTask", {"id": asked["id"], **more}) for more in ({}, {"historyLength": 1})]
    over = side.call("SendMessage", said("echo again", message={**named, "messageId": "m-3"}))
    return [asked, answered, read, over]


@case
def _a_question_answered_by_a_stream(side: Side) -> Any:
    asked = task_in(side.call("SendMessage", said("ask")))
    return [asked, side.call("SendStreamingMessage", said("chunks", message={"taskId": asked["id"]}))]


@case
def _credentials_that_were_wanted(side: Side) -> Any:
    asked = task_in(side.call("SendMessage", said("auth")))
    return [asked, side.call("SendMessage", said("echo in", message={"taskId": asked["id"]}))]


@case
def _contexts(side: Side) -> Any:
    chosen = f"chosen-{side.rest}"
    first = task_in(side.call("SendMessage", said("echo one", message={"contextId": chosen})))
    second = task_in(side.call("SendMessage", said("echo two", message={"contextId": chosen})))
    own = task_in(side.call("SendMessage", said("echo three")))
    third = task_in(side.call("SendMessage", said("echo four", message={"contextId": own["contextId"]})))
    streamed = side.call("SendStreamingMessage", said("chunks", message={"contextId": chosen}))
    spoken = side.call("SendMessage", said("say hi", message={"contextId": chosen}))
    other = side.call("SendMessage", said("ask", message={"contextId": "another"}))
    contradicted = {"taskId": task_in(other)["id"], "contextId": chosen}
    wrong = side.call("SendMessage", said("echo x", message=contradicted))
    read = side.call("GetTask", {"id": first["id"]})
    assert first["contextId"] == second["contextId"] == chosen
    return [first, second, own, third, streamed, spoken, other, wrong, read]


@case
def _history_lengths(side: Side) -> Any:
    sent = [
        side.call("SendMessage", said("echo x", configuration={"historyLength": length})) for length in (0, 1, 5, -1)
    ]
    task = task_in(sent[1])
    read = [side.call("GetTask", {"id": task["id"], "historyLength": length}) for length in (0, 1, 100, -1)]
    return [sent, read]


@case
def _pages_of_tasks(side: Side) -> Any:
    context = f"pages-{side.rest}"
    for number in range(5):
        side.call("SendMessage", said(f"echo {number}", message={"contextId": context}))
    side.call("SendMessage", said("ask", message={"contextId": context}))
    found = []
    token = ""
    while True:
        page = side.call("ListTasks", {"contextId": context, "pageSize": 2, **({"pageToken": token} if token else {})})
        found.append(page)
        body = page["body"].get("result", page["body"])
        token = body["nextPageToken"]
        if not token:
            break
    assert len(found) == 3
    more: list[dict[str, Any]] = [
        {"contextId": context},
        {"contextId": context, "includeArtifacts": "true" if side.rest else True, "historyLength": 1},
        {"contextId": context, "status": "TASK_STATE_INPUT_REQUIRED"},
        {"contextId": context, "status": "TASK_STATE_FAILED"},
        {"contextId": "nobody's"},
        {"contextId": context, "statusTimestampAfter": "2001-01-01T00:00:00Z"},
        {"contextId": context, "statusTimestampAfter": "2101-01-01T00:00:00Z"},
        {"contextId": context, "pageSize": 0},
        {"contextId": context, "pageSize": 101},
        {"contextId": context, "pageSize": -1},
        {"contextId": context, "pageSize": "x"},
        {"contextId": context, "pageToken": "no token"},
        {"contextId": context, "historyLength": -1},
        {"contextId": context, "status": "nonsense"},
    ]
    return [found, [side.call("ListTasks", params) for params in more]]


@case
def _all_tasks(side: Side) -> Any:
    """Nobody else has called either agent: the list is the same whoever asks."""
    context = f"all-{side.rest}"
    for _ in range(2):
        side.call("SendMessage", said("echo x", message={"contextId": context}))
    page = side.call("ListTasks", {"pageSize": 2})
    body = page["body"].get("result", page["body"])
    assert body["totalSize"] >= 2
    return {**page, "body": {**body, "totalSize": "differs with what ran before"}}


@case
def _cancelled_while_it_runs(side: Side) -> Any:
    begun = task_in(side.call("SendMessage", said("hold never", configuration={"returnImmediately": True})))
    cancelled = side.call("CancelTask", {"id": begun["id"]})
    return [begun["status"]["state"], cancelled, side.call("GetTask", {"id": begun["id"]})]


@case
def _cancelled_while_it_waits(side: Side) -> Any:
    asked = task_in(side.call("SendMessage", said("ask")))
    return [side.call("CancelTask", {"id": asked["id"]}), side.call("CancelTask", {"id": asked["id"]})]


@case
def _finished_tasks(side: Side) -> Any:
    found = []
    for words in ("echo x", "fail", "reject"):
        task = task_in(side.call("SendMessage", said(words)))
        found += [side.call(operation, {"id": task["id"]}) for operation in ("CancelTask", "SubscribeToTask")]
        found.append(side.call("SendMessage", said("echo x", message={"taskId": task["id"]})))
    return found


@case
def _followed_by_others(side: Side) -> Any:
    """A stream, a subscription to its task beside it, and what both tell when it ends."""
    gate = f"followed-{side.rest}"
    with side.opened("SendStreamingMessage", said(f"hold {gate}")) as response:
        first = events_of(response)
        begun = [next(first), next(first)]
        task = begun[0][1].get("result", begun[0][1])["task"]
        with side.opened("SubscribeToTask", {"id": task["id"]}) as second:
            beside = events_of(second)
            met = next(beside)
            side.call("SendMessage", said(f"open {gate}"))
            return [begun, list(first), met, list(beside)]


@case
def _left_and_followed_again(side: Side) -> Any:
    """The client of a stream leaves; the task goes on, and is subscribed to and cancelled."""
    with side.opened("SendStreamingMessage", said("hold forever")) as response:
        event = next(events_of(response))
        task = event[1].get("result", event[1])["task"]
    with side.opened("SubscribeToTask", {"id": task["id"]}) as again:
        events = events_of(again)
        met = next(events)
        ended = side.call("CancelTask", {"id": task["id"]})
        return [met, ended, list(events)]


@case
def _stubborn(side: Side) -> Any:
    """An agent that refuses to cancel, and what becomes of the task."""
    begun = task_in(side.call("SendMessage", said("stubborn x", configuration={"returnImmediately": True})))
    return side.call("CancelTask", {"id": begun["id"]})["body"].get("error")


@case
def _unknown_tasks(side: Side) -> Any:
    unknown = "00000000-0000-0000-0000-000000000000"
    calls = [side.call(operation, {"id": unknown}) for operation in ("GetTask", "CancelTask", "SubscribeToTask")]
    odd = [side.call("GetTask", {"id": name}) for name in ("x", "a:b", "%2e%2e", "é" if not side.rest else "%C3%A9")]
    sent = [side.call(name, said("echo x", message={"taskId": unknown})) for name in CASES_OF_SENDING]
    pushes = [
        side.call("CreateTaskPushNotificationConfig", {"taskId": unknown, "url": "https://example.com/hook"}),
        side.call("GetTaskPushNotificationConfig", {"taskId": unknown, "id": "x"}),
        side.call("ListTaskPushNotificationConfigs", {"taskId": unknown}),
        side.call("DeleteTaskPushNotificationConfig", {"taskId": unknown, "id": "x"}),
    ]
    return [calls, odd, sent, pushes]


CASES_OF_SENDING = ("SendMessage", "SendStreamingMessage")

WRONG: dict[str, Any] = {
    "nothing": {},
    "no-message": {"configuration": {}},
    "message-text": {"message": "hello"},
    "message-null": {"message": None},
    "no-parts": {"message": {"messageId": "m", "role": "ROLE_USER"}},
    "empty-parts": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}},
    "parts-text": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": "x"}},
    "part-empty": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]}},
    "part-wrong": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": 1}]}},
    "part-two": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a", "url": "b"}]}},
    "part-unknown": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"other": 1}]}},
    "no-id": {"message": {"role": "ROLE_USER", "parts": [{"text": "echo x"}]}},
    "no-role": {"message": {"messageId": "m", "parts": [{"text": "echo x"}]}},
    "role-agent": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "echo x"}]}},
    "role-unknown": {"message": {"messageId": "m", "role": "nobody", "parts": [{"text": "echo x"}]}},
    "raw-wrong": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "***"}]}},
    "context-number": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "contextId": 1}},
    "task-number": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": 1}},
    "configuration-text": said("echo x", configuration="x"),
    "history-text": said("echo x", configuration={"historyLength": "many"}),
    "unknown-member": said("echo x", something={"else": 1}),
    "both-names": said("echo x", message={"taskId": "a", "task_id": "b"}),
    "snake-case": {"message": {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "echo x"}]}},
}

for _name, _params in WRONG.items():
    for _operation in CASES_OF_SENDING:
        CASES[f"{_operation}-{_name}"] = lambda side, params=_params, operation=_operation: side.call(operation, params)


@case
def _push_configurations(side: Side) -> Any:
    asked = task_in(side.call("SendMessage", said("ask")))
    task = {"taskId": asked["id"]}
    full = {"id": "c-1", "url": "https://example.com/hook", "token": "secret"}
    authentication = {"scheme": "Bearer", "credentials": "more secret"}
    return [
        side.call("CreateTaskPushNotificationConfig", {**task, **full, "authentication": authentication}),
        side.call("CreateTaskPushNotificationConfig", {**task, "id": "c-2", "url": "http://localhost:9/x"}),
        side.call("ListTaskPushNotificationConfigs", task),
        side.call("GetTaskPushNotificationConfig", {**task, "id": "c-1"}),
        side.call("GetTaskPushNotificationConfig", {**task, "id": "nothing"}),
        side.call("DeleteTaskPushNotificationConfig", {**task, "id": "c-1"}),
        side.call("DeleteTaskPushNotificationConfig", {**task, "id": "c-1"}),
        side.call("GetTaskPushNotificationConfig", {**task, "id": "c-1"}),
        side.call("ListTaskPushNotificationConfigs", task),
        side.call("CreateTaskPushNotificationConfig", {**task, "id": "c-3"}),
        side.call("CreateTaskPushNotificationConfig", {**task, "url": 7}),
    ]


@case
def _pushes(side: Side) -> Any:
    """A configuration that comes with the message, and one that comes later: what the agent pushes where."""
    with webhook() as (url, wait):
        push = {
            "id": "c",
            "url": f"{url}/inline",
            "token": "t-1",
            "authentication": {"scheme": "Bearer", "credentials": "s"},
        }
        asked = task_in(side.call("SendMessage", said("ask", configuration={"taskPushNotificationConfig": push})))
        before = wait(3)
        side.call("SendMessage", said("echo done", message={"taskId": asked["id"]}))
        pushed = wait(len(before) + 3)
        return [asked, pushed]


@case
def _the_extended_card(side: Side) -> Any:
    answer = side.call("GetExtendedAgentCard")
    body = answer["body"].get("result", answer["body"])
    return [answer["status"], answer["kind"], of_agent(body)]


@each_row("binding", BINDINGS)
@each_row("name", CASES)
def test_every_operation_answers_as_the_agent_does(sides: tuple[Side, Side], name: str, binding: str) -> None:
    """One story at both places, in both bindings: the same outcome, ids and times aside."""
    for side in sides:
        side.rest, side.version = BINDINGS[binding], "1.0"
    same(sides, CASES[name])


OLD_MEMBERS = ("url", "preferredTransport", "protocolVersion", "security", "supportsAuthenticatedExtendedCard")
"""Of a card for readers of 0.3 as well, which this agent's own is not."""


def of_agent(card: dict[str, Any]) -> dict[str, Any]:
    """What a card says of the agent, and not of how it is reached."""
    reached = ("supportedInterfaces", "signatures", "securitySchemes", "securityRequirements", *OLD_MEMBERS)
    told = {name: value for name, value in card.items() if name not in reached}
    return {**told, "bindings": sorted({each["protocolBinding"] for each in card["supportedInterfaces"]})}


def call(method: Any = "SendMessage", **members: Any) -> str:
    """A request of JSON-RPC."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": said("echo x"), **members})


RAW_RPC: dict[str, tuple[str, dict[str, str]]] = {
    "not-json": ("{", {}),
    "empty": ("", {}),
    "text": ("hello", {}),
    "array": (f"[{call()}]", {}),
    "empty-array": ("[]", {}),
    "number": ("1", {}),
    "no-version-member": (json.dumps({"id": 1, "method": "SendMessage", "params": {}}), {}),
    "wrong-version-member": (call(jsonrpc="1.0"), {}),
    "no-method": (json.dumps({"jsonrpc": "2.0", "id": 1}), {}),
    "method-number": (call(7), {}),
    "method-empty": (call(""), {}),
    "method-unknown": (call("DoSomething"), {}),
    "method-lower": (call("sendMessage"), {}),
    "method-space": (call("SendMessage "), {}),
    "params-array": (call(params=[1]), {}),
    "params-text": (call(params="x"), {}),
    "params-null": (call(params=None), {}),
    "no-params": (json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}), {}),
    "get-without-id": (call("GetTask", params={}), {}),
    "get-empty-id": (call("GetTask", params={"id": ""}), {}),
    "get-number": (call("GetTask", params={"id": 5}), {}),
    "get-null": (call("GetTask", params={"id": None}), {}),
    "get-array": (call("GetTask", params={"id": ["x"]}), {}),
    "cancel-without-id": (call("CancelTask", params={}), {}),
    "subscribe-without-id": (call("SubscribeToTask", params={}), {}),
    "push-without-task": (call("GetTaskPushNotificationConfig", params={}), {}),
    "push-of-nothing": (call("CreateTaskPushNotificationConfig", params={}), {}),
    "id-null": (call(id=None), {}),
    "id-text": (call(id="abc"), {}),
    "id-object": (call(id={}), {}),
    "id-true": (call(id=True), {}),
    "id-long": (call(id=12345678901234567890), {}),
    "no-id": (json.dumps({"jsonrpc": "2.0", "method": "SendMessage", "params": said("echo x")}), {}),
    "more-members": (call(more=1), {}),
    "version-none": (call(), {"A2A-Version": ""}),
    "version-old": (call(), {"A2A-Version": "0.3"}),
    "version-other": (call(), {"A2A-Version": "9.9"}),
    "version-patch": (call(), {"A2A-Version": "1.0.1"}),
    "extensions": (call(), {"A2A-Extensions": "https://example.com/unknown"}),
}


DIFFER: dict[str, str] = {
    "id-long": "whole numbers beyond 2**53 are read nowhere in this host",
    "more-members": "members that JSON-RPC does not have are nothing to this host",
    "array": "a list is no object; the agent reads it as one without members",
    "get-send": "405 for a method that a path does not have; the agent takes the path for that of a tenant: 404",
    "put-task": "the same",
    "post-tasks": "the same",
    "get-cancel": "405; the agent takes it for a task of the name x:cancel, which it does not know: 404",
    "elsewhere": "a place that there is not: both 404, and the host says why",
}
"""Malformed requests that both refuse, or the host alone, each in its own way."""


@each_row("name", RAW_RPC)
def test_malformed_json_rpc_is_answered_as_the_agent_does(sides: tuple[Side, Side], name: str) -> None:
    """The same codes, reasons, ids and HTTP statuses."""
    content, fields = RAW_RPC[name]
    for side in sides:
        side.version = "1.0"
    if name in DIFFER:
        assert [side.raw("POST", "", content, **fields)["status"] for side in sides] == [200, 200]
        return
    same(sides, lambda side: side.raw("POST", "", content, **fields))


SENT = json.dumps(said("echo x"))
RAW_REST: dict[str, tuple[str, str, str | None, dict[str, str]]] = {
    "not-json": ("POST", "/message:send", "{", {}),
    "empty": ("POST", "/message:send", "", {}),
    "array": ("POST", "/message:send", "[]", {}),
    "stream-not-json": ("POST", "/message:stream", "{", {}),
    "a2a-json": ("POST", "/message:send", SENT, {"Content-Type": "application/a2a+json"}),
    "version-none": ("POST", "/message:send", SENT, {"A2A-Version": ""}),
    "version-old": ("GET", "/tasks", None, {"A2A-Version": "0.3"}),
    "version-other": ("POST", "/message:send", SENT, {"A2A-Version": "9.9"}),
    "get-send": ("GET", "/message:send", None, {}),
    "put-task": ("PUT", "/tasks/x", "{}", {}),
    "post-tasks": ("POST", "/tasks", "{}", {}),
    "get-cancel": ("GET", "/tasks/x:cancel", None, {}),
    "get-subscribe": ("GET", "/tasks/x:subscribe", None, {}),
    "elsewhere": ("GET", "/tasks/a/b", None, {}),
    "push-empty": ("POST", "/tasks/x/pushNotificationConfigs", "", {}),
    "history-text": ("GET", "/tasks/x?historyLength=many", None, {}),
    "page-text": ("GET", "/tasks?pageSize=many", None, {}),
    "page-large": ("GET", "/tasks?pageSize=1000", None, {}),
    "page-token": ("GET", "/tasks?pageToken=nonsense", None, {}),
    "status": ("GET", "/tasks?contextId=none&status=nonsense", None, {}),
    "artifacts": ("GET", "/tasks?contextId=none&includeArtifacts=maybe", None, {}),
    "after": ("GET", "/tasks?statusTimestampAfter=yesterday", None, {}),
}


@each_row("name", RAW_REST)
def test_malformed_http_json_is_answered_as_the_agent_does(sides: tuple[Side, Side], name: str) -> None:
    """The same statuses and reasons."""
    method, path, content, fields = RAW_REST[name]
    for side in sides:
        side.version = "1.0"
    if name not in DIFFER:
        same(sides, lambda side: side.raw(method, path, content, **fields))
        return
    one, other = (side.raw(method, path, content, **fields) for side in sides)
    assert 400 <= one["status"] < 500, one
    assert 400 <= other["status"] < 500, other


# Version 0.3


def old_said(words: str, **message: Any) -> dict[str, Any]:
    parts = [{"kind": "text", "text": words}]
    return {"message": {"kind": "message", "messageId": "m-1", "role": "user", "parts": parts, **message}}


def _old_tasks(side: Side) -> Any:
    asked = task_in(side.call("message/send", old_said("ask")))
    named = {"taskId": asked["id"], "contextId": asked["contextId"]}
    answered = side.call("message/send", old_said("parts", **named))
    read = side.call("tasks/get", {"id": asked["id"], "historyLength": 1})
    over = [side.call(method, {"id": asked["id"]}) for method in ("tasks/cancel", "tasks/resubscribe")]
    none = [side.call(method, {"id": "none"}) for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe")]
    return [asked, answered, read, over, none]


def _old_streams(side: Side) -> Any:
    found = [side.call("message/stream", old_said(words)) for words in ("chunks", "parts", "ask", "fail", "say hi")]
    with side.opened("message/stream", old_said("hold forever")) as response:
        events = events_of(response)
        begun = next(events)
        ended = side.call("tasks/cancel", {"id": begun[1]["result"]["id"]})
        return [found, begun, ended, list(events)]


def _old_pushes(side: Side) -> Any:
    asked = task_in(side.call("message/send", old_said("ask")))
    push = {"id": "c-1", "url": "https://example.com/hook", "token": "t"}
    authentication = {"schemes": ["Bearer"], "credentials": "secret"}
    task = {"id": asked["id"]}
    return [
        side.call(
            "tasks/pushNotificationConfig/set",
            {"taskId": asked["id"], "pushNotificationConfig": {**push, "authentication": authentication}},
        ),
        side.call("tasks/pushNotificationConfig/get", {**task, "pushNotificationConfigId": "c-1"}),
        side.call("tasks/pushNotificationConfig/list", task),
        side.call("tasks/pushNotificationConfig/delete", {**task, "pushNotificationConfigId": "c-1"}),
        side.call("tasks/pushNotificationConfig/list", task),
    ]


def _old_faults(side: Side) -> Any:
    """The SDK calls whatever is missing an invalid request, and the host what 0.3 calls it: invalid parameters."""
    wrong: list[Any] = [{}, {"message": {}}, {"message": {"kind": "message", "role": "user", "parts": []}}]
    answers = [side.call("message/send", params) for params in wrong] + [side.call("tasks/get", {})]
    codes = [answer["body"]["error"]["code"] for answer in answers]
    return [[code in (-32600, -32602) for code in codes], side.call("tasks/nothing", {})]


OLD: dict[str, Case] = {
    "tasks": _old_tasks,
    "streams": _old_streams,
    "pushes": _old_pushes,
    "faults": _old_faults,
}


@each_row("name", OLD)
@each_row("version", ["0.3", ""])
def test_clients_of_the_older_version(sides: tuple[Side, Side], name: str, version: str) -> None:
    """A2A 0.3 over JSON-RPC, named and not named, against the SDK's own support of it."""
    for side in sides:
        side.rest, side.version = False, version
    same(sides, OLD[name], old=True)


# An agent of the older version


@pytest.fixture(scope="module")
def old_sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """An agent of the SDK 0.3 directly, and another behind a host."""
    with direct("old") as one, behind(tmp_path_factory.mktemp("old"), "old") as other:
        for side in (one, other):
            side.version = "0.3"
        yield one, other


@pytest.mark.release
def test_push_configurations_of_an_agent_of_the_older_version(old_sides: tuple[Side, Side]) -> None:
    """They are set, read, listed and deleted at the agent, and one that comes with a message is pushed to."""

    def inline(side: Side) -> Any:
        with webhook() as (url, wait):
            push = {"id": "c", "url": url, "token": "t"}
            side.call("message/send", {**old_said("echo"), "configuration": {"pushNotificationConfig": push}})
            return [each["fields"] for each in wait(1)]

    for story in (_old_pushes, inline):
        same(old_sides, story, old=True)


@pytest.mark.release
@pytest.mark.parametrize("binding", BINDINGS)
def test_the_errors_of_an_agent_of_the_older_version_have_their_reason(
    old_sides: tuple[Side, Side], binding: str
) -> None:
    """A client of 1.0 tells errors of HTTP+JSON apart by their reasons, which an agent of 0.3 does not give."""
    side = replace(old_sides[1], version="1.0", rest=BINDINGS[binding])
    task = task_in(side.call("SendMessage", said("echo")))
    for operation, params, code in (
        ("CancelTask", {"id": task["id"]}, a2a_errors.TASK_NOT_CANCELABLE),
        ("ListTasks", {}, a2a_errors.UNSUPPORTED_OPERATION),
    ):
        error = side.call(operation, params)["body"]["error"]
        found = a2a_errors.code_in(error.get("details")) if side.rest else error["code"]
        assert found == code, error


# An agent that has less


@pytest.mark.release
@pytest.mark.parametrize("binding", BINDINGS)
def test_what_the_agent_does_not_have(plain_sides: tuple[Side, Side], binding: str) -> None:
    """No streams, no push notifications, no extended card: the agent's own errors, and the card says so."""
    for side in plain_sides:
        side.rest = BINDINGS[binding]

    def story(side: Side) -> Any:
        task = task_in(side.call("SendMessage", said("ask")))
        named = {"taskId": task["id"], "id": "c"}
        push = {"url": "https://example.com/hook"}
        inline = said("echo x", configuration={"taskPushNotificationConfig": push})
        card = httpx.get(f"{side.home}/.well-known/agent-card.json").json()
        return [
            of_agent(card),
            side.call("SendStreamingMessage", said("echo x")),
            side.call("SubscribeToTask", {"id": task["id"]}),
            side.call("CreateTaskPushNotificationConfig", {**named, **push}),
            side.call("GetTaskPushNotificationConfig", named),
            side.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]}),
            side.call("DeleteTaskPushNotificationConfig", named),
            side.call("SendMessage", inline),
            side.call("GetExtendedAgentCard"),
        ]

    same(plain_sides, story)


# The official client


def test_the_card_tells_of_the_agent(sides: tuple[Side, Side]) -> None:
    """Everything but how it is reached is the agent's own; a reader that has it already is told so."""

    def story(side: Side) -> Any:
        answer = httpx.get(f"{side.home}/.well-known/agent-card.json")
        again = httpx.get(f"{side.home}/.well-known/agent-card.json", headers={"If-None-Match": answer.headers["etag"]})
        return [answer.status_code, answer.headers["content-type"], of_agent(answer.json()), again.status_code]

    same(sides, story)


@pytest.mark.release
@each_row("binding", ["JSONRPC", "HTTP+JSON"])
@each_row("streaming", [True, False])
def test_the_official_client_sees_the_same(sides: tuple[Side, Side], binding: str, streaming: bool) -> None:
    """The SDK's own client, by the card it finds: messages, questions, tasks, subscriptions and cancelling."""

    async def told(side: Side) -> Any:
        async with httpx.AsyncClient(timeout=20) as web:
            card = await A2ACardResolver(web, side.home).get_agent_card()
            config = ClientConfig(httpx_client=web, streaming=streaming, supported_protocol_bindings=[binding])
            client = ClientFactory(config).create(card)

            async def send(words: str, **members: Any) -> list[Any]:
                message = new_text_message(words, role=Role.ROLE_USER, **members)
                return [MessageToDict(each) async for each in client.send_message(SendMessageRequest(message=message))]

            seen: list[Any] = [await send(words) for words in ("echo x", "chunks", "parts", "fail", "reject", "say y")]
            asked = await send("ask")
            task_id = asked[0]["task"]["id"]
            seen += [asked, await send("echo blue", task_id=task_id)]
            seen.append(MessageToDict(await client.get_task(GetTaskRequest(id=task_id))))
            if streaming:
                held = client.send_message(
                    SendMessageRequest(message=new_text_message("hold forever", role=Role.ROLE_USER))
                )
                begun = MessageToDict(await anext(held))
                follow = client.subscribe(SubscribeToTaskRequest(id=begun["task"]["id"]))
                met = MessageToDict(await anext(follow))
                ended = MessageToDict(await client.cancel_task(CancelTaskRequest(id=begun["task"]["id"])))
                rest = [[MessageToDict(each) async for each in events] for events in (held, follow)]
                seen += [begun, met, ended, rest]
            return seen

    same(sides, lambda side: asyncio.run(told(side)))
