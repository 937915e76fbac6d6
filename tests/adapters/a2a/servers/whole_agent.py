"""
An A2A agent on the official SDK that shows everything that A2A has: prints its port, then serves until it is killed.

What it does is in the first word that it gets: ``echo``, ``parts`` (every kind of part), ``told`` (what it was told),
``chunks``, ``ask``, ``auth``, ``fail``, ``reject``, ``say`` (a message and no task), ``raise``, ``burst`` (raises in
the middle of a stream), ``hold NAME`` (works until ``open NAME`` is said, or it is cancelled), ``stubborn NAME`` (the
same, and refuses to be cancelled).
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import defaultdict
from typing import Any

import httpx
import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentProvider, AgentSkill, Part
from a2a.utils.errors import ContentTypeNotSupportedError, TaskNotCancelableError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Does what the first word says."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.stubborn: set[str] = set()

    async def execute(self, context: Any, queue: Any) -> None:
        word, _, rest = context.get_user_input().partition(" ")
        if word == "say":
            await queue.enqueue_event(new_text_message(rest, context_id=context.context_id))
            return
        if word == "raise":
            raise ContentTypeNotSupportedError("not that")
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([new_text_part("working")]))
        await getattr(self, f"do_{word}", self.do_echo)(context, updater, rest)

    async def do_echo(self, context: Any, updater: Any, rest: str) -> None:
        await updater.add_artifact([new_text_part(rest)], artifact_id="answer", name="answer", metadata={"n": 1})
        await updater.complete()

    async def do_parts(self, context: Any, updater: Any, rest: str) -> None:
        data = ParseDict({"key": ["value", 1.5, None, True], "inner": {}}, Value())
        given = [Part.FromString(part.SerializeToString()) for part in context.message.parts]
        made = [
            Part(text="text", metadata={"lang": "en"}),
            Part(raw=b"\x00\xff", media_type="application/octet-stream", filename="f.bin"),
            Part(url="https://example.com/f", media_type="text/plain", filename="f.txt"),
            Part(data=data),
        ]
        await updater.add_artifact(given, artifact_id="given", extensions=["https://example.com/ext"])
        await updater.add_artifact(made, artifact_id="made", name="made", metadata={"deep": {"er": [1]}})
        await updater.complete(updater.new_agent_message(made))

    async def do_told(self, context: Any, updater: Any, rest: str) -> None:
        told = {
            "request": dict(context.metadata),
            "message": MessageToDict(context.message.metadata),
            "extensions": sorted(context.requested_extensions),
            "references": len(context.message.reference_task_ids),
        }
        await updater.add_artifact([new_text_part(json.dumps(told, sort_keys=True))], artifact_id="told")
        await updater.complete()

    async def do_chunks(self, context: Any, updater: Any, rest: str) -> None:
        for number, text in enumerate(("one ", "two ", "three")):
            await updater.add_artifact(
                [new_text_part(text)], artifact_id="answer", append=number > 0, last_chunk=number == 2
            )
        await updater.add_artifact([new_text_part("replaced")], artifact_id="answer")
        await updater.complete()

    async def do_ask(self, context: Any, updater: Any, rest: str) -> None:
        await updater.requires_input(updater.new_agent_message([new_text_part("which colour?")]))

    async def do_auth(self, context: Any, updater: Any, rest: str) -> None:
        await updater.requires_auth(updater.new_agent_message([new_text_part("log in")]))

    async def do_fail(self, context: Any, updater: Any, rest: str) -> None:
        await updater.failed(updater.new_agent_message([new_text_part("it broke")]))

    async def do_reject(self, context: Any, updater: Any, rest: str) -> None:
        await updater.reject(updater.new_agent_message([new_text_part("not my job")]))

    async def do_burst(self, context: Any, updater: Any, rest: str) -> None:
        await updater.add_artifact([new_text_part("one")], artifact_id="answer")
        raise ContentTypeNotSupportedError("in the middle")

    async def do_hold(self, context: Any, updater: Any, rest: str) -> None:
        await self.gates[rest].wait()
        await updater.add_artifact([new_text_part("released")], artifact_id="answer")
        await updater.complete()

    async def do_stubborn(self, context: Any, updater: Any, rest: str) -> None:
        self.stubborn.add(updater.task_id)
        await self.do_hold(context, updater, rest)

    async def do_open(self, context: Any, updater: Any, rest: str) -> None:
        self.gates[rest].set()
        await updater.complete()

    async def cancel(self, context: Any, queue: Any) -> None:
        if context.task_id in self.stubborn:
            raise TaskNotCancelableError
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def card_of(port: int, description: str, *, plain: bool) -> AgentCard:
    """The card; ``plain`` is of an agent that has neither streams nor push nor an extended card."""
    return AgentCard(
        name="whole",
        description=description,
        version="2.1.0",
        provider=AgentProvider(organization="Example", url="https://example.com"),
        documentation_url="https://example.com/docs",
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=f"http://127.0.0.1:{port}/rpc", protocol_binding="HTTP+JSON", protocol_version="1.0"),
        ],
        capabilities=AgentCapabilities(
            streaming=not plain, push_notifications=not plain, extended_agent_card=not plain
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="all", name="All", description="Shows everything", tags=["test"], examples=["echo x"])],
    )


def main(style: str) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    card = card_of(port, "Shows everything that A2A has", plain=style == "plain")
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Executor(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx_client=httpx.AsyncClient(), config_store=configs),
        extended_agent_card=card_of(port, "Shows even more", plain=style == "plain"),
    )
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix="/rpc"),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    print(port, flush=True)
    listener.listen(64)
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main(sys.argv[1])
