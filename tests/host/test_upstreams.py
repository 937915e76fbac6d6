"""MCP server entries of the configuration, and the services of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from agtphost.audit.state import StateTable
from agtphost.config import MCPServerSection
from agtphost.handlers.authorization import Authorization
from agtphost.host.upstreams import call_tracker, mcp_adapter
from agtphost.identity.peer import Assurance
from agtphost.upstream.pins import PinStore
from tests.host.hosts import reloaded
from tests.system.hosting import sample

MORE = """
[[mcp.server]]
name = "remote"
url = "https://mcp.example/mcp"
bearer = "env:MCP_TOKEN"
headers = { X-Team = "env:MCP_TEAM" }
scopes = ["documents:query"]
timeout = 5

[mcp.server.tools.wipe]
enabled = false
scopes = ["documents:write"]
impact = "irreversible"
min_assurance = "certificate"
"""


@pytest.fixture
def entries(tmp_path: Path) -> list[MCPServerSection]:
    config = reloaded(sample(tmp_path, append=MORE), {"MCP_TOKEN": "s3cr3t-token", "MCP_TEAM": "s3cr3t-team"})
    return list(config.mcp.server)


def test_a_stdio_server(entries: list[MCPServerSection], tmp_path: Path) -> None:
    """Command, working directory and time limits arrive as configured."""
    settings = entries[0]
    assert settings.name == "files"
    assert settings.command is not None
    assert settings.command[-2:] == ("mcp/files_server.py", "mcp/files")
    assert settings.cwd == tmp_path / "etc"
    assert settings.timeout == 30
    assert settings.scopes == ("mcp:tools:execute",)


def test_an_http_server_gets_its_secrets_opened(entries: list[MCPServerSection]) -> None:
    """Secrets are opened for the upstream they were named for, the bearer token as Authorization."""
    settings = entries[1]
    assert settings.url == "https://mcp.example/mcp"
    assert settings.opened_headers() == {"X-Team": "s3cr3t-team", "Authorization": "Bearer s3cr3t-token"}
    assert settings.scopes == ("documents:query",)
    wipe = settings.tools["wipe"]
    assert (wipe.enabled, wipe.scopes, wipe.impact, wipe.min_assurance) == (
        False,
        ("documents:write",),
        "irreversible",
        Assurance.CERTIFICATE,
    )


def test_secrets_stay_closed_everywhere_else(entries: list[MCPServerSection]) -> None:
    """T-SE-1: the entries do not show them."""
    for shown in (repr(entries), str(entries)):
        assert "s3cr3t" not in shown


def test_each_entry_is_a_service(entries: list[MCPServerSection]) -> None:
    """One service for each server, in the order of the file; making them starts nothing."""
    clock, held = Clock(), StateTable()

    async def submit(*_: object) -> None:
        """Nothing is approved here."""

    adapter = mcp_adapter(
        clock,
        entries,
        {},
        pins=PinStore(held=held, submit=submit, clock=clock),
        calls=call_tracker(clock, held, time.time),
        authorization=Authorization(),
    )
    assert [server.name for server in adapter.servers.values()] == ["mcp.files", "mcp.remote"]
    assert clock.getDelayedCalls() == []
