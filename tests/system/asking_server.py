"""
A server on the official SDK as it comes: it speaks both eras, and its tools ask in the middle of a call.

On stdin and stdout; ``asking_server.py PORT``: over HTTP. Tools that are named after scenarios of the official
conformance suite are for that.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel

warnings.simplefilter("ignore", MCPDeprecationWarning)

server = MCPServer("asking")


class Name(BaseModel):
    """What a person is asked for."""

    name: str


@server.tool()
async def greet(context: Context[Any, Any]) -> str:
    """Asks for a name, by a request of its own; a client of 2026-07-28 cannot be asked so."""
    try:
        answer = await context.elicit("Who is there?", Name)
    except MCPError as error:
        return f"nobody can be asked: {error.error.code}"
    return f"hello {answer.data.name}" if answer.action == "accept" and answer.data else answer.action


@server.tool()
async def think(context: Context[Any, Any]) -> str:
    """Asks for text of the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="?"))
    answer = await context.session.create_message([message], max_tokens=10)
    return str(answer.content.text)  # type: ignore[union-attr]


@server.tool()
async def where(context: Context[Any, Any]) -> str:
    """Asks for the client's directories."""
    return str((await context.session.list_roots()).roots[0].uri)


@server.tool()
async def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@server.tool()
async def test_error_handling() -> str:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_progress(context: Context[Any, Any]) -> str:
    """Reports how far it is."""
    for step in (0, 50, 100):
        await context.report_progress(step, 100)
    return "done"


@server.tool()
async def test_tool_with_logging(context: Context[Any, Any]) -> str:
    """Logs."""
    for step in ("started", "processing", "completed"):
        await context.session.send_log_message(level="info", data=f"Tool execution {step}")
    return "done"


@server.tool()
async def test_sampling(prompt: str, context: Context[Any, Any]) -> str:
    """Asks the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await context.session.create_message([message], max_tokens=100)
    return f"LLM response: {answer.content.text}"  # type: ignore[union-attr]


class Reply(BaseModel):
    """What the suite's person is asked for."""

    username: str
    email: str


@server.tool()
async def test_elicitation(message: str, context: Context[Any, Any]) -> str:
    """Asks the client's person."""
    answer = await context.elicit(message, Reply)
    return f"User response: {answer.action}"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A resource of the suite."""
    return "This is the content of the static text resource."


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt of the suite."""
    return "This is a simple prompt for testing."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
