"""The official SDK of MCP, in either of its major versions: imported where a session needs its types."""

from __future__ import annotations

from typing import Any

from agtphost.client.errors import InvalidCall
from agtphost.client.mcp.refusals import RPCError


def sdk() -> Any:
    """
    Return the types of the official SDK.

    :raises InvalidCall: where it is not installed.
    """
    try:
        from mcp import types
    except ModuleNotFoundError:
        raise InvalidCall("A session needs the types of the MCP SDK.", "pip install 'agtphost[mcp]'") from None
    return types


def to_sdk_error(error: RPCError) -> Exception:
    """Return the SDK's own exception: ``MCPError``, which its version 1 called ``McpError``."""
    from mcp.shared import exceptions

    if hasattr(exceptions, "MCPError"):
        made: Exception = exceptions.MCPError(error.code, error.message, error.data)
        return made
    data: Any = sdk().ErrorData(code=error.code, message=error.message, data=error.data)
    older: Exception = vars(exceptions)["McpError"](data)
    return older
