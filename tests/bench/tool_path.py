"""
What one tool call costs between the wire and the ledger: gates, dispatcher and MCP adapter of a host, in one thread.

The child is played by this process, at the other end of a real pipe, and answers when it is told to; what it does is
not counted. ``python -m tests.bench.tool_path`` tells the microseconds of CPU a call and its function calls, those of
built-ins included. The latter repeat whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from cProfile import Profile
from dataclasses import replace
from types import TracebackType
from typing import Any

from agtphost.identity.peer import Peer
from agtphost.protocols.coroutines import drive
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Common
from tests.memory import OpenHost, request_of

TOOL = {
    "name": "list_files",
    "description": "Lists a folder.",
    "inputSchema": {"type": "object", "properties": {"folder": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"result": {"type": "array", "items": {"type": "string"}}}},
    "annotations": {"readOnlyHint": True},
}
FILES = ["a.txt", "b.txt", "notes.md"]
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "played", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {
        "content": [{"type": "text", "text": "\n".join(FILES)}],
        "structuredContent": {"result": FILES},
        "isError": False,
    },
}
BODY = {
    "parameters": {
        "action": "mcp.tools.call",
        "payload_type": "application/vnd.mcp.tools+json",
        "payload": {"tool": "files.list_files", "arguments": {"folder": "."}},
    }
}


STATELESS = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
"""What a server of the stateless era discloses; the host then subscribes to changes of its list."""


class PlayedChild:
    """
    What a spawned process is to its link; its standard input is a pipe that is read here.

    :param stateless: whether it speaks the stateless era, which the host prefers.
    """

    pid = 1

    def __init__(self, *, stateless: bool = False) -> None:
        self._results = {**ANSWERS, "server/discover": STATELESS} if stateless else ANSWERS
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.pipes = {0: self}
        self.link: Any = None

    def fileno(self) -> int:
        return self._writing

    def spawn(self, link: Any, *_: object, **__: object) -> PlayedChild:
        """See :meth:`twisted.internet.interfaces.IReactorProcess.spawnProcess`."""
        self.link = link
        return self

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def answers(self) -> list[bytes]:
        """To everything that was written to it, a line each."""
        try:
            written = os.read(self._reading, 1 << 20)
        except BlockingIOError:
            return []
        asked = [json.loads(line) for line in written.splitlines()]
        return [self.answer(each) for each in asked if "id" in each and each["method"] != "subscriptions/listen"]

    def answer(self, asked: dict[str, Any]) -> bytes:
        """To one request."""
        result = self._results.get(asked["method"])
        known = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        answer = {"jsonrpc": "2.0", "id": asked["id"], **known}
        return json.dumps(answer, separators=(",", ":")).encode() + b"\n"  # As the SDKs write it.

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


class ToolPath:
    """
    A host in memory with one MCP server, up.

    :param stateless: see :class:`PlayedChild`.
    """

    settings: Mapping[str, Any] = {}
    """More of its configuration."""

    environ: Mapping[str, str] = {}

    def __init__(self, *, stateless: bool = False) -> None:
        self._child = PlayedChild(stateless=stateless)
        server = {"name": "files", "command": ["/bin/sh"], "cwd": "/", "min_assurance": "gateway"}
        settings = {**self.settings, "mcp": {"server": [server], **self.settings.get("mcp", {})}}
        self._host = OpenHost(settings, environ=self.environ)
        self._host.clock.spawnProcess = self._child.spawn  # type: ignore[attr-defined]
        self._caller = caller = self._host.agent("caller", scopes=["mcp:tools:execute"])
        self._peer = Peer(address="127.0.0.1", certificate=caller.certificate)
        self._answered: list[Response] = []
        self._call = request_of("EXECUTE", "/", BODY)
        self._call.headers.common = Common()
        served = self._host.core.connected.mcp.servers["files"]  # type: ignore[attr-defined]
        served.startService()
        for _ in range(100):
            self._host.clock.settle()
            for line in self._child.answers():
                self._child.link.outReceived(line)
        assert served.state.value == "up", served.snapshot()

    def __enter__(self) -> ToolPath:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, where: TracebackType | None) -> None:
        self._child.close()

    def requests(self, count: int) -> list[Any]:
        """So many calls that begin at once, with the one head that a connection keeps for a client's requests."""
        return [replace(self._call) for _ in range(count)]

    def statuses(self, count: int) -> list[int]:
        """Of their answers."""
        return [response.status for response in self._answered]

    async def _ask(self, request: Request) -> None:
        self._answered.append(await self._host.dispatcher.dispatch(request, self._peer))

    def _begin(self, requests: list[Any]) -> None:
        for request in requests:
            drive(self._ask(request))
        self._host.clock.advance(0)

    def _end(self, lines: list[bytes]) -> None:
        for line in lines:
            self._child.link.outReceived(line)
        self._host.clock.advance(0)

    def calls(self, count: int, profile: Profile | None = None) -> float:
        """
        So many at once.

        :param profile: takes what the host does.
        :return: seconds of CPU of each.
        """
        requests = self.requests(count)
        spent = 0.0
        for step, what in ((self._begin, lambda: requests), (self._end, self._child.answers)):
            given: Any = what()
            assert len(given) == count
            if profile is not None:
                profile.enable()
            began = time.thread_time()
            step(given)
            spent += time.thread_time() - began
            if profile is not None:
                profile.disable()
        assert self.statuses(count) == [200] * count, self._answered[:1]
        self._answered.clear()
        self._host.ledger.drafts.clear()
        return spent / count

    def bodies(self, count: int) -> list[bytes]:
        """Of the answers to so many calls."""
        self._begin(self.requests(count))
        self._end(self._child.answers())
        return [response.body for response in self._answered]

    def function_calls(self, times: int = 10, at_once: int = 8) -> float:
        """Of each tool call."""
        for _ in range(5):
            self.calls(at_once)
        profile = Profile()
        for _ in range(times):
            self.calls(at_once, profile)
        # Not by pstats, which counts one of all functions that were generated on one line, as those of dataclasses are.
        counted: int = sum(entry.callcount for entry in profile.getstats())
        return counted / times / at_once


def main() -> None:
    with ToolPath() as path:
        counted = path.function_calls()
        for at_once in (1, 8):
            best = min(path.calls(at_once) for _ in range(2000 // at_once))
            sys.stdout.write(f"{at_once} at once: {best * 1e6:.1f} us of CPU a call\n")
        sys.stdout.write(f"{counted:.0f} function calls a call\n")


if __name__ == "__main__":
    main()
