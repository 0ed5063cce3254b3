"""The server's side of HTTP: an ASGI app, and a listener that runs it."""
