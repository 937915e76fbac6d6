"""
How long clients wait, in the host's own processor time: ``python -m tests.bench.waiting``.

What a client waits for on a machine with neighbours is mostly those. Here a request's latency is what the host's
process has used of the processor between sending it and having its answer: what it did for the others meanwhile, and
what held all of them up. Calls over AGTP, the gateway and the MCP front, and conditional requests for what is there
already.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.bench import load, mcp_requests
from tests.bench.load import answer_to, client_context, run
from tests.bench.measurement import agtp_request, gateway_request, pin
from tests.system.fronting import front
from tests.system.gateways import TOKEN, with_gateway
from tests.system.hosting import Host, free_port, running

CPUCLOCK_SCHED = 2


def clock_of(pid: int) -> int:
    """The clock that counts what a process uses of the processor, all of its threads together."""
    return (~pid << 3) | CPUCLOCK_SCHED


def got(port: int, path: str, *fields: str) -> bytes:
    """A GET with the key of the gateway's client."""
    lines = (f"GET {path} HTTP/1.1", f"Host: localhost:{port}", f"Authorization: Bearer {TOKEN}", *fields, "", "")
    return "\r\n".join(lines).encode()


def again(port: int, context: ssl.SSLContext, path: str) -> bytes:
    """The GET that is answered 304."""
    head = answer_to(port, context, got(port, path)).partition(b"\r\n\r\n")[0]
    (tag,) = (line[5:].strip() for line in head.split(b"\r\n") if line.lower().startswith(b"etag:"))
    return got(port, path, f"If-None-Match: {tag.decode()}")


def subjects(host: Host, gateway: int, registry: int, mcp: int) -> dict[str, tuple[int, Any, bytes, bytes]]:
    """Port, TLS context, request and how its answer begins, by name."""
    demo = host.state / "agents" / "demo"
    agent_id = json.loads((demo / "document.json").read_text())["agent_id"]
    shown = client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    plain = client_context(host.state / "ca.pem")
    listed = json.loads(answer_to(registry, plain, got(registry, "/agents")).partition(b"\r\n\r\n")[2])["agents"]
    hosted = next(entry["id"] for entry in listed if entry["id"].startswith("agent:"))
    tool = mcp_requests.call(mcp, "echo_text", {"text": "the quick brown fox"}, f"Authorization: Bearer {TOKEN}")
    mcp_requests.check(mcp, plain, tool, b"the quick brown fox")
    document = f"/agents/{hosted.removeprefix('agent:')}"
    return {
        "AGTP": (host.port, shown, agtp_request(agent_id), b"AGTP/1.0 200"),
        "gateway": (gateway, plain, gateway_request(gateway), b"HTTP/1.1 200"),
        "front": (mcp, plain, tool, b"HTTP/1.1 200"),
        "304 of a card": (registry, plain, again(registry, plain, f"/agents/{hosted}"), b"HTTP/1.1 304"),
        "304 of an agent's document": (gateway, plain, again(gateway, plain, document), b"HTTP/1.1 304"),
        "304 of agis.json": (gateway, plain, again(gateway, plain, "/.well-known/agis.json"), b"HTTP/1.1 304"),
    }


def bench(seconds: float, rounds: int, connections: int) -> dict[str, dict[str, float]]:
    """Medians of interleaved rounds; ``seconds`` are the host's own as well."""
    figures: dict[str, list[tuple[float, float, float]]] = {}
    mcp, registry = free_port(), free_port()
    more = f'\n[registry]\nlisten = "ssl:{registry}:interface=127.0.0.1"\n{front(mcp, {}, secure=True)}'
    pin(1)
    with tempfile.TemporaryDirectory() as temporary:
        config, gateway = with_gateway(Path(temporary), kind="ssl", append=more)
        with running(config, prefix=("taskset", "-c", "0")) as host:
            asked = subjects(host, gateway, registry, mcp)
            clock = clock_of(host.process.pid)
            load.time = SimpleNamespace(perf_counter=lambda: time.clock_gettime(clock))  # type: ignore[assignment]
            for _ in range(rounds):
                for name, (port, context, octets, good) in asked.items():
                    tally = run(
                        ("127.0.0.1", port),
                        context,
                        lambda octets=octets: octets,  # type: ignore[misc]
                        connections=connections,
                        seconds=seconds,
                        good=good,
                    )
                    assert tally.bad == 0, tally.example
                    found = tally.seconds / tally.requests, tally.percentile(0.5), tally.percentile(0.99)
                    figures.setdefault(name, []).append(found)
    return {name: _summary(each) for name, each in figures.items()}


def _summary(rounds: list[tuple[float, float, float]]) -> dict[str, float]:
    each, median, slow = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {
        "us_a_request": round(each * 1e6),
        "p50_ms": round(median * 1000, 1),
        "p99_ms": round(slow * 1000, 1),
        "p99/p50": round(slow / median, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round of one subject")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    assert hasattr(os, "sched_setaffinity"), "this needs Linux"
    print(json.dumps(bench(given.seconds, given.rounds, given.connections), indent=2))


if __name__ == "__main__":
    main()
