"""Servers of MCP that a run reaches over HTTP."""
