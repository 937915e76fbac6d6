"""Servers under supervision, for the tests: started, awaited, always ended."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred

from agtphost.adapters.mcp import McpServer, UpstreamState
from agtphost.config.upstreams import MCPServerSection
from agtphost.handlers.built_in import BuiltInContext
from tests import forking

SERVERS = Path(__file__).with_name("servers")
HOSTILE = (sys.executable, "-S", str(SERVERS / "hostile.py"))
ENVIRON = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}


def pause(seconds: float) -> Deferred[None]:
    """Let the reactor run."""
    return task.deferLater(reactor, seconds)


async def until(condition: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
    """Wait for a condition; fails the test when it does not come true in time."""
    deadline = reactor.seconds() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert reactor.seconds() < deadline, what or "the condition did not come true"
        await pause(0.01)


async def history(server: McpServer) -> list[str]:
    """What the tool ``sleep`` of the server on the official SDK has noted."""
    found = await server.call_tool("history", {}, {}, 60.0)
    return [item["text"] for item in found["content"]]


async def heard(what: str, ask: Callable[[], Awaitable[list[str]]], seconds: float = 60.0) -> list[str]:
    """What another process has noted, once this is among it."""
    deadline = reactor.seconds() + seconds
    while what not in (noted := await ask()):
        assert reactor.seconds() < deadline, f"{what} is not among {noted}"
        await pause(0.01)
    return noted


@asynccontextmanager
async def hosted(
    command: tuple[str, ...] = (), *, wait: bool = True, environ: Mapping[str, str] = ENVIRON, **settings: Any
) -> AsyncIterator[McpServer]:
    """A supervised server, up unless ``wait`` is False; ended when the block is left."""
    settings.setdefault("name", "srv")
    server = McpServer(reactor, MCPServerSection(command=command, **settings), environ)
    server.startService()
    try:
        if wait:
            await until(lambda: server.state is UpstreamState.UP, 60, f"not up: {server.snapshot()}")
        yield server
    finally:
        await server.stopService()


def sdk(*words: str) -> tuple[str, ...]:
    """The command of the server on the official SDK."""
    return tuple(forking.mcp_server(SERVERS / "sdk_server.py", *words))


def hostile(fault: str = "none", *arguments: object) -> tuple[str, ...]:
    """The command of the misbehaving server."""
    return (*HOSTILE, fault, *map(str, arguments))


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def context(arguments: Mapping[str, Any] | None = None, **members: Any) -> BuiltInContext:
    """What a handler gets, of a call that passed every gate."""
    members.setdefault("admits", lambda binding: True)
    return BuiltInContext(input=arguments or {}, method="EXECUTE", path="/", **members)
