"""A client of a stdio server with nothing around it: one line goes out for each that comes back."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType

from tests.bench.direct_calls import ARGUMENTS, TOOL
from tests.bench.load import Tally
from tests.bench.mcp_requests import CLIENT


class PipeClient:
    """
    Starts a server of MCP on core 0 and calls one tool of it.

    :param command: of the server.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["taskset", "-c", "0", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._numbers = itertools.count(1)
        self._rest = b""

    def __enter__(self) -> PipeClient:
        self._write("initialize", CLIENT)
        assert b'"result"' in self._lines()[0]
        os.write(self._input, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def load(self, calls: int, seconds: float) -> Tally:
        """Call the tool for some seconds, with so many calls at a time."""
        tally = Tally()
        begun, started = time.perf_counter(), dict[int, float]()
        until = begun + seconds
        for _ in range(calls):
            started[self._call()] = time.perf_counter()
        while started:
            for line in self._lines():
                answer, now = json.loads(line), time.perf_counter()
                if answer.get("id") not in started:
                    continue  # a notification
                tally.latencies.append(now - started.pop(answer["id"]))
                tally.requests += 1
                if "result" not in answer or answer["result"].get("isError"):
                    tally.bad += 1
                    tally.example = line
                if now < until:
                    started[self._call()] = now
        tally.seconds = time.perf_counter() - begun
        return tally

    def _call(self) -> int:
        return self._write("tools/call", {"name": TOOL, "arguments": ARGUMENTS})

    def _write(self, method: str, params: object) -> int:
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(self._input, json.dumps(message).encode() + b"\n")
        return number

    def _lines(self) -> list[bytes]:
        """Return the next whole lines; it polls, as :mod:`tests.bench.load` does."""
        while True:
            while not select.select([self._output], [], [], 0)[0]:
                pass
            octets = os.read(self._output, 1 << 16)
            assert octets, "the server has ended"
            *lines, self._rest = (self._rest + octets).split(b"\n")
            if lines:
                return lines
