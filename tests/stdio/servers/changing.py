"""A server whose tool changes what it offers."""

from accord import Server

server = Server("changing")


@server.tool
async def change() -> str:
    """Offer another tool, and say that the note has changed."""
    server.add_tool(lambda: "x", name="new", description="New.", replace=True)
    server.resource_updated("note://a")
    return "changed"


@server.resource("note://a")
def note() -> str:
    """A note."""
    return "a"


if __name__ == "__main__":
    server.run()
