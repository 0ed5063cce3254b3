"""A plugin that adds its tools to a server that it is given."""

from accord import Server
from accord.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)


def register(server: Server) -> None:
    """Add the tools; the server is named after this file."""
    server.add_tool(shout, annotations=READS)
    server.add_tool(count_words, annotations=READS)


def shout(text: str) -> str:
    """Say a text louder: in capitals, with an exclamation mark.

    Args:
        text: what to say
    """
    return f"{text.upper()}!"


def count_words(text: str) -> int:
    """Count the words of a text that are separated by spaces.

    Args:
        text: the words, separated by spaces
    """
    return len(text.split())
