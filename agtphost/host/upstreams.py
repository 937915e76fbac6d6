"""``[[mcp.server]]`` entries become services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.settings import McpServerSettings, ToolOverride
from agtphost.config import MCPServer, Secret


def _plain(values: Mapping[str, str | Secret]) -> dict[str, str]:
    """Secrets are opened here, at the edge to the upstream that the operator named them for."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in values.items()}


def settings_of(entry: MCPServer) -> McpServerSettings:
    """One configuration entry in the adapter's own terms."""
    headers = _plain(entry.headers)
    if entry.bearer is not None:
        headers["Authorization"] = f"Bearer {entry.bearer.reveal()}"
    return McpServerSettings(
        name=entry.name,
        command=entry.command or (),
        url=entry.url or "",
        cwd=str(entry.cwd),
        env=_plain(entry.env),
        scopes=entry.scopes,
        timeout=entry.timeout,
        start_timeout=entry.start_timeout,
        max_concurrency=entry.max_concurrency,
        max_queue=entry.max_queue,
        start=entry.start,
        protocol=entry.protocol,
        min_assurance=entry.min_assurance,
        tools={
            name: ToolOverride(
                scopes=tool.scopes, impact=tool.impact, min_assurance=tool.min_assurance, enabled=tool.enabled
            )
            for name, tool in entry.tools.items()
        },
        pins=dict(entry.pins),
        headers=headers,
        ca=None if entry.ca is None else str(entry.ca),
    )


def mcp_servers(reactor: Any, entries: Iterable[MCPServer], environ: Mapping[str, str]) -> list[McpServer]:
    """A service for each entry."""
    return [McpServer(reactor, settings_of(entry), environ) for entry in entries]
