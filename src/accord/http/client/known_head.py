"""The head of a JSON answer that the parser has accepted, to recognize the next one by.

The answers of one server differ in their length alone, as a rule, and in the date once a second.
Bytes that equal an accepted head mean what that head meant, wherever a response may begin.
"""

import re
from collections.abc import Mapping
from typing import Final

# The media types of an answer that is one JSON message; the empty one stands for a missing header.
JSON_TYPES: Final = ("application/json", "")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ?([0-9]+)\r\n", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
# Longer bodies come in several reads.
_MOST_DIGITS: Final = 6
# A head with one of these has a meaning beyond the answer, or another framing.
_UNFIT: Final = (b"set-cookie", b"transfer-encoding", b"content-encoding")


class KnownHead:
    """A head, but for the digits of its length.

    Args:
        before: its bytes up to the digits.
        after: its bytes after them, with the blank line.
        headers: as the parser has read them.
    """

    __slots__ = ("_after", "_before", "_start", "headers")

    def __init__(self, before: bytes, after: bytes, headers: dict[bytes, bytes]) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self.headers = headers

    def find_body(self, data: bytes) -> bytes | None:
        """Return the body of a response with this head, if the data is the whole of it."""
        if not data.startswith(self._before):
            return None
        start = self._start
        end = data.find(b"\r", start, start + _MOST_DIGITS + 1)
        digits = data[start:end]
        if not digits.isdigit() or not data.startswith(self._after, end):
            return None
        body = data[end + len(self._after) :]
        return body if len(body) == int(digits) else None


def learn_head(data: bytes, headers: dict[bytes, bytes], body: bytes) -> KnownHead | None:
    """Return the head of a response that the parser has read in one piece, if it may be repeated.

    Args:
        data: the response, from its first byte to its last.
        headers: as the parser has read them.
        body: as the parser has read it.
    """
    head = data[: len(data) - len(body)]
    found = _LENGTH.search(head)
    if found is None or not _is_fit(headers) or head.find(_END) != len(head) - len(_END):
        return None
    if found[1] != headers.get(b"content-length") or int(found[1]) != len(body):
        return None
    return KnownHead(head[: found.start(1)], head[found.end(1) :], headers)


def _is_fit(headers: Mapping[bytes, bytes]) -> bool:
    return not any(name in headers for name in _UNFIT)
