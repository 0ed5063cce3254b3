"""MIME types: which one a name suggests, and which ones are text."""

import posixpath
import re
from functools import cache
from typing import Final

__all__ = ["BINARY", "JSON", "PLAIN", "guess", "is_textual"]

PLAIN: Final = "text/plain"
BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"

_TEXTUAL: Final = re.compile(
    r"text/.+|[^/]+/(?:.+\+)?(?:json|xml|yaml|toml)"
    r"|application/(?:(?:x-)?javascript|ecmascript|x-sh|sql|graphql|x-ndjson|jsonl|x-tex|x-httpd-php)"
)

# What the tables of some Python versions lack; the tables of the machine are left alone, so that
# a server says the same everywhere.
_MORE: Final = {
    ".avif": "image/avif",
    ".jsonl": "application/jsonl",
    ".log": PLAIN,
    ".md": "text/markdown",
    ".sql": "application/sql",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


@cache
def _types() -> dict[str, str]:
    import mimetypes

    tables = mimetypes.MimeTypes(filenames=())
    return {**tables.types_map[True], **_MORE}


def guess(uri: str) -> str | None:
    """Tell which MIME type the last part of a URI or path suggests; None if it suggests none.

    >>> guess("file:///a/notes.md?v=2"), guess("note://today"), guess("https://example.md")
    ('text/markdown', None, None)
    """
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    scheme, slashes, after = path.partition("://")
    if slashes and scheme.lower() in ("http", "https"):
        path = after.partition("/")[2]  # the ending of a host says nothing
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path)
    extension = posixpath.splitext(path)[1].lower()
    return _types().get(extension) if extension else None


def is_textual(mime_type: str) -> bool:
    """Tell whether content of this type can be shown as text.

    >>> is_textual("text/css"), is_textual("image/svg+xml"), is_textual("image/png")
    (True, True, False)
    """
    return _TEXTUAL.fullmatch(mime_type.partition(";")[0].strip().lower()) is not None
