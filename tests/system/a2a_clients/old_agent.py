"""An agent on the official SDK 0.3: prints its port, then serves until killed; ``ask`` asks, other words come back."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_task


class Executor(AgentExecutor):
    """Answers with what it was sent."""

    async def execute(self, context: Any, queue: Any) -> None:
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        words = context.get_user_input()
        parts = [Part(root=TextPart(text=words))]
        if words == "ask":
            await updater.requires_input(updater.new_agent_message(parts))
            return
        await updater.add_artifact(parts, artifact_id="answer")
        await updater.complete()

    async def cancel(self, context: Any, queue: Any) -> None:
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    card = AgentCard(
        name="old",
        description="Echoes",
        version="1",
        url=f"http://127.0.0.1:{port}/rpc",
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Echoes", tags=["test"])],
    )
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Executor(),
        InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx_client=httpx.AsyncClient(), config_store=configs),
    )
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build(rpc_url="/rpc")
    print(port, flush=True)
    listener.listen(64)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
