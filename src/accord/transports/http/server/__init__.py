"""The server's side of HTTP: an ASGI app, and uvicorn to run it."""
