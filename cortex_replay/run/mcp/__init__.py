"""Real MCP servers, and how they are reached."""
