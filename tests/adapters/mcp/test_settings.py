"""What an operator may say."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.adapters.mcp import McpServerSettings, ToolOverride
from agtphost.identity.peer import Assurance


@pytest.mark.parametrize(
    "members",
    [
        {"command": ("x",)},
        {"url": "https://example.test/mcp"},
        {"url": "http://127.0.0.1:1/mcp"},
        {"url": "http://[::1]/mcp"},
        {"url": "http://localhost/mcp"},
        {"url": "http://10.0.0.1/mcp", "allow_http": True},
        {"command": ("x",), "protocol": "2025-11-25", "scopes": ("mcp:fs:*",), "start": "lazy"},
    ],
)
def test_good_settings(members: dict[str, Any]) -> None:
    """What is documented can be said; a tool is certificate-only unless the operator says otherwise."""
    settings = McpServerSettings(name="a-1", **members)
    assert settings.min_assurance is Assurance.CERTIFICATE


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"command": ("x",), "url": "https://a.test/"},
        {"name": "A", "command": ("x",)},
        {"name": "a.b", "command": ("x",)},
        {"name": "", "command": ("x",)},
        {"url": "http://example.test/mcp"},
        {"url": "http://169.254.169.254/"},
        {"url": "http://[::ffff:a9fe:a9fe]/"},
        {"url": "file:///etc/passwd"},
        {"url": "https://"},
        {"url": "https://u:p@a.test/"},
        {"url": "https://a.test/#f"},
        {"url": "https://é.test/"},
        {"command": ("x\0y",)},
        {"command": ("x",), "env": {"A=B": "c"}},
        {"command": ("x",), "env": {"A": "c\0"}},
        {"command": ("x",), "protocol": "2024-01-01"},
        {"command": ("x",), "timeout": 0},
        {"command": ("x",), "max_concurrency": 0},
        {"command": ("x",), "max_queue": -1},
        {"command": ("x",), "start": "later"},
        {"command": ("x",), "scopes": ("nonsense",)},
        {"url": "https://a.test/", "headers": {"Mcp-Session-Id": "x"}},
        {"url": "https://a.test/", "headers": {"Host": "x"}},
        {"url": "https://a.test/", "headers": {"X": "a\r\nY: b"}},
        {"url": "https://a.test/", "headers": {"X Y": "a"}},
    ],
)
def test_bad_settings(members: dict[str, Any]) -> None:
    """What cannot work, or would leak, is refused with a sentence."""
    with pytest.raises(ValueError, match=r".{10}"):
        McpServerSettings(**{"name": "a", **members})


def test_bad_overrides() -> None:
    """Unknown impacts and malformed scopes."""
    with pytest.raises(ValueError, match="impact"):
        ToolOverride(impact="harmless")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scope"):
        ToolOverride(scopes=("x",))


def test_secrets_are_not_in_the_repr() -> None:
    """P21: neither environment nor headers show."""
    settings = McpServerSettings(name="a", command=("x",), env={"K": "canary1"}, headers={"X-Key": "canary2"})
    assert "canary" not in repr(settings)
