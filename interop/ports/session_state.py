"""Values that one session keeps. Original: persistent_state of FastMCP."""

from accord import Context, Server

server = Server("StateExample")


@server.tool
def set_value(key: str, value: str, ctx: Context) -> str:
    """Keep a value for this session."""
    ctx.session.state[key] = value
    return f"Stored '{key}' = '{value}'"


@server.tool
def get_value(key: str, ctx: Context) -> str:
    """Read a value of this session."""
    if key not in ctx.session.state:
        return f"Key '{key}' not found"
    return f"'{key}' = '{ctx.session.state[key]}'"


@server.tool
def list_session_info(ctx: Context) -> dict[str, str | None]:
    """Say which session this is, and how it is carried."""
    transport = "streamable-http" if ctx.request.url_path else "stdio"
    return {"session_id": ctx.request.session_id, "transport": transport}


if __name__ == "__main__":
    server.run("http")
