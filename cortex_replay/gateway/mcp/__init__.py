"""The gateway as a server of MCP: Streamable HTTP, and the older transport with a stream and an endpoint."""
