"""What to paste into the configuration of an MCP client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

CLIENTS = ("claude", "vscode", "cursor")

WHERE = {
    "claude": "claude_desktop_config.json, or .mcp.json of a project",
    "vscode": ".vscode/mcp.json",
    "cursor": ".cursor/mcp.json, or ~/.cursor/mcp.json",
}
"""The file that each reads."""


def stdio_entry(client: str, name: str, command: Sequence[str]) -> str:
    """
    An entry that starts the bridge.

    :param client: of :data:`CLIENTS`.
    :param name: what the client calls the host.
    :param command: program and arguments.
    """
    return _document(client, name, {"command": command[0], "args": list(command[1:])}, "stdio")


def http_entry(client: str, name: str, url: str, token: bool) -> str:
    """
    An entry that connects to a bridge that runs already.

    :param url: its endpoint.
    :param token: whether it demands one.
    """
    entry: dict[str, Any] = {"url": url}
    if token:
        entry["headers"] = {"Authorization": "Bearer THE-TOKEN"}
    return _document(client, name, entry, "http")


def _document(client: str, name: str, entry: dict[str, Any], transport: str) -> str:
    if client == "cursor":
        return json.dumps({"mcpServers": {name: entry}}, indent=2)
    typed = {"type": transport, **entry}
    if client == "vscode":
        return json.dumps({"servers": {name: typed}}, indent=2)
    return json.dumps({"mcpServers": {name: typed}}, indent=2)
