"""
An MCP server that does what a caller asks of it, however bad: standard library alone, protocol 2025-11-25.

Its honest tool is ``list_files``, as the sample server's. Every other tool misbehaves in one way, and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

TOOLS = ("list_files", "slow", "long", "endless", "flood", "stop_reading")
OK = {"content": [{"type": "text", "text": "welcome.txt"}]}
CHUNK = b"x" * (1 << 20)

_output = threading.Lock()


def put(message: dict[str, Any]) -> None:
    with _output:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def raw(octets: bytes) -> None:
    sys.stdout.buffer.write(octets)
    sys.stdout.buffer.flush()


def long(call_id: int, megabytes: int, end: bytes) -> None:
    """An answer of so many MiB, in one line."""
    with _output:
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % call_id)
        for _ in range(megabytes):
            raw(CHUNK)
        raw(end)


def call(call_id: int, tool: str) -> None:
    if tool == "slow":
        time.sleep(3)
    elif tool == "long":
        long(call_id, 20, b'"}]}}\n')
        return
    elif tool == "endless":
        long(call_id, 1 << 20, b"")
    elif tool == "flood":
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "y" * 900}})
        end = time.monotonic() + 5
        while time.monotonic() < end:
            with _output:
                raw((note + "\n").encode() * 64)
    put({"id": call_id, "result": OK})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, call_id = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "hostile", "version": "0"}
            put(
                {
                    "id": call_id,
                    "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            listed = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            put({"id": call_id, "result": {"tools": listed}})
        elif method == "tools/call":
            tool = message["params"]["name"]
            if tool == "list_files":
                put({"id": call_id, "result": OK})
            elif tool == "stop_reading":
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                threading.Thread(target=call, args=(call_id, tool), daemon=True).start()
        elif call_id is not None:
            put({"id": call_id, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    main()
