"""MCP server entries of the configuration in the adapter's terms."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from agtphost.audit.state import StateTable
from agtphost.handlers.authorization import Authorization
from agtphost.host.upstreams import mcp_adapter, settings_of
from agtphost.identity.peer import Assurance
from tests.fakes import FakeLedger
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
def entries(tmp_path: Path) -> list[object]:
    config = reloaded(sample(tmp_path, append=MORE), {"MCP_TOKEN": "s3cr3t-token", "MCP_TEAM": "s3cr3t-team"})
    return list(config.mcp.server)


def test_a_stdio_server(entries: list[object], tmp_path: Path) -> None:
    """Command, working directory and time limits arrive as configured."""
    settings = settings_of(entries[0])  # type: ignore[arg-type]
    assert settings.name == "files"
    assert settings.command[1:] == ("mcp/files_server.py", "mcp/files")
    assert settings.cwd == str(tmp_path / "etc")
    assert settings.timeout == 30
    assert settings.scopes == ("mcp:tools:execute",)


def test_an_http_server_gets_its_secrets_opened(entries: list[object]) -> None:
    """Secrets are opened for the upstream they were named for, the bearer token as Authorization."""
    settings = settings_of(entries[1])  # type: ignore[arg-type]
    assert settings.url == "https://mcp.example/mcp"
    assert settings.headers == {"X-Team": "s3cr3t-team", "Authorization": "Bearer s3cr3t-token"}
    assert settings.scopes == ("documents:query",)
    wipe = settings.tools["wipe"]
    assert (wipe.enabled, wipe.scopes, wipe.impact, wipe.min_assurance) == (
        False,
        ("documents:write",),
        "irreversible",
        Assurance.CERTIFICATE,
    )


def test_secrets_stay_closed_everywhere_else(entries: list[object]) -> None:
    """T-SE-1: neither the entry nor the settings show them."""
    for shown in (repr(entries), str(entries), repr(settings_of(entries[1]))):  # type: ignore[arg-type]
        assert "s3cr3t" not in shown


def test_each_entry_is_a_service(entries: list[object]) -> None:
    """One service for each server, in the order of the file; making them starts nothing."""
    clock = Clock()
    adapter = mcp_adapter(
        clock,
        entries,  # type: ignore[arg-type]
        {},
        held=StateTable(),
        ledger=FakeLedger(),
        authorization=Authorization(),
    )
    assert [server.name for server in adapter.servers.values()] == ["mcp.files", "mcp.remote"]
    assert clock.getDelayedCalls() == []
