"""The server behind the proxies: one tool that does next to nothing."""

from accord import Server

server = Server("behind")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run()
