"""
One misbehaving upstream, as a program of its own; standard library alone.

``python -m tests.adapters.faults.program stdio FAULT``: an MCP server on standard input and output.
``... http FOLDER``: one for every fault over HTTP, below ``/CARRIER/FAULT``: an MCP server, an external service, an
A2A agent and an ACP server each; it prints its ports as one line of JSON. FOLDER has the certificates.

Each of them is honest up to the point where its fault plays.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.adapters.faults.carriers import Carrier, PipeCarrier
from tests.adapters.faults.registry import FAULTS, Fault

VERSION = "2025-11-25"


def tools(fault: Fault) -> list[dict[str, Any]]:
    plain = {"description": "Works.", "inputSchema": {"type": "object"}}
    listed = [{"name": "work", **plain}, {"name": "rest", **plain}]
    return fault.listed(listed) if fault.listed is not None else listed


def serve(out: Carrier, fault: Fault, message: dict[str, Any]) -> None:
    """Answer one MCP message."""
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        return
    if method == fault.at and (method != "tools/call" or params.get("name") == "work"):
        fault.play(out)
    elif method == "initialize":
        result = {
            "protocolVersion": params.get("protocolVersion", VERSION),
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "faulty", "version": "0"},
        }
        out.say(out.text(json.dumps(result).encode()))
    elif method == "tools/list":
        out.say(out.text(json.dumps({"tools": tools(fault)}).encode()))
    elif method == "tools/call":
        out.say(out.good())
    else:
        out.say(out.error(b'{"code":-32601,"message":"Method not found"}'))


def stdio(fault: Fault) -> None:
    if fault.at == "exec":
        fault.play(PipeCarrier("stdio", 1))
    if fault.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        serve(PipeCarrier("stdio", message.get("id")), fault, message)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        from tests.adapters.faults import scripts

        assert scripts
        stdio(FAULTS[sys.argv[2]])
    else:
        from tests.adapters.faults.serving import http

        http(Path(sys.argv[2]))
