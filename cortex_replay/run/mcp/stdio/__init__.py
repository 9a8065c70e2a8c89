"""MCP servers and clients that speak over standard streams."""
