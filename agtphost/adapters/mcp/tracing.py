"""Trace requests to MCP servers as spans, and pass the trace on in ``_meta.traceparent`` (SEP-414)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.handlers.log_context import client_span, is_traced
from agtphost.handlers.tracing import ClientSpan
from agtphost.vocabulary.trace_context import TRACEPARENT, TRACESTATE


def request_span(server: IsMcpServer, method: str, tool: str = "") -> ClientSpan | None:
    """
    Return a span for a request, after OpenTelemetry's conventions for MCP.

    :param tool: the tool of ``tools/call``.
    :return: None where the call is not traced.
    """
    if not is_traced():
        return None
    settings = server.settings
    told: dict[str, str | int | bool] = {
        "mcp.method.name": method,
        "agtp.upstream": f"mcp.{settings.name}",
        "network.transport": "tcp" if settings.url else "pipe",
    }
    if server.terms is not None:
        told["mcp.protocol.version"] = server.terms.version
    if tool:
        told["gen_ai.operation.name"] = "execute_tool"
        told["gen_ai.tool.name"] = tool
    return client_span(f"{method} {tool}" if tool else method, told)


def link_meta(meta: Mapping[str, Any], span: ClientSpan) -> dict[str, Any]:
    """
    Return the ``_meta`` of a request with the span's place in the trace, which replaces one that its caller wrote.
    """
    own = {name: value for name, value in meta.items() if name not in (TRACEPARENT, TRACESTATE)}
    return {**own, **dict(span.fields)}


def tool_failed(result: Mapping[str, Any]) -> str:
    """Return the error type of a tool's result; empty for a success."""
    return "tool_error" if result.get("isError") is True else ""
