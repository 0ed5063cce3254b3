"""Makes accord log much: every call of `fail` is logged with its traceback."""

from accord import Server

server = Server("chatty")


@server.tool(inline=True)
def fail() -> str:
    """Fail in an unexpected way."""
    raise RuntimeError("unexpected " + "x" * 2_000)


if __name__ == "__main__":
    server.run(grace=0.4)
