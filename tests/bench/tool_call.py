"""
What the host adds to an MCP tool call: the same stdio server called directly, and through the host.

One connection, one call at a time, interleaved rounds; the difference of the medians is what the host costs. It is
called directly by three clients: the host's own peer, the official SDK's client, and the barest one there is.
"""

from __future__ import annotations

import json
import os
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests import forking
from tests.bench import direct_calls
from tests.bench.direct_calls import ARGUMENTS, TOOL
from tests.bench.load import Client, client_context, run
from tests.system.hosting import Host

ROOT = Path(__file__).resolve().parents[2]


class Direct:
    """The barest client of a stdio server: one line out, one line in."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            direct_calls.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _ask(self, method: str, params: dict[str, object]) -> dict[str, object]:
        assert self.process.stdout is not None
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                return dict(answer["result"])

    def call(self) -> None:
        assert not self._ask("tools/call", {"name": TOOL, "arguments": ARGUMENTS}).get("isError")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def execute() -> bytes:
    """The same call as a request of AGTP."""
    body = json.dumps(
        {
            "parameters": {
                "action": "mcp.tools.call",
                "payload_type": "application/vnd.mcp.tools+json",
                "payload": {"tool": f"files.{TOOL}", "arguments": ARGUMENTS},
            }
        }
    ).encode()
    head = b"AGTP/1.0 EXECUTE /\r\nContent-Type: application/vnd.agtp+json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


def caller(host: Host) -> ssl.SSLContext:
    """The sample's agent ``demo``."""
    demo = host.state / "agents" / "demo"
    return client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")


class ThroughHost:
    """The same call as EXECUTE over TLS."""

    def __init__(self, host: Host) -> None:
        self._client = Client(("127.0.0.1", host.port), caller(host), execute)

    def call(self) -> None:
        self._client.send()
        answer = None
        while answer is None:
            answer = self._client.receive()
        assert answer.startswith(b"AGTP/1.0 200"), answer[:300]


class Elsewhere:
    """A client in a process of its own, which times itself: see :mod:`tests.bench.direct_calls`."""

    def __init__(self, kind: str) -> None:
        imported = {"peer": forking.product, "sdk": forking.mcp_sdk}[kind]()
        command = forking.launched(imported, direct_calls.__file__, kind)
        environ = {**os.environ, **forking.shared(), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)

    def timed(self, times: int) -> list[float]:
        """Seconds of each of so many calls."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"%d\n" % times)
        self.process.stdin.flush()
        return [float(taken) for taken in json.loads(self.process.stdout.readline())]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def timed(call: Callable[[], None], times: int) -> list[float]:
    """Seconds of each of so many calls."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return taken


def compare(host: Host, *, rounds: int = 5, calls: int = 100) -> dict[str, float]:
    """Medians in milliseconds, and what the host adds to a call of its own peer."""
    bare, through = Direct(), ThroughHost(host)
    peer, sdk = Elsewhere("peer"), Elsewhere("sdk")
    ways = {
        "peer": peer.timed,
        "sdk": sdk.timed,
        "bare": partial(timed, bare.call),
        "through": partial(timed, through.call),
    }
    figures: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for way in ways.values():
            way(20)
        for _ in range(rounds):
            for name, way in ways.items():
                figures[name] += way(calls)
    finally:
        for client in (bare, peer, sdk):
            client.close()
    medians = {name: statistics.median(values) * 1000 for name, values in figures.items()}
    through_ms = medians["through"]
    return {
        "direct_ms": round(medians["peer"], 3),
        "direct_sdk_client_ms": round(medians["sdk"], 3),
        "direct_bare_client_ms": round(medians["bare"], 3),
        "through_host_ms": round(through_ms, 3),
        "added_ms": round(through_ms - medians["peer"], 3),
        "ratio": round(through_ms / medians["peer"], 2),
        "ratio_to_sdk_client": round(through_ms / medians["sdk"], 2),
        "added_to_bare_client_ms": round(through_ms - medians["bare"], 3),
    }


def processor(host: Host, connections: int = 16, *, rounds: int = 5, seconds: float = 2.0) -> dict[str, float]:
    """
    Microseconds of the host's CPU a call, by thread, of the cheapest round.

    Neither what the child takes is in it, nor the handshakes of the connections, which last for one round each.
    """
    found, marks = [], list[dict[str, float]]()
    # What is made once, such as the child, is made by then.
    for _ in range(10):
        ThroughHost(host).call()
    for _ in range(rounds):
        tally = run(
            ("127.0.0.1", host.port),
            caller(host),
            execute,
            connections=connections,
            seconds=seconds,
            good=b"AGTP/1.0 200",
            mark=lambda: marks.append(_spent(host)),
        )
        assert tally.requests and not tally.bad, tally.example
        before, after = marks[-2:]
        found.append({name: (after[name] - before.get(name, 0.0)) / tally.requests for name in after})
    cheapest = min(found, key=lambda threads: sum(threads.values()))
    reactor = cheapest[str(host.process.pid)]
    all_threads = sum(cheapest.values())
    return {
        "connections": connections,
        "reactor_us": round(reactor, 1),
        "other_threads_us": round(all_threads - reactor, 1),
        "us_per_call": round(all_threads, 1),
    }


def _spent(host: Host) -> dict[str, float]:
    """Microseconds of CPU by thread, so far; the reactor's has the number of the process."""
    tasks = Path(f"/proc/{host.process.pid}/task")
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1000 for task in tasks.iterdir()}


def idle_memory(host: Host, connections: int = 1000) -> dict[str, float]:
    """Resident memory per idle mTLS connection, in KiB, the second wave's as well as the first's."""
    demo = host.state / "agents" / "demo"
    context = client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    before = resident(host)
    held = [Client(("127.0.0.1", host.port), context, lambda: b"") for _ in range(connections)]
    time.sleep(0.5)
    after = resident(host)
    for client in held:
        client.tls.close()
    return {"connections": connections, "kib_per_idle_connection": round((after - before) / connections / 1024, 1)}


def resident(host: Host) -> int:
    """Octets of resident memory of the host's own process."""
    for line in Path(f"/proc/{host.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the host is gone")
