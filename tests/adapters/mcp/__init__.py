"""Tests of MCP hosting; real processes and real sockets wherever one can take part."""
