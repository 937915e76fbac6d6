"""MCP servers that the tests start: one on the official SDK, and one that breaks every rule on demand."""
