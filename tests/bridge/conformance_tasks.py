"""The tasks extension of the fixture server: tools that go on after they have answered."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

Context = ServerRequestContext[Any, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
COMPLETE = {"resultType": "complete"}


class TaskParams(types.RequestParams):
    """Parameters of ``tasks/*``."""

    model_config = ConfigDict(extra="allow")


def now() -> str:
    """The time, as tasks have it."""
    return datetime.now(UTC).isoformat()


def text(said: str) -> dict[str, Any]:
    """A result of one text."""
    return {"content": [{"type": "text", "text": said}]}


class Task:
    """One task."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(16)
        self.status = "working"
        self.created = now()
        self.more: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.answered = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    def seen(self) -> dict[str, Any]:
        """What ``tasks/get`` says."""
        seen = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": now(),
            "ttlMs": 600_000,
            "pollIntervalMs": 100,
            **self.more,
        }
        return {**seen, "inputRequests": self.asked} if self.asked else seen

    async def ask(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for what is wanted."""
        self.asked, self.status = dict(wanted), "input_required"
        await self.answered.wait()
        self.status = "working"
        return self.answers

    async def run(self, work: Awaitable[dict[str, Any]]) -> None:
        """Until there is a result."""
        try:
            self.more = {"result": {**COMPLETE, **await work}}
            self.status = "completed"
        except MCPError as error:
            self.status, self.more = "failed", {"error": {"code": error.code, "message": error.message}}
        except asyncio.CancelledError:
            self.status, self.asked = "cancelled", {}


TASKS: dict[str, Task] = {}

Work = Callable[[Task, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def declared(context: Context) -> bool:
    """Whether the client knows tasks."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def missing() -> MCPError:
    """The client does not."""
    needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs the tasks extension.", needed)


async def started(context: Context, work: Work, arguments: Mapping[str, Any], *, required: bool = False) -> Any:
    """A task, or for a client that does not know them the result."""
    task = Task()
    if not declared(context):
        if required:
            raise missing()
        return {**COMPLETE, **await work(task, arguments)}
    TASKS[task.id] = task
    task.running = asyncio.create_task(task.run(work(task, arguments)))
    return {"resultType": "task", **task.seen()}


async def slow_compute(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sleeps for a number of seconds"""
    await asyncio.sleep(float(arguments.get("seconds", 0)))
    return text("computed")


async def failing_job(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Always a tool error"""
    await asyncio.sleep(1)
    return {**text("the job failed"), "isError": True}


async def protocol_error_job(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Always an error of the protocol"""
    raise MCPError(types.INTERNAL_ERROR, "the job broke")


def question(name: str) -> dict[str, Any]:
    """A form of one field."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    return {"method": "elicitation/create", "params": {"message": f"{name}?", "requestedSchema": schema}}


async def confirm_delete(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Asks one thing"""
    return text(str(await task.ask({"confirm": question("confirm")})))


async def multi_input(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Asks two things"""
    return text(str(await task.ask({"first": question("first"), "second": question("second")})))


WORKS: dict[str, Work] = {
    work.__name__: work for work in (slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input)
}


def task_of(context: Context) -> Task:
    """The task that a request names."""
    if not declared(context):
        raise missing()
    found = TASKS.get((context.params or {}).get("taskId", ""))
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Unknown task.")
    return found


async def get(context: Context, _: TaskParams) -> dict[str, Any]:
    """``tasks/get``."""
    return {**COMPLETE, **task_of(context).seen()}


async def update(context: Context, _: TaskParams) -> dict[str, Any]:
    """``tasks/update``."""
    task = task_of(context)
    for name, answer in ((context.params or {}).get("inputResponses") or {}).items():
        if task.asked.pop(name, None) is not None:
            task.answers[name] = answer
    if not task.asked:
        task.answered.set()
    return dict(COMPLETE)


async def cancel(context: Context, _: TaskParams) -> dict[str, Any]:
    """``tasks/cancel``."""
    task = task_of(context)
    if task.running is not None and not task.running.done():
        task.running.cancel()
        await asyncio.wait([task.running])
    return dict(COMPLETE)


HANDLERS = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}
