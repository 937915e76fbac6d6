"""
The host's own MCP front against the official SDK's own server, in one run: ``python -m tests.bench.mcp_front``.

Both answer tools/call of a Python function over TLS, in the SDK's best mode: 2026-07-28, without sessions, as JSON. The
host signs a record of each call besides, and has it on disk before it answers.
"""

from __future__ import annotations

import argparse
import json
import ssl
import tempfile
from pathlib import Path

from tests.bench.load import answer_to, client_context, run
from tests.bench.measurement import BENCH, Figures, helper, measured, pin
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import free_port, running, sample

REVISION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(port: int, tool: str, *fields: str) -> bytes:
    """A tools/call of that revision."""
    params = {"name": tool, "arguments": {"text": "the quick brown fox"}, "_meta": ENVELOPE}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: localhost:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {REVISION}",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {tool}",
        *fields,
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    return "\r\n".join(head).encode() + body


def check(port: int, context: ssl.SSLContext, octets: bytes) -> None:
    """One answer, which is that of the function: an error of a tool has the same status."""
    answer = answer_to(port, context, octets)
    assert b'"isError":false' in answer and b"the quick brown fox" in answer, answer


def bench(seconds: float, rounds: int, connections: int = 64) -> dict[str, object]:
    """Requests per second of the server's CPU, of both, in interleaved rounds."""
    pin(1)
    clients = {"bench": "demo"}
    port, sdk_port = free_port(), free_port()
    figures = {"front": Figures(), "sdk": Figures()}
    with tempfile.TemporaryDirectory() as temporary:
        config = sample(Path(temporary), append=front(port, clients, secure=True))
        write_tokens(config.parent, clients)
        with running(config, prefix=("taskset", "-c", "0")) as host:
            state = host.state
            context = client_context(state / "ca.pem")
            material = (str(state / "server.pem"), str(state / "server.key"))
            with helper(str(BENCH / "mcp_sdk_server.py"), *material, str(sdk_port), port=sdk_port) as sdk:
                ours = request(port, "echo_text", f"Authorization: Bearer {token_of('bench')}")
                theirs = request(sdk_port, "echo")
                check(port, context, ours)
                check(sdk[0], context, theirs)
                for _ in range(rounds):
                    for name, place, pid, octets in (
                        ("front", port, host.process.pid, ours),
                        ("sdk", sdk[0], sdk[1], theirs),
                    ):
                        tally, cpu = measured(
                            pid,
                            lambda place=place, octets=octets: run(  # type: ignore[misc]
                                ("127.0.0.1", place),
                                context,
                                lambda: octets,
                                connections=connections,
                                seconds=seconds,
                                good=b"HTTP/1.1 200",
                            ),
                        )
                        figures[name].add(tally, cpu)
    summaries = {name: each.summary() for name, each in figures.items()}
    ratio = summaries["front"]["requests_per_cpu_second"] / summaries["sdk"]["requests_per_cpu_second"]
    return {"connections": connections, **summaries, "front/sdk": round(ratio, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one round of one of the two")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(json.dumps(bench(given.seconds, given.rounds), indent=2))


if __name__ == "__main__":
    main()
