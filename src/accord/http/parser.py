r"""httptools, if its version keeps requests apart: an older one is refused before a socket opens.

Before 0.6.4 it took a folded header, a bare line feed at the end of the head, and `\r\n\rX` in
place of its empty line. A proxy that reads these in another way sees other requests than we do.
"""

from typing import Final

from httptools import (
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
    __version__,
    parse_url,
)

from accord.errors import OutdatedPackage

__all__ = [
    "HttpParserError",
    "HttpParserInvalidURLError",
    "HttpParserUpgrade",
    "HttpRequestParser",
    "HttpResponseParser",
    "parse_url",
]

_LEAST: Final = (0, 6, 4)


def _read_version(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(".")[:3] if each.isdecimal())


if _read_version(__version__) < _LEAST:
    raise OutdatedPackage(
        "httptools", __version__, ".".join(map(str, _LEAST)), extra="http", needed_for="HTTP"
    )
