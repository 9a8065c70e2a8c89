"""MCP servers that a run reaches over HTTP."""
