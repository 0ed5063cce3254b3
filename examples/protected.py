"""A server that requires a token, with the authorization server that issues it.

python examples/protected.py, then connect any client to http://127.0.0.1:8000/mcp: it opens a
browser, where "ada" logs in with "lovelace" and grants access to the client.
"""

from typing import Any

from accord import Context, Server
from accord.auth import AuthorizationServer

NOTES: dict[str, list[str]] = {}

auth = AuthorizationServer(
    {"ada": "lovelace", "grace": "hopper"},
    scopes={"notes:read": "Read your notes", "notes:write": "Add notes"},
)
server = Server("notes", auth=auth)


def caller(ctx: Context[Any]) -> str:
    """Return the user who called."""
    assert ctx.principal is not None  # a caller without a token is refused before
    return ctx.principal.subject


@server.tool(scopes=["notes:read"])
def notes(ctx: Context[Any]) -> list[str]:
    """List your notes."""
    return NOTES.get(caller(ctx), [])


@server.tool(scopes=["notes:write"])
def add_note(ctx: Context[Any], text: str) -> int:
    """Add a note, and say how many there are."""
    own = NOTES.setdefault(caller(ctx), [])
    own.append(text)
    return len(own)


if __name__ == "__main__":
    server.run("http")
