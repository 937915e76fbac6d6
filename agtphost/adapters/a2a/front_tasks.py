"""
Keep the tasks that A2A clients began at this host's front: durable, and visible only to their client.

A task is a state item, written before its call begins and again when it has ended. A task that was running when the
host stopped is shown as failed: its call has no outcome, or one that only the Attribution-Record has.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from zope.interface import implementer

from agtphost.adapters.a2a.tasks import FAILED, state_of
from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal, not_found
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.peer import Assurance, Withdrawable
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

KIND = "a2a-front-task"
"""The kind of the state items."""

PATH = "/a2a-tasks"
"""The path where a client's tasks are read and withdrawn."""

KEEP_SECONDS = 7 * 86_400
"""Seconds that a task is kept after its last change."""

MOST_PER_CLIENT = 200
"""
Tasks of one client. With more, its oldest ended task is removed; the kind's total bound removes the oldest of all.
"""

MOST_RUNNING = 64
"""Tasks that may run at the same time."""

LONGEST = 256 << 10
"""Octets of a task; a longer one is kept without its artifacts and history."""

LONGEST_PAGE = 100

Keep = Callable[[Sequence[Change]], Awaitable[None]]
"""Makes changes durable; fails with :class:`agtphost.audit.drafts.LedgerUnavailable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTask:
    """A task of a client of the front."""

    task_id: str
    client: str
    """The client that began it."""

    agent_id: str
    """The agent in whose name its call is made."""

    document: Mapping[str, Any]
    """The task in the shapes of A2A 1.0."""

    ended: bool


class TooManyTasks(Exception):
    """The error where no further task can be kept now; the message says why."""


class FrontTaskTable:
    """
    The table of the front's tasks.

    :param keep: makes changes durable.
    :param now: seconds since the epoch.
    """

    def __init__(self, held: StateTable, keep: Keep, now: Callable[[], float] = time.time) -> None:
        self._keep = keep
        self._now = now
        self._tasks: dict[str, FrontTask] = {}
        self._clients: dict[str, dict[str, FrontTask]] = {}  # of each client, in order of the last change
        self._calls: dict[str, Withdrawable] = {}
        self._withdrawn: set[str] = set()
        held.watch(KIND, self._take_item)

    def follow(self, held: StateTable) -> None:
        """Follow the stored tasks under a further configuration; one that ends follows them no more."""
        held.follow(KIND, self._take_item)

    def _take_item(self, key: str, item: StateItem | None) -> None:
        if item is None:
            self._drop(key)
        elif key not in self._calls or item.brief["ended"]:
            value = item.value
            task = FrontTask(
                task_id=key,
                client=value["client"],
                agent_id=item.owner,
                document=value["document"],
                ended=value["ended"],
            )
            self._remember(task)

    def _remember(self, task: FrontTask) -> None:
        self._tasks[task.task_id] = task
        own = self._clients.setdefault(task.client, {})
        own.pop(task.task_id, None)
        last = next(reversed(own.values()), None)
        own[task.task_id] = task
        if last is not None and _changed_at(last) > _changed_at(task):
            # Only the first load from the store comes in another order.
            self._clients[task.client] = dict(sorted(own.items(), key=lambda entry: _changed_at(entry[1])))

    def _drop(self, task_id: str) -> None:
        task = self._tasks.pop(task_id, None)
        if task is not None:
            own = self._clients[task.client]
            del own[task_id]
            if not own:
                del self._clients[task.client]

    # Reading

    def get(self, client: str, task_id: str) -> FrontTask | None:
        """Return a task of a client, or None."""
        task = self._tasks.get(task_id)
        return None if task is None or task.client != client else self._fail_if_lost(task)

    def list_of_client(self, client: str) -> Iterator[FrontTask]:
        """Return a client's tasks, the newest first."""
        return (self._fail_if_lost(task) for task in reversed(list(self._clients.get(client, {}).values())))

    def is_running(self, task_id: str) -> bool:
        """Return whether a task's call runs in this process."""
        return task_id in self._calls

    def _fail_if_lost(self, task: FrontTask) -> FrontTask:
        if task.ended or task.task_id in self._calls:
            return task
        parts = [{"text": "The host stopped while the task ran; its records show whether the call took effect."}]
        said = {"messageId": task.task_id, "taskId": task.task_id, "role": "ROLE_AGENT", "parts": parts}
        status = {**task.document["status"], "state": FAILED, "message": said}
        return replace(task, document={**task.document, "status": status}, ended=True)

    # Changing

    async def begin(self, client: str, agent_id: str, document: Mapping[str, Any], call: Withdrawable) -> None:
        """
        Store a new task durably; ``call`` may begin then.

        :raises TooManyTasks: too many tasks run.
        :raises agtphost.audit.drafts.LedgerUnavailable: it was not stored.
        """
        if len(self._calls) >= MOST_RUNNING:
            raise TooManyTasks(f"{MOST_RUNNING} tasks run, which is the limit; try again later")
        task = FrontTask(task_id=str(document["id"]), client=client, agent_id=agent_id, document=document, ended=False)
        changes = [*self._make_room(client), self._put(task)]
        self._calls[task.task_id] = call
        call.keeps = LONGEST
        self._remember(task)
        try:
            await self._keep(changes)
        except BaseException:
            del self._calls[task.task_id]
            self._drop(task.task_id)
            raise

    async def settle(self, task_id: str, document: Mapping[str, Any]) -> None:
        """
        Store a task that has ended.

        :raises agtphost.audit.drafts.LedgerUnavailable: it was not stored; after a restart the task counts as failed.
        """
        known = self._tasks.get(task_id)
        call = self._calls.pop(task_id, None)
        self._withdrawn.discard(task_id)
        if known is None or call is None:
            return
        task = replace(known, document=document, ended=True)
        self._remember(task)
        await self._keep((self._put(task),))

    def interrupt(self, task_id: str, document: Mapping[str, Any]) -> None:
        """
        Show a running task with this document until it ends.

        The document is not stored: when the host stops, the call ends in any case.
        """
        known = self._tasks.get(task_id)
        if known is not None and task_id in self._calls:
            self._remember(replace(known, document=document))

    def withdraw(self, task_id: str) -> bool:
        """End the call of a running task; return whether there was a call to end."""
        call = self._calls.get(task_id)
        if call is None or not call.withdraw():
            return False
        self._withdrawn.add(task_id)
        return True

    def is_withdrawn(self, task_id: str) -> bool:
        """Return whether the call of a task was ended by :meth:`withdraw`."""
        return task_id in self._withdrawn

    def withdraw_suspended(self, owner: str, task_id: str) -> None:
        """End the call of a task that its agent suspended (adapters rule G6)."""
        task = self._tasks.get(task_id)
        if task is not None and task.agent_id == owner:
            self.withdraw(task_id)

    def _make_room(self, client: str) -> Iterator[Change]:
        own = self._clients.get(client, {})
        if len(own) < MOST_PER_CLIENT:
            return
        oldest = next((task for task in own.values() if task.task_id not in self._calls), None)
        if oldest is None:
            raise TooManyTasks(f"{MOST_PER_CLIENT} tasks of this client run, which is the limit; try again later")
        yield Change(kind=KIND, key=oldest.task_id, value=None, owner=oldest.agent_id)

    def _put(self, task: FrontTask) -> Change:
        document = task.document
        if len(jsontext.encode(document)) > LONGEST:
            kept = {name: value for name, value in document.items() if name not in ("artifacts", "history")}
            document = {**kept, "metadata": {**document.get("metadata", {}), "agtp.artifacts": "too long to be kept"}}
        return Change(
            kind=KIND,
            key=task.task_id,
            value={"client": task.client, "document": document, "ended": task.ended},
            owner=task.agent_id,
            expires_at=int((self._now() + KEEP_SECONDS) * 1000),
        )


def _changed_at(task: FrontTask) -> str:
    """Return the time of a task's last change; all stamps have one form, so that their texts sort by time."""
    return str(task.document["status"]["timestamp"])


def client_of(context: BuiltInContext) -> str:
    """
    Return the client that a request is from: a client of the front, or the agent itself.

    :raises Refusal: 401 for an agent whose identity is not proven.
    """
    link = context.peer.link if context.peer is not None else None
    if isinstance(link, Withdrawable) and link.client:
        return link.client
    if context.caller is None or context.assurance is not Assurance.CERTIFICATE:
        raise Refusal(
            Reason.AGENT_UNAUTHENTICATED,
            "Tasks of the A2A front are shown to the client that began them.",
            remedy="Connect with the certificate that the task was begun with.",
        )
    return client_key(context.caller.agent_id)


def client_key(agent_id: str) -> str:
    """Return the client name of an agent with a certificate, which does not depend on its connection."""
    return f"agent:{agent_id}"


def _find_own(tasks: FrontTaskTable, context: BuiltInContext) -> FrontTask:
    task_id = context.path_parameters["task_id"]
    task = tasks.get(client_of(context), task_id)
    if task is None:
        raise not_found(Reason.UNKNOWN_TASK, "The client has no such task.", remedy=f"QUERY {PATH} lists its tasks.")
    return task


class _TaskHandler:
    """The common part of the handlers of the front's tasks."""

    kind = "built_in"

    def __init__(self, tasks: FrontTaskTable) -> None:
        self._tasks = tasks


@implementer(IBuiltInHandler)
class ReadTask(_TaskHandler):
    """The handler of ``QUERY /a2a-tasks/{task_id}``: GetTask."""

    def handle(self, context: BuiltInContext) -> Answer:
        """Return the task, and whether it runs."""
        task = _find_own(self._tasks, context)
        return Answer(result={"task": task.document, "running": self._tasks.is_running(task.task_id)})


@implementer(IBuiltInHandler)
class ListOwnTasks(_TaskHandler):
    """The handler of ``QUERY /a2a-tasks``: ListTasks."""

    def handle(self, context: BuiltInContext) -> Answer:
        """Return a page of the client's tasks, the latest change first; ``pageToken`` is where it begins."""
        given = context.input
        conversation, state, since = given.get("contextId"), given.get("status"), given.get("statusTimestampAfter")
        token = str(given.get("pageToken") or "0")
        if not (token.isascii() and token.isdigit() and len(token) <= 6):
            raise _parameter_refusal("pageToken must be the nextPageToken of an earlier page.")
        moment = _parse_time(since) if since else None
        size = given.get("pageSize", 50)
        if type(size) is not int or not 0 < size <= LONGEST_PAGE:
            raise _parameter_refusal(f"pageSize must be a whole number from 1 to {LONGEST_PAGE}.")
        found = [
            task.document
            for task in self._tasks.list_of_client(client_of(context))
            if conversation in (None, "", task.document["contextId"])
            and state in (None, "", "TASK_STATE_UNSPECIFIED", state_of(task.document))
            and (moment is None or _parse_time(task.document["status"]["timestamp"]) > moment)
        ]
        # All stamps have one form, so that their texts sort by time.
        found.sort(key=lambda document: str(document["status"]["timestamp"]), reverse=True)
        begin = int(token)
        more = str(begin + size) if begin + size < len(found) else ""
        shown = [dict(document) for document in found[begin : begin + size]]
        if given.get("includeArtifacts") is not True:
            for document in shown:
                document.pop("artifacts", None)
        return Answer(result={"tasks": shown, "totalSize": len(found), "pageSize": size, "nextPageToken": more})


@implementer(IBuiltInHandler)
class WithdrawTask(_TaskHandler):
    """
    The handler of ``SUSPEND /a2a-tasks/{task_id}``: CancelTask. It ends the running call, whose record shows that.
    """

    def handle(self, context: BuiltInContext) -> Answer:
        """
        End the call of the task.

        :raises Refusal: 409 where it has ended, or its outcome is being recorded.
        """
        task = _find_own(self._tasks, context)
        if not self._tasks.withdraw(task.task_id):
            raise Refusal(Reason.TASK_NOT_CANCELABLE)
        return Answer(result={"task_id": task.task_id, "withdrawn": True}, extra={"a2a_front_task_id": task.task_id})


def _parse_time(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise _parameter_refusal("statusTimestampAfter must be an ISO 8601 time.") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _parameter_refusal(explanation: str) -> Refusal:
    return Refusal(Reason.INVALID_PARAMETER, explanation, remedy="Leave it out.")


def front_bindings(tasks: FrontTaskTable) -> tuple[Binding, ...]:
    """Return the bindings for the front's clients, which agents with a certificate can use too."""

    def bind(method: str, path: str, handler: IBuiltInHandler, does: str) -> Binding:
        statement, changes = f"{does} that the client began at the A2A front", method != "QUERY"
        # A front on loopback may demand nothing of its clients, so the handlers check the owner of a task by the
        # client.
        return Binding.native(method, path, handler, statement, Assurance.HEADER, changes=changes, server_level=True)

    one = f"{PATH}/{{task_id}}"
    return (
        bind("QUERY", PATH, ListOwnTasks(tasks), "List the tasks"),
        bind("QUERY", one, ReadTask(tasks), "Read a task"),
        bind("SUSPEND", one, WithdrawTask(tasks), "Cancel a task"),
    )
