"""Whose tasks, contexts and callbacks an operation of the front may name, whatever form it names them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.relay import MOST_OF_ALL, MOST_PER_CLIENT, make_room
from agtphost.adapters.a2a.relay_requests import RelayClient, may_push, normalize_members, read, rename_context
from agtphost.upstream.failures import ErrorAnswer
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from tests.adapters.peers import ALICE, Book
from tests.rows import each_row

MINE = OwnedTask(
    owner=ALICE.agent_id,
    upstream="whole",
    remote_id="t-1",
    task_id="T-1",
    conversation="remote",
    client="one",
    shown="c",
)


def links_of(*known: OwnedTask) -> TaskOwnership:
    book = Book()
    links = TaskOwnership(book, "a2a-task")
    for link in known:
        book.commit(links.changes(link))
    return links


def whose(client: str = "one", links: TaskOwnership | None = None) -> RelayClient:
    return RelayClient(
        links=links if links is not None else links_of(MINE), upstream="whole", owner=ALICE.agent_id, client=client
    )


def sent(**message: Any) -> dict[str, Any]:
    return {"message": {"parts": [{"text": "x"}], **message}}


@each_row(
    ("operation", "params"),
    [
        (A2aOperation.GET, {"id": "t-1"}),
        (A2aOperation.CANCEL, {"ID": 1, "id": "t-1"}),
        (A2aOperation.PUSH_LIST, {"taskId": "t-1"}),
        (A2aOperation.PUSH_GET, {"task_id": "t-1", "id": "p"}),
        (A2aOperation.SEND, sent(taskId="t-1")),
        (A2aOperation.SEND, sent(task_id="t-1")),
        (A2aOperation.STREAM, sent(task_id="none", taskId="t-1")),
        (A2aOperation.SEND, sent(referenceTaskIds=["t-1"])),
        (A2aOperation.SEND, sent(reference_task_ids=["t-1"])),
    ],
)
def test_a_task_is_reached_by_its_client_alone(operation: A2aOperation, params: dict[str, Any]) -> None:
    """By either name of a member; the agent is sent the one that was judged."""
    asked = read(operation, params, whose())
    assert "task_id" not in str(asked.params)
    for client in ("two", ""):
        with pytest.raises(ErrorAnswer) as refused:
            read(operation, params, whose(client))
        assert refused.value.error["code"] == -32001


@each_row("name", ["taskid", "TaskId", "TASK_ID", "Task_Id", "task-id", "TaskID"])
def test_no_other_spelling_reaches_the_agent(name: str) -> None:
    """What some agents would take for a task is left out."""
    asked = read(A2aOperation.SEND, sent(**{name: "t-1"}), whose("two"))
    assert name not in asked.params["message"]
    assert normalize_members({name: 1, "other": 2}, ("taskId",)) == {"other": 2}


@pytest.mark.parametrize("name", ["Message", "MESSAGE", "Configuration"])
def test_nor_one_of_what_holds_it(name: str) -> None:
    """A second message beside the one that is looked at."""
    asked = read(A2aOperation.SEND, {**sent(), name: {"taskId": "t-1"}}, whose("two"))
    assert name not in asked.params


def test_a_context_is_the_clients_own() -> None:
    """Known by the client's name for it; of another's same name is another one, and the agent's is no way in."""
    asked = read(A2aOperation.SEND, sent(contextId="c"), whose())
    assert (asked.context, asked.shown) == ("remote", "c")
    others = {read(A2aOperation.SEND, sent(contextId=name), whose("two")).context for name in ("c", "remote")}
    assert len(others | {"c", "remote"}) == 4
    again = read(A2aOperation.SEND, sent(context_id="c"), whose("two"))
    assert again.context in others
    assert read(A2aOperation.LIST, {"contextId": "c"}, whose()).params["contextId"] == "remote"


def test_names_are_changed_back_wherever_a_context_is_named() -> None:
    """In tasks, their messages and history, and in events; in nothing that an agent says."""
    said = {"contextId": "remote", "parts": [{"text": "remote"}]}
    task = {
        "id": "t",
        "contextId": "remote",
        "status": {"message": said},
        "history": [said],
        "metadata": {"x": "remote"},
    }
    shown = {"contextId": "c", "parts": [{"text": "remote"}]}
    wanted = {**task, "contextId": "c", "status": {"message": shown}, "history": [shown]}
    assert rename_context({"task": task}, "remote", "c") == {"task": wanted}
    update = {"statusUpdate": {"contextId": "remote", "status": {"message": said}}}
    assert rename_context(update, "remote", "c") == {"statusUpdate": {"contextId": "c", "status": {"message": shown}}}


@each_row(
    ("url", "origins", "allowed"),
    [
        ("https://hooks.example/a?b=c", ("https://hooks.example",), True),
        ("https://hooks.example:443/a", ("https://hooks.example",), True),
        ("https://hooks.example:444/a", ("https://hooks.example",), False),
        ("https://hooks.example:444/a", ("https://hooks.example:444",), True),
        ("http://hooks.example/a", ("https://hooks.example",), False),
        ("https://HOOKS.example/a", ("https://hooks.example",), True),
        ("https://hooks.example.evil/a", ("https://hooks.example",), False),
        ("https://hooks.example@evil.example/", ("https://hooks.example",), False),
        ("https://evil.example/#@hooks.example", ("https://hooks.example",), False),
        ("https://evil.example\\@hooks.example/", ("https://hooks.example",), False),
        ("http://localhost:8123/x", ("http://localhost:*",), True),
        ("http://localhost.evil:8123/x", ("http://localhost:*",), False),
        ("file:///etc/passwd", ("http://localhost:*",), False),
        ("https://hooks.example:x/", ("https://hooks.example",), False),
        (7, ("https://hooks.example",), False),
        ("https://anything.example", ("*",), True),
        ("https://anything.example", (), False),
    ],
)
def test_where_an_agent_may_push(url: Any, origins: tuple[str, ...], allowed: bool) -> None:
    """An origin of the operator's list, and nothing that only looks like it."""
    assert may_push(url, origins) is allowed


def test_a_push_configuration_names_its_task_by_the_call_alone() -> None:
    """The task and tenant in a configuration that comes with a message are not sent on."""
    push = {"url": "https://e.example", "task_id": "t-9", "tenant": "other", "taskId": "t-8"}
    asked = read(A2aOperation.SEND, {**sent(), "configuration": {"task_push_notification_config": push}}, whose())
    assert asked.params["configuration"] == {"taskPushNotificationConfig": {"url": "https://e.example"}}
    assert asked.pushed == {"url": "https://e.example"}


def test_a_client_makes_room_among_its_own_first() -> None:
    """Its oldest goes beyond its share; where all have too many, the oldest of whoever has most."""

    def link(client: str, number: int) -> OwnedTask:
        return replace(MINE, client=client, remote_id=f"{client}-{number}", shown="")

    full = [link("one", number) for number in range(MOST_PER_CLIENT)]
    links = links_of(*full)
    new = link("one", MOST_PER_CLIENT)
    assert make_room(links, new) == links.removal(full[0])
    assert make_room(links, full[3]) is None
    assert make_room(links, link("two", 0)) is None
    crowd = [link(f"c{client}", number) for client in range(MOST_OF_ALL // 150 + 1) for number in range(150)]
    many = links_of(*full[:160], *crowd[: MOST_OF_ALL - 160])
    assert make_room(many, link("two", 0)) == many.removal(full[0])
