"""
What A2A's official test kit and SDKs ask of a server, asked from outside at three places: the same codes at each.

The test kit (a2a-tck) is on no package index. Each check here names the requirement of the kit that it is about; the
places are an agent of the official SDK itself, the same agent behind the front, and an agent that the host hosts.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import npm
from tests.pypi import environment
from tests.rows import each_row
from tests.system.a2a_sides import Side, behind, direct, events_of
from tests.system.hosting import free_port, running, sample, until
from tests.system.test_a2a_relay import said, task_in

HOSTED = """
[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"
agent_id = "demo"

[[a2a.front.agent]]
name = "librarian"
"""
"""The sample's own agent, on a host that has never been started: its caller is named, for its Agent-ID is not known."""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """The sample agent behind the front of the host that hosts it."""
    config, front = sample(tmp_path_factory.mktemp("hosted")), free_port()
    config.write_text(config.read_text() + HOSTED.format(front=front))
    with running(config) as host:
        until(lambda: "the A2A front is served" in host.output)
        base = f"http://127.0.0.1:{front}"
        yield Side(home=base, rpc=f"{base}/agents/librarian", host=host)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, hosted: Side) -> Iterator[dict[str, Side]]:
    """Where the checks are made: ``closed`` may push nowhere, because its operator says so."""
    with (
        direct() as one,
        behind(tmp_path_factory.mktemp("relayed")) as other,
        behind(tmp_path_factory.mktemp("closed"), origins="[]") as closed,
        direct("plain") as plain,
        behind(tmp_path_factory.mktemp("plain"), "plain") as relayed_plain,
    ):
        yield {
            "direct": one,
            "relayed": other,
            "hosted": hosted,
            "closed": closed,
            "plain": plain,
            "relayed-plain": relayed_plain,
        }


# Clients that leave. They come first: a host logs twenty lines of a kind, and counts the others for a minute.


@pytest.mark.parametrize("method", ["SubscribeToTask", "tasks/resubscribe"])
def test_leaving_a_subscription_logs_nothing_critical(places: dict[str, Side], method: str) -> None:
    """A client that reads one event and goes away is no failure of anything."""
    side = places["relayed"]
    side.rest, side.version = False, "1.0"
    gate = uuid.uuid4().hex
    begun = task_in(side.call("SendMessage", said(f"hold {gate}", configuration={"returnImmediately": True})))
    assert side.host is not None
    before = side.host.output.count("the call was given up")
    side.version = "1.0" if method == "SubscribeToTask" else "0.3"
    with httpx.Client(timeout=20) as web:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": begun["id"]}}
        with web.stream("POST", side.rpc, json=body, headers=side.fields()) as response:
            next(events_of(response))
    host = side.host
    until(lambda: host.output.count("the call was given up") > before)
    side.version = "1.0"
    side.call("SendMessage", said(f"open {gate}"))
    assert "critical" not in host.output
    assert "Traceback" not in host.output


PUSHING = ("relayed", "direct")
LACKING = ("hosted", "closed", "plain", "relayed-plain")
EVERYWHERE = (*PUSHING, *LACKING)

REASONS = {
    -32001: (404, "TASK_NOT_FOUND"),
    -32003: (400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    -32005: (400, "CONTENT_TYPE_NOT_SUPPORTED"),
    -32009: (400, "VERSION_NOT_SUPPORTED"),
    -32602: (400, "INVALID_PARAMS"),
}
"""A2A 1.0 section 5.4: HTTP status and reason, by the code of JSON-RPC."""


def outcome(side: Side, answer: Any) -> tuple[int, str]:
    """The code of JSON-RPC and the reason of an error, in whichever binding it came."""
    error = answer["body"]["error"]
    details = error["details"] if side.rest else error["data"]
    reason = next(each["reason"] for each in details if each.get("domain") == "a2a-protocol.org")
    if not side.rest:
        return error["code"], reason
    assert error["code"] == answer["status"]
    return next(code for code, known in REASONS.items() if known == (answer["status"], reason)), reason


UNKNOWN = {"taskId": "tck-nonexistent"}
HOOK = {"url": "https://example.com/tck-push-webhook"}

Ask = Callable[[Side], Any]
CHECKS: dict[str, tuple[tuple[str, ...], int, Ask]] = {
    "CORE-GET-002": (EVERYWHERE, -32001, lambda side: side.call("GetTask", {"id": "tck-nonexistent"})),
    "CORE-CANCEL-002": (EVERYWHERE, -32001, lambda side: side.call("CancelTask", {"id": "tck-nonexistent"})),
    "GET, history below zero": (
        EVERYWHERE,
        -32602,
        lambda side: side.call("GetTask", {"id": "tck-nonexistent", "historyLength": -1}),
    ),
    "LIST, page of none": (EVERYWHERE, -32602, lambda side: side.call("ListTasks", {"pageSize": 0})),
    "LIST, page beyond 100": (EVERYWHERE, -32602, lambda side: side.call("ListTasks", {"pageSize": 101})),
    "VER-SERVER-002": (EVERYWHERE, -32009, lambda side: side.call("SendMessage", said("x"), **{"A2A-Version": "99.0"})),
    "CORE-CAP-001 create": (
        LACKING,
        -32003,
        lambda side: side.call("CreateTaskPushNotificationConfig", {**UNKNOWN, **HOOK}),
    ),
    "CORE-CAP-001 get": (
        LACKING,
        -32003,
        lambda side: side.call("GetTaskPushNotificationConfig", {**UNKNOWN, "id": "c"}),
    ),
    "CORE-CAP-001 list": (LACKING, -32003, lambda side: side.call("ListTaskPushNotificationConfigs", UNKNOWN)),
    "CORE-CAP-001 delete": (
        LACKING,
        -32003,
        lambda side: side.call("DeleteTaskPushNotificationConfig", {**UNKNOWN, "id": "c"}),
    ),
    "PUSH create, incomplete": (
        EVERYWHERE,
        -32602,
        lambda side: side.call("CreateTaskPushNotificationConfig", {**UNKNOWN, "id": "c"}),
    ),
    "PUSH create, unknown task": (
        PUSHING,
        -32001,
        lambda side: side.call("CreateTaskPushNotificationConfig", {**UNKNOWN, **HOOK}),
    ),
    "PUSH get, unknown task": (
        PUSHING,
        -32001,
        lambda side: side.call("GetTaskPushNotificationConfig", {**UNKNOWN, "id": "c"}),
    ),
    "PUSH list, unknown task": (
        PUSHING,
        -32001,
        lambda side: side.call("ListTaskPushNotificationConfigs", UNKNOWN),
    ),
    "PUSH-GET-002": (
        PUSHING,
        -32001,
        lambda side: side.call(
            "GetTaskPushNotificationConfig",
            {"taskId": task_in(side.call("SendMessage", said("ask")))["id"], "id": "nonexistent"},
        ),
    ),
}
"""By requirement of the kit: where it is asked, the code of JSON-RPC that is due, and the request."""


@pytest.mark.parametrize("rest", [False, True], ids=["JSON-RPC", "HTTP+JSON"])
@each_row("name", CHECKS)
def test_every_place_refuses_with_the_same_code(places: dict[str, Side], name: str, rest: bool) -> None:
    """The order: incomplete, not supported, unknown task, unknown configuration."""
    where, code, ask = CHECKS[name]
    for place in where:
        side = places[place]
        side.rest, side.version = rest, "1.0"
        assert outcome(side, ask(side)) == (code, REASONS[code][1]), place


def test_a_configuration_is_kept_read_listed_and_deleted_twice(places: dict[str, Side]) -> None:
    """PUSH-CREATE-001 to PUSH-DEL-002, at the agent and behind the front, in both bindings."""
    for place in PUSHING:
        for rest in (False, True):
            side = places[place]
            side.rest, side.version = rest, "1.0"
            task = {"taskId": task_in(side.call("SendMessage", said("echo x")))["id"]}
            config = {**task, "id": f"c-{uuid.uuid4().hex[:8]}"}
            assert "error" not in side.call("CreateTaskPushNotificationConfig", {**config, **HOOK})["body"], place
            read = side.call("GetTaskPushNotificationConfig", config)["body"]
            assert read.get("result", read)["url"] == HOOK["url"]
            listed = side.call("ListTaskPushNotificationConfigs", task)["body"]
            assert [each["id"] for each in listed.get("result", listed)["configs"]] == [config["id"]]
            for _ in range(2):
                assert "error" not in side.call("DeleteTaskPushNotificationConfig", config)["body"]
            assert outcome(side, side.call("GetTaskPushNotificationConfig", config))[0] == -32001


OLD_PUSH: dict[str, dict[str, Any]] = {
    "tasks/pushNotificationConfig/set": {"taskId": "tck-nonexistent", "pushNotificationConfig": HOOK},
    "tasks/pushNotificationConfig/get": {"id": "tck-nonexistent", "pushNotificationConfigId": "c"},
    "tasks/pushNotificationConfig/list": {"id": "tck-nonexistent"},
    "tasks/pushNotificationConfig/delete": {"id": "tck-nonexistent", "pushNotificationConfigId": "c"},
}


@each_row("method", OLD_PUSH)
def test_the_order_is_that_of_the_older_version_too(places: dict[str, Side], method: str) -> None:
    """A2A 0.3: not supported comes before the task that nobody knows."""
    for place in EVERYWHERE:
        side = places[place]
        side.rest, side.version = False, "0.3"
        answer = side.call(method, OLD_PUSH[method])
        assert answer["body"]["error"]["code"] == (-32003 if place in LACKING else -32001), place


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
@pytest.mark.parametrize("place", ["relayed", "hosted"])
def test_a_body_of_another_type_is_415(places: dict[str, Side], place: str, kind: str) -> None:
    """HTTP_JSON-STATUS-001 and JSONRPC-SSE-002: ContentTypeNotSupportedError, and what to send, in both bindings."""
    side = places[place]
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said("x")})
    for rest, path, body in ((False, "", call), (True, "/message:send", json.dumps(said("x")))):
        side.rest, side.version = rest, "1.0"
        answer = side.raw("POST", path, body, **{"Content-Type": kind})
        assert (answer["status"], answer["kind"]) == (415, "application/json")
        error = answer["body"]["error"]
        assert error["code"] == (415 if rest else -32005)
        assert error["details" if rest else "data"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"
        assert "send application/json" in error["message"]


@pytest.mark.parametrize("place", ["relayed", "hosted"])
def test_a_card_says_how_long_it_is_fresh(places: dict[str, Side], place: str) -> None:
    """CARD-CACHE-001 and 002: a max-age and an ETag; who has the card is told so without a body."""
    address = f"{places[place].home}/.well-known/agent-card.json"
    card = httpx.get(address)
    again = httpx.get(address, headers={"If-None-Match": card.headers["ETag"]})
    assert (card.status_code, again.status_code, again.content) == (200, 304, b"")
    assert {"max-age=0, must-revalidate"} == {each.headers["Cache-Control"] for each in (card, again)}


# The sample's agent


def test_plain_text_to_the_sample_agent_is_answered(hosted: Side) -> None:
    """Its card says that it takes text, and text fills the one member that its endpoint requires."""
    card = httpx.get(f"{hosted.home}/.well-known/agent-card.json").json()
    assert "text/plain" in card["defaultInputModes"]
    hosted.rest, hosted.version = False, "1.0"
    task = task_in(hosted.call("SendMessage", said("What is on the shelf?")))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["data"]["format"] == "structured"


def test_wrong_data_is_refused_with_the_input_that_is_taken(hosted: Side) -> None:
    """A member that its endpoint does not have: the refusal names those that it has."""
    hosted.rest, hosted.version = False, "1.0"
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"colour": "red"}}]}
    task = task_in(hosted.call("SendMessage", {"message": message}))
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert "Send one data part, an object with: intent (required)" in task["status"]["message"]["parts"][0]["text"]


# The official clients

OLD_CLIENT = Path(__file__).parent / "a2a_clients" / "old_client.py"
JS_CLIENT = Path(__file__).parent / "a2a_clients" / "client.mjs"


def told_by(*command: str) -> Any:
    """What a client in another process prints: one JSON text."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_older_client_needs_the_address_alone(places: dict[str, Side]) -> None:
    """The official SDK 0.3 of Python: it finds the card by the front's address, and sees what it sees of the agent."""
    python = str(environment("a2a-old", "a2a-sdk>=0.3.26,<0.4", "httpx<1") / "python")
    seen = {place: told_by(python, str(OLD_CLIENT), places[place].home, "echo x") for place in ("relayed", "hosted")}
    assert seen["relayed"]["card"] == ["whole", "0.3.0", "JSONRPC"]
    assert seen["relayed"]["sent"] == ["completed", "x"]
    assert seen["relayed"]["streamed"][-1] == "completed"
    assert seen["relayed"]["unknown"] == seen["hosted"]["unknown"] == -32001
    assert seen["relayed"]["push"] == -32001
    assert seen["hosted"]["push"] == -32003
    assert seen["hosted"]["sent"][0] == "completed"


@pytest.mark.release
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_javascript_client_sees_the_same_behind_the_front(places: dict[str, Side], binding: str) -> None:
    """The official SDK 1.3 of JavaScript, by the address alone: states, events and errors are those of the agent."""
    sdk = npm.document("@a2a-js/sdk", "dist/client/index.js", "1.3.0").parents[2]

    def told(place: str) -> Any:
        return told_by("node", str(JS_CLIENT), str(sdk), places[place].home, binding, "echo x")

    assert told("relayed") == told("direct")
    hosted = told("hosted")
    assert hosted["errors"]["get"] == "TaskNotFoundError"
    assert {hosted["errors"][name] for name in hosted["errors"] if name.startswith("push")} == {
        "PushNotificationNotSupportedError"
    }
