"""
An ACP server on the SDK with the agents ``echo``, ``ask``, ``slow`` and ``broken``: prints its port, then serves.

It runs in an environment of its own, so it imports nothing of the tests.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from acp_sdk.models import Message, MessageAwaitRequest, MessagePart
from acp_sdk.server import Context, agent, create_app


def words(messages: list[Message]) -> str:
    return " ".join(str(message) for message in messages)


@agent()
async def echo(input: list[Message], context: Context) -> AsyncIterator[Any]:
    """Repeats what it hears, word by word."""
    for word in words(input).split():
        yield MessagePart(content=f"{word} ")


@agent()
async def ask(input: list[Message], context: Context) -> AsyncIterator[Any]:
    """Asks for a colour, and tells it."""
    answer = yield MessageAwaitRequest(message=Message(role="agent", parts=[MessagePart(content="which colour?")]))
    yield MessagePart(content=f"it is {answer.message}")


@agent()
async def slow(input: list[Message], context: Context) -> AsyncIterator[Any]:
    """Takes a minute."""
    await asyncio.sleep(60)
    yield MessagePart(content="done")


@agent()
async def broken(input: list[Message], context: Context) -> AsyncIterator[Any]:
    """Fails."""
    yield MessagePart(content="so far")
    raise RuntimeError("it broke")


def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    listener.listen(64)
    app = create_app(echo, ask, slow, broken)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
