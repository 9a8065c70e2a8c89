"""The orders of a shop, as an MCP server."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("orders")
ORDERS = {
    1042: {"number": 1042, "item": "Desk lamp, brass", "price": 39.0, "state": "delivered on Thursday"},
    1043: {"number": 1043, "item": "Floor lamp, black", "price": 89.0, "state": "left Berlin this morning"},
}


@server.tool()
def find_order(number: int) -> dict[str, object]:
    """Find an order by its number."""
    if number not in ORDERS:
        raise ValueError(f"there is no order {number}")
    return ORDERS[number]


@server.tool()
def refund(number: int, amount: float, reason: str) -> str:
    """Pay money back to the card that paid."""
    return f"paid back {amount:.2f} EUR for order {number}: {reason}"


if __name__ == "__main__":
    server.run()
