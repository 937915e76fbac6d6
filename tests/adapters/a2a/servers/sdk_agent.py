"""
An A2A agent on the official SDK: prints its port, then serves until it is killed.

What it does is in the text it gets: ``echo WORDS``, ``ask`` (wants input), ``stream`` (three artifacts), ``slow``
(until cancelled), ``break`` (dies in the middle), ``fail``, ``reject``, ``auth``, ``say WORDS`` (a message, no task),
``metadata`` (what it was told).
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Does what the text says."""

    async def execute(self, context: Any, queue: Any) -> None:
        word, _, rest = context.get_user_input().partition(" ")
        if word == "say":
            await queue.enqueue_event(new_text_message(rest, context_id=context.context_id))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        await updater.start_work()
        if word == "ask":
            wanted = updater.new_agent_message([new_text_part("which colour?")])
            await updater.requires_input(wanted)
        elif word == "fail":
            await updater.failed(updater.new_agent_message([new_text_part("it broke")]))
        elif word == "reject":
            await updater.reject(updater.new_agent_message([new_text_part("not my job")]))
        elif word == "auth":
            await updater.requires_auth(updater.new_agent_message([new_text_part("log in")]))
        elif word == "break":
            await updater.add_artifact([new_text_part("one")], artifact_id="answer")
            raise RuntimeError("the executor died")
        elif word == "slow":
            await asyncio.sleep(60)
        else:
            texts = ["one", "two", "three"] if word == "stream" else [rest]
            if word == "metadata":
                told = {"request": dict(context.metadata), "message": MessageToDict(context.message.metadata)}
                texts = [json.dumps(told)]
            for number, text in enumerate(texts):
                await updater.add_artifact(
                    [new_text_part(text)], artifact_id="answer", append=number > 0, last_chunk=number == len(texts) - 1
                )
            await updater.complete()

    async def cancel(self, context: Any, queue: Any) -> None:
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def main(style: str) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    bindings = {"jsonrpc": [("JSONRPC", "1.0")], "rest": [("HTTP+JSON", "1.0")], "old": [("JSONRPC", "0.3")]}[style]
    card = AgentCard(
        name="helper",
        description="Repeats what it hears",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}/rpc", protocol_binding=binding, protocol_version=version)
            for binding, version in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats", tags=["test"])],
    )
    handler = DefaultRequestHandler(
        agent_executor=Executor(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    routes = list(create_agent_card_routes(card))
    if style == "rest":
        routes += create_rest_routes(handler, path_prefix="/rpc")
    else:
        routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=style == "old")
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    print(port, flush=True)
    listener.listen(64)
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main(sys.argv[1])
