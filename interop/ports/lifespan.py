"""A value that lives as long as the server. Original: the story "lifespan" of the official SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from accord import Context, Server


@dataclass
class State:
    """What the server keeps open."""

    db: dict[str, str]


@asynccontextmanager
async def open_state(server: Server[State]) -> AsyncIterator[State]:
    """Open the store when the server starts, and empty it when it ends."""
    db = {"alpha": "one", "beta": "two"}
    try:
        yield State(db)
    finally:
        db.clear()


server = Server("lifespan-example", lifespan=open_state)


@server.tool
def lookup(key: str, ctx: Context[State]) -> str:
    """Find a key in the store of the server."""
    return ctx.state.db[key]


if __name__ == "__main__":
    server.run()
