"""An MCP server whose tools declare sound and unsound schemas, on the official SDK's types but for the schemas."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = [
    {"name": "sound", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {
        "name": "wrong_input",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}, "b": {"title": 5}}},
    },
    {"name": "wrong_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": "a"}},
]


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The result of one request."""
    method = message["method"]
    if method == "initialize":
        told = {"name": "invalid", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": told}
    if method == "tools/list":
        return {"tools": TOOLS}
    return {"content": [{"type": "text", "text": "done"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] not in ("initialize", "tools/list", "tools/call"):
        reply: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
    else:
        reply = {"result": answer(message)}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
