"""MCP sessions that clients of the Python SDK open in this process."""
