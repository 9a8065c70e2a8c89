"""Real servers of MCP, and how they are reached."""
