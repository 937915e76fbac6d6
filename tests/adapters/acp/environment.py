"""The ACP SDK in an environment of its own: it needs an older uvicorn than the MCP SDK does."""

from __future__ import annotations

from tests import pypi


def interpreter() -> str:
    """The Python that has the SDK."""
    return str(pypi.environment("acp-sdk", "acp-sdk==1.0.3", "uvicorn==0.35.0") / "python")
