"""How soon a call that an MCP client cancels ends at the MCP server, behind bridge and host, over both carriers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forking
from tests.bridge.test_stdio import ENVELOPE
from tests.system.hosting import BIN, Host, running, sample

CANCELLED = 100
MOST_HANDSHAKES = 5
SECONDS = 1.0
"""From the client's message to the end of the call at the server."""


def client_ports(host: Host) -> set[str]:
    """Return the ports of TCP clients of a host, of connections that are closed since a minute at most too."""
    table = [line.split()[1:3] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = f":{host.port:04X}"
    return {theirs for ends in table for ours, theirs in (ends, ends[::-1]) if ours.endswith(own)}


@pytest.mark.release
@pytest.mark.parametrize("carrier", ["quic", "tls"])
def test_a_cancelled_call_ends_at_the_server_within_a_second(tmp_path: Path, carrier: str) -> None:
    """Calls are cancelled one after the other; in all they cost five handshakes at most, and the next is answered."""
    os.mkfifo(tmp_path / "told")
    command = [sys.executable, str(Path(__file__).with_name("waiting_server.py")), str(tmp_path / "told")]
    more = f"""
[quic]
enabled = true
qlog = "{tmp_path / "traces"}"

[[mcp.server]]
name = "waiting"
command = {json.dumps(command)}
"""
    options = ["--quic"] if carrier == "quic" else []
    took: list[float] = []
    with (
        os.fdopen(os.open(tmp_path / "told", os.O_RDWR), "rb", buffering=0) as fifo,
        running(sample(tmp_path, append=more)) as host,
        forking.start(
            [BIN / "agtp", "mcp-bridge", *options, "--config", str(host.config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ),
            cwd=host.config.parent,
        ) as bridge,
    ):
        assert bridge.stdin is not None and bridge.stdout is not None
        before = client_ports(host)

        def send(method: str, number: int | None = None, **params: object) -> None:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            bridge.stdin.write(json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n")
            bridge.stdin.flush()

        def hear(what: bytes) -> float:
            found, moment = fifo.readline().split()
            assert found == what
            return float(moment)

        for number in range(1, CANCELLED + 1):
            send("tools/call", number, name="waiting__wait", arguments={}, _meta=ENVELOPE)
            hear(b"begun")
            asked = time.monotonic()
            send("notifications/cancelled", requestId=number)
            took.append(hear(b"cancelled") - asked)
        send("tools/call", 0, name="echo_text", arguments={"text": "one"}, _meta=ENVELOPE)
        answer = json.loads(bridge.stdout.readline())
        connections = len(list((tmp_path / "traces").iterdir())) if carrier == "quic" else 0
        handshakes = connections or len(client_ports(host) - before)
        bridge.stdin.close()
        bridge.wait(60)
    print(
        f"{carrier}: {handshakes} handshakes, {max(took):.3f} s at most, {sorted(took)[len(took) // 2]:.3f} s in half"
    )
    assert answer["id"] == 0 and "error" not in answer, answer
    assert 1 <= handshakes <= MOST_HANDSHAKES
    assert max(took) < SECONDS
