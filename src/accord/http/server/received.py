"""The head of a request as the listener receives it, and the head that the next one will repeat."""

import re
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from accord.http.parser import HttpParserInvalidURLError, parse_url
from accord.http.server.exchange import Headers, join_headers

_LENGTH: Final = b"content-length"
_PLAIN_PATH: Final = re.compile(rb"/[A-Za-z0-9/._~-]*")
# What makes a request more than a head and a body of known length.
_UNUSUAL: Final = (b"transfer-encoding", b"expect", b"upgrade")
# Longer heads are parsed each time: they would have to be kept for each connection.
_HEAD_MOST: Final = 4096
# Bodies of more digits are parsed each time; they cost more than their head.
_DIGITS_MOST: Final = 7
# What a header takes beside its bytes: five objects, and places in a list and a table.
_FIELD_COST: Final = 256


class ReceivedHead:
    """The head of a request.

    Attributes:
        method: as it was sent.
        target: as it was sent.
        version: "1.1" or "1.0".
        fields: the headers in order; names are lower case.
        headers: the same by name; repeated ones are joined, so that no allow-list matches them.
        repeated: the names of headers that occur more than once.
        is_kept_alive: whether the client wants to send more requests on the connection.
        path: the decoded path.
        query: the query string.
        verdict: what the app has decided about it; kept for the next request with the same head.
    """

    __slots__ = (
        "fields",
        "headers",
        "is_kept_alive",
        "method",
        "path",
        "query",
        "raw_path",
        "repeated",
        "target",
        "verdict",
        "version",
    )

    def __init__(
        self, method: str, target: bytes, version: str, fields: Headers, *, is_kept_alive: bool
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.fields = fields
        self.is_kept_alive = is_kept_alive
        self.headers, self.repeated = join_headers(fields)
        self.path = ""
        self.raw_path = self.query = b""
        self.verdict: Any = None

    def _size(self) -> int:
        return len(self.target) + sum(len(name) + len(value) for name, value in self.fields)

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return self._size() + _FIELD_COST * len(self.fields)

    def find_fault(self, most: int | None) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal, for what the parser lets through.

        It reads requests of HTTP/0.9 and 2.0 as if they were of 1.1, and takes a body for chunked
        whatever other coding it has.

        Args:
            most: how many bytes it may have, where that is in doubt.
        """
        if most is not None and self._size() > most:
            return 431, f"headers exceed {most} bytes"
        version = self.version
        if version not in ("1.1", "1.0"):
            return 505, "the version of HTTP is not 1.1 or 1.0"
        coding = self.headers.get(b"transfer-encoding")
        if coding is None:
            return None
        if version == "1.0":  # RFC 9112, 6.1: its framing is faulty
            return 400, "HTTP/1.0 has no Transfer-Encoding"
        return None if coding.lower() == b"chunked" else (501, "only chunked is a known coding")

    def parse_target(self) -> str | None:
        """Find the path and the query; return what is wrong with them, if anything is."""
        target = self.target
        if _PLAIN_PATH.fullmatch(target):
            self.raw_path = target
            self.path = target.decode("ascii")
            return None
        try:
            parsed = parse_url(target)
        except HttpParserInvalidURLError:
            return "the target of the request is not a path"
        if parsed.schema is not None:
            # RFC 9112, 3.2.2: a target with a host replaces the Host header. One that says
            # something else is refused: a proxy in between may have believed the other.
            if parsed.schema.lower() not in (b"http", b"https"):
                return "the target of the request is not of HTTP"
            host = parsed.host or b""
            port = b":%d" % parsed.port if parsed.port else b""
            if self.headers.get(b"host", b"").lower() not in (host.lower(), host.lower() + port):
                return "the Host header differs from the host in the target"
        self.raw_path = parsed.path or b"/"
        self.query = parsed.query or b""
        path = self.raw_path.decode("latin-1")
        self.path = unquote(path) if "%" in path else path
        return None

    def without_headers(self) -> "ReceivedHead":
        """Return what a response under way needs of the head: the method and the version."""
        return _head_of(self.method, self.version)

    def with_length(self, digits: bytes) -> "ReceivedHead":
        """Return the same head for a body of another length."""
        other = ReceivedHead.__new__(ReceivedHead)
        other.method, other.target, other.version = self.method, self.target, self.version
        other.is_kept_alive, other.repeated = self.is_kept_alive, self.repeated
        other.path, other.raw_path, other.query = self.path, self.raw_path, self.query
        other.verdict = self.verdict
        other.headers = {**self.headers, _LENGTH: digits}
        other.fields = [(name, digits if name == _LENGTH else value) for name, value in self.fields]
        return other


@lru_cache(maxsize=64)
def _head_of(method: str, version: str) -> ReceivedHead:
    return ReceivedHead(method, b"", version, [], is_kept_alive=True)


class RepeatedHead:
    """Recognises the head of the next request without parsing it.

    A client that keeps its connection sends the same head again and again. Only the digits of its
    length differ. The parser has accepted the head once, at the beginning of a message; the same
    bytes at the beginning of another message mean the same. So comparing them is as strict as
    parsing them, and takes a tenth of the time.
    """

    __slots__ = ("_after", "_before", "_digits", "head")

    def __init__(self, head: ReceivedHead, before: bytes, digits: bytes, after: bytes) -> None:
        self.head = head
        self._before = before
        self._digits = digits
        self._after = after

    @classmethod
    def learn(cls, head: ReceivedHead, data: bytes) -> "RepeatedHead | None":
        """Return what recognises a head, if all of a request arrived as these bytes.

        None if the request has more than a head and a body of known length.
        """
        headers = head.headers
        digits = headers.get(_LENGTH, b"")
        is_plain = digits.isdigit() and len(digits) <= _DIGITS_MOST and head.version == "1.1"
        is_plain = is_plain and head.is_kept_alive and not head.repeated
        if not is_plain or any(name in headers for name in _UNUSUAL):
            return None
        size = len(data) - int(digits)
        if not 0 < size <= _HEAD_MOST or data[size - 4 : size] != b"\r\n\r\n":
            return None
        whole = data[:size]
        lowered = whole.lower()
        at = lowered.find(b"\r\n" + _LENGTH + b":")
        if at < 0 or lowered.count(_LENGTH) != 1 or whole.count(b"\r\n\r\n") != 1:
            return None
        end = whole.index(b"\r\n", at + 2)
        start = end - len(digits)
        if whole[start:end] != digits or whole[start - 1 : start] not in (b" ", b":"):
            return None
        return cls(head, whole[:start], digits, whole[end:])

    def match(self, data: bytes) -> "tuple[ReceivedHead, bytes] | None":
        """Return the head and the body if the bytes are one whole request with this head."""
        before = self._before
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r\n", start, start + _DIGITS_MOST + 2)
        digits = data[start:end]
        after = self._after
        if end < 0 or not digits.isdigit() or not data.startswith(after, end):
            return None
        body = end + len(after)
        if len(data) - body != int(digits):
            return None
        head = self.head
        if digits != self._digits:
            head = self.head = head.with_length(digits)
            self._digits = digits
        return head, data[body:]
