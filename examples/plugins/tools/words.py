"""A plugin that adds its tools to a server that it is given."""

from accord import Server


def register(server: Server) -> None:
    """Add the tools; the server is named after this file."""
    server.add_tool(shout)
    server.add_tool(count_words)


def shout(text: str) -> str:
    """Say it louder."""
    return f"{text.upper()}!"


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
