"""What others wrote, for people to read: one line, not long, nothing but characters."""

from typing import Final
from urllib.parse import urljoin, urlsplit

# What an error may quote.
_QUOTED: Final = 200


def one_line(text: str) -> str:
    """Return a text on one line, without characters that could make a terminal do things."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def quote_text(text: str) -> str:
    """Return the beginning of a text, as it may be quoted."""
    return one_line(text)[:_QUOTED]


def quote_url(url: str, base: str = "") -> str:
    """Return a URL as it may be quoted: queries and names before the host may be secret."""
    try:
        parts = urlsplit(urljoin(base, url))
    except ValueError:
        return "a malformed URL"
    host = parts.netloc.rpartition("@")[2]
    return quote_text(f"{parts.scheme}://{host}{parts.path}")
