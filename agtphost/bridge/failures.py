"""What the host says no with, as errors of the SDK that the bridge runs on."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError

from agtphost.client.errors import ClientError
from agtphost.client.mcp import refusals
from agtphost.client.mcp.refusals import REFUSED, UNREACHABLE, RPCError, ShownName
from agtphost.client.reply import Reply

__all__ = ["REFUSED", "UNREACHABLE", "refused", "unreachable"]


def refused(reply: Reply, *, modern: bool, uri: str | None = None, name: ShownName | None = None) -> MCPError:
    """A status outside 2xx: see :func:`agtphost.client.mcp.refusals.refused`."""
    return _raised(refusals.refused(reply, modern=modern, uri=uri, name=name))


def unreachable(error: ClientError) -> MCPError:
    """No answer, or none that can be believed."""
    return _raised(refusals.unreachable(error))


def _raised(error: RPCError) -> MCPError:
    return MCPError(error.code, error.message, error.data)
