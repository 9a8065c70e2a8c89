"""Servers and clients of MCP that speak over standard streams."""
