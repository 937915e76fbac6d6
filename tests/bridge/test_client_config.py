"""What is printed for pasting, as each client documents it."""

from __future__ import annotations

import json

from agtphost.bridge import client_config

COMMAND = ["/opt/agtp", "mcp-bridge", "agtp://host"]
URL = "http://127.0.0.1:8931/mcp"


def test_entries_that_start_the_bridge() -> None:
    """``mcpServers`` for Claude and Cursor, ``servers`` for VS Code; each names the type, command and arguments."""
    entry = {"type": "stdio", "command": "/opt/agtp", "args": ["mcp-bridge", "agtp://host"]}
    for client, member in (("claude", "mcpServers"), ("vscode", "servers"), ("cursor", "mcpServers")):
        assert json.loads(client_config.stdio_entry(client, "agtp", COMMAND)) == {member: {"agtp": entry}}


def test_entries_that_connect() -> None:
    """Cursor tells by the URL; the others name the type ``http``."""
    entry = {"type": "http", "url": URL}
    assert json.loads(client_config.http_entry("claude", "agtp", URL, False)) == {"mcpServers": {"agtp": entry}}
    assert json.loads(client_config.http_entry("vscode", "agtp", URL, False)) == {"servers": {"agtp": entry}}
    assert json.loads(client_config.http_entry("cursor", "agtp", URL, False)) == {"mcpServers": {"agtp": {"url": URL}}}


def test_no_file_has_the_token() -> None:
    """Each client's own way to a value that is not in the file: the environment, or a question asked once."""
    claude = json.loads(client_config.http_entry("claude", "agtp", URL, True))["mcpServers"]["agtp"]
    assert claude["headers"] == {"Authorization": "Bearer ${AGTP_BRIDGE_TOKEN}"}
    cursor = json.loads(client_config.http_entry("cursor", "agtp", URL, True))["mcpServers"]["agtp"]
    assert cursor["headers"] == {"Authorization": "Bearer ${env:AGTP_BRIDGE_TOKEN}"}
    vscode = json.loads(client_config.http_entry("vscode", "agtp", URL, True))
    (asked,) = vscode["inputs"]
    assert asked["type"] == "promptString" and asked["password"] is True
    assert vscode["servers"]["agtp"]["headers"] == {"Authorization": f"Bearer ${{input:{asked['id']}}}"}
