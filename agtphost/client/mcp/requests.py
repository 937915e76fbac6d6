"""MCP operations, as a host is asked for them: ``docs/mcp.rst``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def execute(action: str, family: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the parameters of the EXECUTE that carries an operation.

    :param action: such as ``mcp.tools.call``.
    :param family: what ``application/vnd.mcp.*+json`` is called for it: ``tools``, ``resources`` ...
    """
    return {"action": action, "payload_type": f"application/vnd.mcp.{family}+json", "payload": payload}
