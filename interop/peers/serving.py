"""How a foreign server in Python is served over HTTP: by uvicorn, on a port that it tells."""

import socket
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Serve an ASGI app until a signal comes."""
    bound = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run([bound])
