"""A server on the official SDK whose resources say whose they are: ``noted_server.py NAME``."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
)

NAME = sys.argv[1]
server = MCPServer(NAME)


@server.resource("note://shared")
def shared() -> str:
    """One that every such server has."""
    return f"shared of {NAME}"


@server.resource(f"note://{NAME}/own")
def own() -> str:
    """One that no other has."""
    return f"own of {NAME}"


@server.resource("note://{number}/numbered")
def numbered(number: str) -> str:
    """One of many, after a template that every such server has."""
    return f"{number} of {NAME}"


@server.tool(structured_output=False)
def link() -> list[ResourceLink]:
    """Link a resource that is in no list."""
    return [ResourceLink(uri="note://7/numbered", name="seven")]


@server.prompt()
def note(number: str, topic: str) -> str:
    """A prompt that every such server has."""
    return f"{topic} {number} of {NAME}"


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Say who was asked for what."""
    about = ref.name if isinstance(ref, PromptReference) else ref.uri
    chosen = (context.arguments or {}) if context is not None else {}
    said = [f"{argument.value}: {argument.name} of {about} at {NAME}", *(f"{key}={chosen[key]}" for key in chosen)]
    return Completion(values=said, total=len(said), has_more=False)


server.run("stdio")
