"""What an operator may say of an upstream: sections made in code are checked as those of a file."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.config.upstreams import MCPServerSection, ToolOverride
from tests.rows import each_row


@each_row(
    "members",
    [
        {"command": ("x",)},
        {"url": "https://example.test/mcp"},
        {"url": "http://127.0.0.1:1/mcp"},
        {"url": "http://[::1]/mcp"},
        {"url": "http://localhost/mcp"},
        {"command": ("x",), "protocol": "2025-11-25", "scopes": ("mcp:fs:*",), "start": "lazy"},
        {"command": ("x",), "pins": {"work": "ab" * 32}},
    ],
)
def test_good_sections(members: dict[str, Any]) -> None:
    """What is documented can be said; how surely callers must be known is the default of the host."""
    section = MCPServerSection(name="a-1", **members)
    assert section.min_assurance is None


@each_row(
    "members",
    [
        {"name": "A"},
        {"name": "a.b"},
        {"name": ""},
        {"url": "http://example.test/mcp"},
        {"url": "http://10.0.0.1/mcp"},
        {"url": "http://169.254.169.254/"},
        {"url": "http://[::ffff:a9fe:a9fe]/"},
        {"url": "file:///etc/passwd"},
        {"url": "https://"},
        {"url": "https://u:p@a.test/"},
        {"url": "https://a.test/#f"},
        {"url": "https://é.test/"},
        {"command": ["x\0y"]},
        {"env": {"A=B": "c"}},
        {"env": {"A": "c\0"}},
        {"protocol": "2024-01-01"},
        {"timeout": 0},
        {"max_concurrency": 0},
        {"max_queue": -1},
        {"start": "later"},
        {"scopes": ("nonsense",)},
        {"roots": ("/srv",)},
        {"headers": {"Mcp-Session-Id": "x"}},
        {"headers": {"Host": "x"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X Y": "a"}},
        {"pins": {"work": "abcd"}},
        {"pins": {"work": "AB" * 32}},
    ],
)
def test_bad_sections(members: dict[str, Any]) -> None:
    """What cannot work, or would leak, is refused with a sentence."""
    with pytest.raises(ValueError, match=r".{10}"):
        MCPServerSection(**members)


def test_bad_overrides() -> None:
    """Unknown impacts and malformed scopes."""
    with pytest.raises(ValueError, match="impact"):
        ToolOverride(impact="harmless")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scope"):
        ToolOverride(scopes=("x",))


def test_secrets_are_not_in_the_repr() -> None:
    """P21: neither environment nor headers show; those who must hide them are told them."""
    section = MCPServerSection(name="a", command=("x",), env={"K": "canary1"}, headers={"X-Key": "Basic canary2"})  # type: ignore[arg-type]
    assert "canary" not in repr(section)
    assert set(section.secrets()) == {"canary1", "Basic canary2", "canary2"}
