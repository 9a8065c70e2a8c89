"""MCP sessions, without a transport."""
