"""An MCP server with the tool and the resource of core v08 appendices D and G."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

URI = "mcp://corpus/financial/q1-2026"


def main() -> None:
    """Serve them on standard input and output."""
    server = MCPServer("corpus", version="1.0.0")

    @server.tool()
    def search_documents(query: str, limit: int = 10) -> dict[str, list[dict[str, str | float]]]:
        """Find documents."""
        matches: list[dict[str, str | float]] = [{"doc_id": "doc-0042", "score": 0.91, "excerpt": query}]
        return {"matches": matches[:limit]}

    @server.resource(URI)
    def corpus() -> str:
        """The reports of the first quarter."""
        return "Q1 2026: revenue rose."

    server.run()


if __name__ == "__main__":
    main()
