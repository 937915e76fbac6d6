"""
Registrations of cards per second of the server's own CPU, and what ten thousand of them take of its memory.

``python -m tests.bench.registration`` registers over 64 connections, says how fast, kills the host with SIGKILL in the
middle, starts it again, and counts that nothing is gone that was acknowledged.
"""

from __future__ import annotations

import json
import sys
import tempfile
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.bench.load import Client, client_context, run
from tests.bench.measurement import measured, pin
from tests.registry.hosts import card
from tests.system.hosting import Host, running, sample

CONNECTIONS = 64
MIB = 1 << 20


def request(method: str, path: str, agent_id: str, parameters: dict[str, Any]) -> bytes:
    """One request."""
    body = json.dumps({"parameters": parameters}, separators=(",", ":")).encode()
    head = (
        f"AGTP/1.0 {method} {path}\r\nAgent-ID: {agent_id}\r\n"
        f"Content-Type: application/vnd.agtp+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def operated(directory: Path) -> Path:
    """A sample host with a registry, whose agent ``demo`` is an operator."""
    config = sample(directory, append="\n[registry]\n")
    with running(config) as host:
        pem = (host.state / "agents" / "demo" / "agent.pem").read_bytes()
    key = x509.load_pem_x509_certificate(pem).public_key()
    operator = sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()
    config.write_text(f'{config.read_text()}\n[audit]\noperators = ["{operator}"]\n')
    return config


def credentials(host: Host) -> tuple[Any, str]:
    """The TLS context of ``demo``, and its Agent-ID."""
    demo = host.state / "agents" / "demo"
    context = client_context(host.state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    return context, json.loads((demo / "document.json").read_text())["agent_id"]


def listed(host: Host) -> int:
    """How many cards there are that registered."""
    context, agent_id = credentials(host)
    found, given = 0, {"limit": 200, "kind": "registered"}
    while True:
        octets = request("QUERY", "/cards", agent_id, given)
        client = Client(("127.0.0.1", host.port), context, lambda octets=octets: octets)
        client.send()
        answer = None
        while answer is None:
            answer = client.receive()
        client.tls.close()
        result = json.loads(answer.partition(b"\r\n\r\n")[2])["result"]
        found += result["count"]
        if "next_cursor" not in result:
            return found
        given["cursor"] = result["next_cursor"]


def bench(seconds: float) -> dict[str, float]:
    """Register for so long."""
    pin(1)
    with tempfile.TemporaryDirectory() as temporary:
        config = operated(Path(temporary))
        numbers = count()
        with running(config, prefix=("taskset", "-c", "0")) as host:
            context, agent_id = credentials(host)
            process = psutil.Process(host.process.pid)
            before = process.memory_info().rss

            def requests() -> bytes:
                return request("REGISTER", "/cards", agent_id, {"card": card(id=f"card-{next(numbers):06}")})

            tally, cpu = measured(
                lambda: run(
                    ("127.0.0.1", host.port),
                    context,
                    requests,
                    connections=CONNECTIONS,
                    seconds=seconds,
                    good=b"AGTP/1.0 200",
                ),
                host.process.pid,
            )
            grown = process.memory_info().rss - before
            host.kill()
        assert tally.bad == 0, tally.example
        with running(config) as host:
            kept = listed(host)
    assert tally.requests <= kept, f"{tally.requests} were acknowledged, {kept} are there"
    return {
        "registrations": tally.requests,
        "registrations_per_cpu_second": round(tally.requests / cpu),
        "registrations_per_second": round(tally.rate),
        "p99_ms": round(tally.percentile(0.99) * 1000, 1),
        "mib_per_10000": round(grown / MIB * 10_000 / tally.requests, 1),
        "there_after_sigkill": kept,
    }


if __name__ == "__main__":
    print(json.dumps(bench(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0), indent=2))
