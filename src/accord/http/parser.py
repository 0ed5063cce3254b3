r"""httptools, if its version keeps requests apart: an older one is refused before a socket opens.

Before 0.6.4 it took a folded header, a bare line feed at the end of the head, and `\r\n\rX` in
place of its empty line. A proxy that reads these in another way sees other requests than we do.

And heads that it has accepted (`KnownHead`), to recognise the next ones by.
"""

import re
from typing import Final, Generic, TypeVar

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
    "DIGITS_MOST",
    "HttpParserError",
    "HttpParserInvalidURLError",
    "HttpParserUpgrade",
    "HttpRequestParser",
    "HttpResponseParser",
    "KnownHead",
    "parse_url",
]

_LEAST: Final = (0, 6, 4)
# A longer body costs more than its head: such messages are parsed each time.
DIGITS_MOST: Final = 7
_LENGTH: Final = re.compile(
    rb"\r\n(content-length): ?([0-9]{1,%d})\r\n" % DIGITS_MOST, re.IGNORECASE
)
_END: Final = b"\r\n\r\n"

Meaning = TypeVar("Meaning")


def _read_version(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(".")[:3] if each.isdecimal())


if _read_version(__version__) < _LEAST:
    raise OutdatedPackage(
        "httptools", __version__, ".".join(map(str, _LEAST)), extra="http", needed_for="HTTP"
    )


class KnownHead(Generic[Meaning]):
    """The head of a message that the parser has accepted, but for the digits of its length.

    A peer that keeps its connection sends the same head again and again: as a rule only the length
    differs. The parser has accepted it at the beginning of a message; the same bytes at the
    beginning of another message mean the same. So comparing them is as strict as parsing them, and
    takes a tenth of the time.

    Attributes:
        meaning: what its reader has made of it.
    """

    __slots__ = ("_after", "_before", "_start", "meaning")

    def __init__(self, before: bytes, after: bytes, meaning: Meaning) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self.meaning = meaning

    @classmethod
    def learn(
        cls, head: bytes, length: bytes | None, meaning: Meaning
    ) -> "KnownHead[Meaning] | None":
        """Return what recognises a head; None unless it has one length, in its plain form.

        Args:
            head: its bytes, with the empty line.
            length: as the parser has read it.
            meaning: what its reader has made of it.
        """
        found = _LENGTH.search(head)
        if found is None or found[2] != length or head.lower().count(found[1].lower()) != 1:
            return None
        if head.find(_END) != len(head) - len(_END):
            return None
        return cls(head[: found.start(2)], head[found.end(2) :], meaning)

    def find(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return the digits of the length and the body, if the data is a message with this head.

        It has to be one message, and the whole of it.
        """
        if not data.startswith(self._before):
            return None
        start, after = self._start, self._after
        end = data.find(b"\r", start, start + DIGITS_MOST + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(after, end):
            return None
        body = end + len(after)
        return (digits, data[body:]) if len(data) - body == int(digits) else None
