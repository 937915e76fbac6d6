"""An MCP server whose tools have names that paths have trouble with: ``named_tools_server.py``, over stdio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, WithJsonSchema

server = MCPServer("names", version="1.0.0")
READING = ToolAnnotations(read_only_hint=True)
Rows: TypeAlias = Annotated[Sequence[Any], WithJsonSchema({"type": "array"})]


class Link(BaseModel):
    """Where it leads."""

    to: str


class Page(BaseModel):
    """What was found."""

    address: str
    words: int
    links: list[Link] = []


def fetch(address: str, limit: int = 10) -> Page:
    """Count the signs of an address."""
    return Page(address=address, words=min(len(address), limit), links=[Link(to=f"{address}/more")])


def words(text: str = "") -> str:
    """Say which text was given."""
    return f"given: {text}"


def choose(answer: Literal["Y", "y", "Yes", "yes"] = "y", rows: Rows = ()) -> str:
    """Say which answer was given: values that differ in case alone, and a list of anything."""
    return f"given: {answer}"


def fail(text: str = "") -> Page:
    """Fail."""
    raise ValueError("nothing is there")


for name in ("fetch", "search"):
    server.add_tool(fetch, name=name, annotations=READING)
for name in ("query", "Read", "read", "a/b", "a.b", "..", "größe", "{brace}", "50%", "fetch.fetch", "parameters"):
    server.add_tool(words, name=name, annotations=READING)
for name in ("hidden", "vault"):
    server.add_tool(words, name=name)
server.add_tool(choose, name="choose", annotations=READING)
server.add_tool(fail, name="fail")

if __name__ == "__main__":
    server.run("stdio")
