"""Make the entries to paste into the configuration of an MCP client."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CLIENTS = ("claude", "vscode", "cursor")

WHERE = {
    "claude": "claude_desktop_config.json, or .mcp.json of a project",
    "vscode": ".vscode/mcp.json, or the mcp.json of your profile (MCP: Open User Configuration)",
    "cursor": ".cursor/mcp.json, or ~/.cursor/mcp.json",
}
"""The file that each client reads for a server that it starts."""

WHERE_HTTP = {**WHERE, "claude": ".mcp.json of a project, or ~/.claude.json"}
"""The file for a server that runs already; Claude's desktop application reads no such servers from its file."""

MEMBER = {"claude": "mcpServers", "vscode": "servers", "cursor": "mcpServers"}
"""The object of servers in each client's file."""

_USER_FILES = {
    "claude": {
        "linux": "{config}/Claude/claude_desktop_config.json",
        "darwin": "{home}/Library/Application Support/Claude/claude_desktop_config.json",
        "win32": "{appdata}/Claude/claude_desktop_config.json",
    },
    "vscode": {
        "linux": "{config}/Code/User/mcp.json",
        "darwin": "{home}/Library/Application Support/Code/User/mcp.json",
        "win32": "{appdata}/Code/User/mcp.json",
    },
    "cursor": dict.fromkeys(("linux", "darwin", "win32"), "{home}/.cursor/mcp.json"),
}
_PROJECT_FILES = {"claude": ".mcp.json", "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json"}

TOKEN_VARIABLE = "AGTP_BRIDGE_TOKEN"
"""The environment variable that has the token, for clients that read one."""

_INPUT = "agtp-bridge-token"
_TOKENS = {
    "claude": f"${{{TOKEN_VARIABLE}}}",
    "vscode": f"${{input:{_INPUT}}}",
    "cursor": f"${{env:{TOKEN_VARIABLE}}}",
}
"""The placeholders of each client for the token, so that no file has the token itself."""


def file_of(
    client: str,
    project: Path | None,
    environ: Mapping[str, str],
    platform: str = sys.platform,
    *,
    started: bool = True,
) -> Path:
    """
    Return the file that a client reads its servers from.

    :param client: one of :data:`CLIENTS`.
    :param project: a directory that is opened in it; None: the file for all of the user's projects.
    :param started: whether the client starts the server; Claude has another file for one that runs.
    """
    if project is not None:
        return project / _PROJECT_FILES[client]
    home = environ.get("HOME") or environ.get("USERPROFILE") or str(Path.home())
    if client == "claude" and not started:
        return Path(home, ".claude.json")
    templates = _USER_FILES[client]
    return Path(
        templates.get(platform, templates["linux"]).format(
            home=home,
            config=environ.get("XDG_CONFIG_HOME") or f"{home}/.config",
            appdata=environ.get("APPDATA") or f"{home}/AppData/Roaming",
        )
    )


def bridge_command(config: Path, identity: str, *options: str) -> list[str]:
    """
    Return the command that starts a bridge to a host of this machine, on any port.

    :param config: the host's ``host.toml``, absolute.
    :param identity: the label of the agent to act as.
    :param options: further options of ``agtp mcp-bridge``.
    """
    return [
        str(Path(sys.executable).with_name("agtp")),
        "mcp-bridge",
        "--config",
        str(config),
        "--as",
        identity,
        *options,
    ]


NAME = "agtp"
"""The client's name for a host, unless only one of its servers is shown."""


def entry(command: Sequence[str]) -> dict[str, Any]:
    """Return the entry of a server that the client starts."""
    return {"type": "stdio", "command": command[0], "args": list(command[1:])}


def line(entries: Mapping[str, Any]) -> str:
    """Return entries as one line, to be pasted into the object of servers."""
    return json.dumps(entries)[1:-1]


def stdio_entry(client: str, name: str, command: Sequence[str]) -> str:
    """
    Return the document with an entry that starts the bridge.

    :param client: one of :data:`CLIENTS`.
    :param name: the client's name for the host.
    :param command: program and arguments.
    """
    return _document(client, name, entry(command))


def http_entry(client: str, name: str, url: str, token: bool, asks: str = "agtp mcp-bridge") -> str:
    """
    Return the document with an entry that connects to a bridge, or to the front of a host, that runs already.

    :param url: its endpoint.
    :param token: whether it demands one.
    :param asks: what demands the token, for the client's prompt.
    """
    return _document(client, name, url_entry(client, url, token), inputs=inputs_of(client, asks) if token else [])


def url_entry(client: str, url: str, token: bool) -> dict[str, Any]:
    """Return the entry of a server that runs already."""
    # Cursor recognizes a URL by its member, and has no type for it.
    made: dict[str, Any] = {"url": url} if client == "cursor" else {"type": "http", "url": url}
    if token:
        made["headers"] = {"Authorization": f"Bearer {_TOKENS[client]}"}
    return made


def inputs_of(client: str, asks: str) -> list[dict[str, Any]]:
    """Return the inputs by which a client asks its user for the token of an entry."""
    if client != "vscode":
        return []
    return [{"type": "promptString", "id": _INPUT, "description": f"Token of {asks}", "password": True}]


def has_token(client: str, entry: Any) -> bool:
    """Return whether an entry is of a running server, with a placeholder for a token as written here."""
    headers = entry.get("headers") if isinstance(entry, dict) and isinstance(entry.get("url"), str) else None
    return isinstance(headers, dict) and headers.get("Authorization") == f"Bearer {_TOKENS[client]}"


def _document(client: str, name: str, entry: dict[str, Any], inputs: Sequence[dict[str, Any]] = ()) -> str:
    document: dict[str, Any] = {"inputs": list(inputs)} if inputs else {}
    document[MEMBER[client]] = {name: entry}
    return json.dumps(document, indent=2)
