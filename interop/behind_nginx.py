"""A server for nginx to stand before: python behind_nginx.py PORT, or the path of a Unix socket."""

import asyncio
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from accord import Context, Server
from accord.http.server.running import serve

server = Server("behind")
gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
clients: set[Any] = set()


def note_client(scope: Mapping[str, Any]) -> None:
    """Note from which connection a request comes."""
    clients.add(scope["client"])


app = server.asgi(sessions=False, principal=note_client)


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def hold(ctx: Context, name: str) -> str:
    """Report progress, and wait until `free` is called."""
    await ctx.progress(1)
    await gates[name].wait()
    return name


@server.tool
async def free(name: str) -> str:
    """Free the calls that are held under a name."""
    gates[name].set()
    return name


@server.tool
async def streams() -> int:
    """Return how many clients are listening to a stream."""
    return len(app.state.readers)


@server.tool
async def connections() -> int:
    """Return how many connections have made requests."""
    return len(clients)


def listen(place: str) -> socket.socket:
    if place.isdigit():
        return socket.create_server(("127.0.0.1", int(place)))
    made = socket.socket(socket.AF_UNIX)
    made.bind(place)
    return made


if __name__ == "__main__":
    serve(app, [listen(sys.argv[1])], app.start)
