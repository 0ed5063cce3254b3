"""A protected server that is its own authorization server, for foreign clients and the suite."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from accord import Context, Server
from accord.auth import AuthorizationServer

PATIENCE: Final = 30.0


def listening() -> tuple[socket.socket, int]:
    bound = socket.create_server(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


@contextmanager
def serving(auth: AuthorizationServer) -> Iterator[str]:
    """Serve a protected server, in a thread; yields the URL."""
    server = Server("desk", auth=auth)

    @server.tool
    def whoami(ctx: Context[Any]) -> str:
        """Return the name of the caller."""
        assert ctx.principal is not None
        return ctx.principal.subject

    bound, port = listening()
    config = uvicorn.Config(server.asgi(), log_level="critical", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([bound],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        thread.join(PATIENCE)
