"""Tools that a session shows when it needs them. Original: namespace_activation of FastMCP."""

from accord import Context, Server

server = Server("Multi-Domain Assistant")
FINANCE, ADMIN = "namespace:finance", "namespace:admin"
server.hide(tags={FINANCE, ADMIN})


@server.tool(tags={FINANCE})
def analyze_portfolio(symbols: list[str]) -> str:
    """Look at shares together."""
    return f"Portfolio analysis for: {', '.join(symbols)}"


@server.tool(tags={FINANCE})
def get_market_data(symbol: str) -> dict[str, object]:
    """Read the price of a share."""
    return {"symbol": symbol, "price": 150.25, "change": "+2.5%"}


@server.tool(tags={FINANCE})
def execute_trade(symbol: str, quantity: int, side: str) -> str:
    """Pretend to buy or sell shares."""
    return f"Executed {side} order: {quantity} shares of {symbol}"


@server.tool(tags={ADMIN})
def list_users() -> list[str]:
    """Name everyone with an account."""
    return ["alice", "bob", "charlie"]


@server.tool(tags={ADMIN})
def reset_user_password(username: str) -> str:
    """Pretend to reset a password."""
    return f"Password reset for {username}"


@server.tool
def activate_finance(ctx: Context) -> str:
    """Show the tools for finance in this session."""
    ctx.session.show(tags={FINANCE})
    return "Finance tools activated"


@server.tool
def activate_admin(ctx: Context) -> str:
    """Show the tools for administrators in this session."""
    ctx.session.show(tags={ADMIN})
    return "Admin tools activated"


@server.tool
def deactivate_all(ctx: Context) -> str:
    """Hide both sets of tools again."""
    ctx.session.hide(tags={FINANCE, ADMIN})
    return "All namespaces deactivated"


if __name__ == "__main__":
    server.run()
