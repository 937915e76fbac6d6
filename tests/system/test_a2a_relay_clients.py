"""Clients of an A2A agent behind the front: what each may reach, and what authorization refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rows import each_row
from tests.system.a2a_sides import Side, answer_of, behind, webhook
from tests.system.hosting import running, until
from tests.system.test_a2a_front import demo_id, record
from tests.system.test_a2a_relay import said, task_in


@pytest.fixture(scope="module")
def pushed() -> Iterator[Any]:
    with webhook() as found:
        yield found


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory, pushed: Any) -> Iterator[Side]:
    """An agent behind a host with two clients; it may push to one place."""
    origins = json.dumps([pushed[0]])
    with behind(tmp_path_factory.mktemp("clients"), origins=origins, tokens="first second") as found:
        yield found


def as_client(side: Side, token: str, *, rest: bool = False) -> Side:
    return Side(home=side.home, rpc=side.rpc, token=token, rest=rest, host=side.host)


def code_of(answer: Any) -> int:
    error = answer["body"]["error"]
    return int(error["code"])


REFUSED = {
    "read": ("GetTask", lambda task: {"id": task["id"]}),
    "cancel": ("CancelTask", lambda task: {"id": task["id"]}),
    "subscribe": ("SubscribeToTask", lambda task: {"id": task["id"]}),
    "continue": ("SendMessage", lambda task: said("echo x", message={"taskId": task["id"]})),
    "continue-snake-case": ("SendMessage", lambda task: said("echo x", message={"task_id": task["id"]})),
    "stream": ("SendStreamingMessage", lambda task: said("echo x", message={"taskId": task["id"]})),
    "refer": ("SendMessage", lambda task: said("echo x", message={"referenceTaskIds": [task["id"]]})),
    "push": ("CreateTaskPushNotificationConfig", lambda task: {"taskId": task["id"], "url": "https://e.example"}),
    "read-push": ("GetTaskPushNotificationConfig", lambda task: {"taskId": task["id"], "id": task["id"]}),
    "list-pushes": ("ListTaskPushNotificationConfigs", lambda task: {"taskId": task["id"]}),
    "delete-push": ("DeleteTaskPushNotificationConfig", lambda task: {"taskId": task["id"], "id": task["id"]}),
}
"""What authorization refuses: every operation on a task of another client, and of nothing else than that."""


@pytest.mark.parametrize("rest", [False, True], ids=["JSON-RPC", "HTTP+JSON"])
def test_a_task_is_its_clients_own(side: Side, rest: bool) -> None:
    """Another's task is not found, whatever is asked of it and however it is named; and it is none the worse for it."""
    one, other = as_client(side, "first", rest=rest), as_client(side, "second", rest=rest)
    task = task_in(one.call("SendMessage", said("ask")))
    for name, (operation, params) in REFUSED.items():
        answer = other.call(operation, params(task))
        assert code_of(answer) == (404 if rest else -32001), (name, answer)
    mine = [each["id"] for each in _listed(one)]
    assert task["id"] in mine
    assert task["id"] not in [each["id"] for each in _listed(other)]
    assert task_in(one.call("GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert task_in(one.call("SendMessage", said("echo x", message={"taskId": task["id"]})))["id"] == task["id"]


def _listed(client: Side, **params: Any) -> list[dict[str, Any]]:
    answer = client.call("ListTasks", params)["body"]
    found: list[dict[str, Any]] = answer.get("result", answer)["tasks"]
    return found


def test_nobody_without_a_token(side: Side) -> None:
    """401 in both bindings, before a body is read."""
    for rest in (False, True):
        assert as_client(side, "", rest=rest).call("SendMessage", said("echo x"))["status"] == 401
        assert as_client(side, "third", rest=rest).call("SendMessage", said("echo x"))["status"] == 401


def test_clients_that_choose_one_name_do_not_meet(side: Side) -> None:
    """Two contexts of the same name are two at the agent, which each client sees under the name that it chose."""
    agent = Side(home="", rpc=f"http://127.0.0.1:{side.upstream}/rpc")
    before = {each["contextId"] for each in _listed(agent)}
    for token in ("first", "second"):
        task = task_in(as_client(side, token).call("SendMessage", said("echo x", message={"contextId": "common"})))
        assert task["contextId"] == "common"
        assert {message["contextId"] for message in task["history"]} == {"common"}
        assert len(_listed(as_client(side, token), contextId="common")) == 1
    contexts = {each["contextId"] for each in _listed(agent)} - before
    assert len(contexts) == 2
    assert "common" not in contexts


def test_pages_have_no_gaps_where_others_have_tasks(side: Side) -> None:
    """Tasks of two clients in turn: each client's pages are full, in order, whole and its own."""
    one, other = as_client(side, "first"), as_client(side, "second")
    mine = []
    for number in range(5):
        mine.insert(0, task_in(one.call("SendMessage", said(f"echo {number}")))["id"])
        other.call("SendMessage", said("echo x"))
    everything = [each["id"] for each in _listed(one, pageSize=100)]
    assert everything[:5] == mine
    found, token, pages = [], "", 0
    while pages == 0 or token:
        params = {"pageSize": 2, **({"pageToken": token} if token else {})}
        page = one.call("ListTasks", params)["body"]["result"]
        assert page["totalSize"] == len(everything)
        found += [each["id"] for each in page["tasks"]]
        token, pages = page["nextPageToken"], pages + 1
        assert len(page["tasks"]) == 2 or not token
    assert found == everything
    assert other.call("ListTasks", {"pageToken": "WzEsMl0="})["body"]["error"]["code"] == -32602


def test_pushes_go_where_the_operator_allows(side: Side, pushed: Any) -> None:
    """Another place is refused before the agent hears of it, in a configuration and in a message."""
    url, wait = pushed
    client = as_client(side, "first")
    elsewhere = ["http://127.0.0.1:9/x", "https://example.com/x", f"{url}@evil.example/", "file:///etc/passwd"]
    for place in elsewhere:
        answer = client.call("SendMessage", said("ask", configuration={"taskPushNotificationConfig": {"url": place}}))
        assert code_of(answer) == -32602, place
        snake = {"task_push_notification_config": {"url": place}}
        assert code_of(client.call("SendMessage", said("ask", configuration=snake))) == -32602
    task = task_in(client.call("SendMessage", said("ask")))
    for place in elsewhere:
        answer = client.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": place})
        assert code_of(answer) == -32602, place
    allowed = client.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": f"{url}/hook"})
    assert allowed["body"]["result"]["url"] == f"{url}/hook"
    client.call("SendMessage", said("echo x", message={"taskId": task["id"]}))
    assert {each["path"] for each in wait(1)} == {"/hook"}


CALLS: dict[str, tuple[str, Any, int, str]] = {
    "answered": ("SendMessage", said("echo x"), 200, "TASK_STATE_COMPLETED"),
    "failed": ("SendMessage", said("fail"), 200, "TASK_STATE_FAILED"),
    "refused-by-the-agent": ("SendMessage", said("raise"), 422, ""),
    "refused-by-the-host": ("GetTask", {"id": "unknown"}, 404, ""),
}


@each_row("name", CALLS)
def test_every_operation_is_on_record(side: Side, name: str) -> None:
    """The HTTP answer names a record, which names the action, the caller and the task; its signature is checked."""
    operation, params, status, state = CALLS[name]
    with as_client(side, "first").opened(operation, params) as response:
        audit_id = response.headers["audit-id"]
        answer = answer_of(response)
    assert side.host is not None
    shown = record(side.host, audit_id)
    assert (shown["status"], shown["identity_assurance"]) == (status, "gateway")
    assert shown["caller_id"] == demo_id(side.host)
    extra = shown["extra"]
    assert (extra["a2a_agent"], extra["a2a_action"]) == ("whole", f"a2a.relay.{operation}")
    if state:
        assert (extra["a2a_task_id"], extra["a2a_state"]) == (task_in(answer)["id"], state)


def test_the_tasks_survive_a_restart(tmp_path: Path) -> None:
    """Whose a task is, and what its client calls its context, is kept in the store."""
    with behind(tmp_path, tokens="first second") as found:
        client = as_client(found, "first")
        task = task_in(client.call("SendMessage", said("ask", message={"contextId": "kept"})))
        assert found.host is not None
        assert found.host.stop() == 0
        with running(found.host.config) as again:
            until(lambda: "upstream a2a.whole: up" in again.output)
            answered = task_in(client.call("SendMessage", said("echo x", message={"taskId": task["id"]})))
            assert (answered["id"], answered["contextId"]) == (task["id"], "kept")
            assert code_of(as_client(found, "second").call("GetTask", {"id": task["id"]})) == -32001
