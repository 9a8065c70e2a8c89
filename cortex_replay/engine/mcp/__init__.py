"""Sessions of MCP, without a transport."""
