"""The gateway as an MCP server: Streamable HTTP, and the older transport with a stream and an endpoint."""
