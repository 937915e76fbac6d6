"""
Speed as ratios, measured in one run: ``python -m tests.bench.measurement``.

One core serves, the other loads. What is compared is requests per second of
the server's own CPU time, in interleaved rounds, so that a machine that is
shared or slow moves all figures together.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.bench.load import Tally, client_context, run
from tests.bench.tool_call import compare, idle_memory, processor
from tests.system.gateways import TOKEN, with_gateway
from tests.system.hosting import Host, free_port, running

BENCH = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")


def pin(core: int) -> None:
    """Keep this process on one core, where there is more than one."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, its threads included, its children not."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def measured(pid: int, load: Callable[[], Tally]) -> tuple[Tally, float]:
    """A round, and the server's CPU seconds in it."""
    before = cpu_seconds(pid)
    tally = load()
    return tally, cpu_seconds(pid) - before


@contextmanager
def helper(*words: str, port: int = 0) -> Iterator[tuple[int, int]]:
    """A server process of the comparison on core 0; its port and pid."""
    process = subprocess.Popen(
        ["taskset", "-c", "0", sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        if not port:
            assert process.stdout is not None
            port = int(process.stdout.readline())
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert time.monotonic() < end, "a server of the comparison did not start"
                time.sleep(0.1)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def agtp_request(agent_id: str) -> bytes:
    """The measured call: a registered function with schemas, as an identified agent with a task."""
    body = json.dumps({"parameters": {"text": "the quick brown fox"}}, separators=(",", ":")).encode()
    head = (
        f"AGTP/1.0 ECHO /text\r\nAgent-ID: {agent_id}\r\nAuthority-Scope: documents:query\r\n"
        f"Task-ID: task-0042\r\nSession-ID: sess-a1b2c3d4\r\nContent-Type: application/vnd.agtp+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def gateway_request(port: int) -> bytes:
    """The same call as HTTP clients make it, with a key that is the same agent."""
    body = json.dumps({"parameters": {"text": "the quick brown fox"}}, separators=(",", ":")).encode()
    head = (
        f"ECHO /text HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Task-ID: task-0042\r\nSession-ID: sess-http-a1b2c3d4\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def mcp_request(port: int) -> bytes:
    """A stateless tools/call of the official SDK's server."""
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}}
    ).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def mcp_request_2026(port: int) -> bytes:
    """The same in the revision 2026-07-28, which is stateless by itself: the mode in which that server is fastest."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def fsync_probe(directory: Path) -> float:
    """Median seconds of a small write with fdatasync on the store's disk, in the same run."""
    times = []
    with (directory / "probe").open("wb") as stream:
        for _ in range(200):
            begun = time.perf_counter()
            stream.write(b"x" * 4096)
            stream.flush()
            os.fdatasync(stream.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


class Figures:
    """Rounds of one subject."""

    def __init__(self) -> None:
        self.per_cpu: list[float] = []
        self.rates: list[float] = []
        self.p50: list[float] = []
        self.p99: list[float] = []

    def add(self, tally: Tally, cpu: float) -> None:
        wrong = f"{tally.bad} of {tally.requests} answers were not the expected ones, such as {tally.example!r}"
        assert tally.bad == 0, wrong
        self.per_cpu.append(tally.requests / cpu)
        self.rates.append(tally.rate)
        self.p50.append(tally.percentile(0.5))
        self.p99.append(tally.percentile(0.99))

    def summary(self) -> dict[str, float]:
        return {
            "requests_per_cpu_second": round(statistics.median(self.per_cpu)),
            "requests_per_second": round(statistics.median(self.rates)),
            "p50_ms": round(statistics.median(self.p50) * 1000, 3),
            "p99_ms": round(statistics.median(self.p99) * 1000, 3),
        }


def bench(seconds: float, rounds: int, only: str | None) -> dict[str, object]:
    pin(1)
    with tempfile.TemporaryDirectory() as temporary:
        config, gateway = with_gateway(Path(temporary), kind="ssl")
        with running(config, prefix=("taskset", "-c", "0")) as host:
            figures = _compare(host, gateway, seconds, rounds, only)
            figures["mcp_tool_call"] = compare(host)
            figures["mcp_tool_call_cpu"] = processor(host)
            figures["memory"] = idle_memory(host)
            return figures


def _compare(host: Host, gateway: int, seconds: float, rounds: int, only: str | None) -> dict[str, object]:
    state = host.state
    demo = state / "agents" / "demo"
    agent_id = json.loads((demo / "document.json").read_text())["agent_id"]
    authenticated = client_context(state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    anonymous = client_context(state / "ca.pem")
    request = agtp_request(agent_id)
    size = len(_one(host.port, authenticated, request))
    material = (str(state / "server.pem"), str(state / "server.key"))
    mcp_port = free_port()
    mcp = mcp_request(mcp_port)
    subjects: dict[str, Figures] = {}
    with (
        helper(str(BENCH / "bare_twisted.py"), *material, str(size)) as bare,
        helper(str(BENCH / "mcp_sdk_server.py"), *material, str(mcp_port), port=mcp_port) as sdk,
    ):
        for _ in range(rounds):
            for connections in (1, 16, 64):
                for name, port, pid, context, octets, good in (
                    ("agtphost", host.port, host.process.pid, authenticated, request, b"AGTP/1.0 200"),
                    ("gateway", gateway, host.process.pid, anonymous, gateway_request(gateway), b"HTTP/1.1 200"),
                    ("bare", bare[0], bare[1], anonymous, request, b"AGTP/1.0 200"),
                    ("mcp_sdk", sdk[0], sdk[1], anonymous, mcp, b"HTTP/1.1 200"),
                    ("mcp_sdk_2026", sdk[0], sdk[1], anonymous, mcp_request_2026(mcp_port), b"HTTP/1.1 200"),
                ):
                    if only is not None and name not in (only, "bare", "agtphost"):
                        continue
                    tally, cpu = measured(
                        pid,
                        lambda port=port, context=context, octets=octets, connections=connections, good=good: run(
                            ("127.0.0.1", port),
                            context,
                            lambda: octets,
                            connections=connections,
                            seconds=seconds,
                            good=good,
                        ),
                    )
                    subjects.setdefault(f"{name}@{connections}", Figures()).add(tally, cpu)
    return _report({name: figures.summary() for name, figures in subjects.items()}, fsync_probe(state))


def _one(port: int, context: object, request: bytes) -> bytes:
    """One answer, for its size."""
    from tests.bench.load import Client

    client = Client(("127.0.0.1", port), context, lambda: request)  # type: ignore[arg-type]
    for _ in range(2):
        client.send()
        answer = None
        while answer is None:
            answer = client.receive()
    client.tls.close()
    assert answer is not None and answer.startswith(b"AGTP/1.0 200"), answer
    return answer


def _report(subjects: dict[str, dict[str, float]], fsync: float) -> dict[str, object]:
    ratios = {}
    for connections in (1, 16, 64):
        ours = subjects[f"agtphost@{connections}"]["requests_per_cpu_second"]
        for other in ("bare", "mcp_sdk"):
            theirs = subjects.get(f"{other}@{connections}")
            if theirs is not None:
                ratios[f"agtphost/{other} at {connections}"] = round(ours / theirs["requests_per_cpu_second"], 3)
        over_http, sdk = subjects.get(f"gateway@{connections}"), subjects.get(f"mcp_sdk_2026@{connections}")
        if over_http is not None and sdk is not None:
            per_cpu = over_http["requests_per_cpu_second"] / sdk["requests_per_cpu_second"]
            ratios[f"gateway/mcp_sdk_2026 at {connections}"] = round(per_cpu, 3)
    for name, prefix in (("agtphost", ""), ("gateway", "gateway ")):
        at_64 = subjects.get(f"{name}@64")
        if at_64 is not None:
            ratios[f"{prefix}p99/p50 at 64"] = round(at_64["p99_ms"] / at_64["p50_ms"], 2)
    return {"subjects": subjects, "ratios": ratios, "fdatasync_ms": round(fsync * 1000, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one round of one subject")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="one subject besides the bare responder")
    given = parser.parse_args()
    print(json.dumps(bench(given.seconds, given.rounds, given.only), indent=2))


if __name__ == "__main__":
    main()
