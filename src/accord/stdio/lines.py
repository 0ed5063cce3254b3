"""Newline framing with a size limit: chunks in, whole lines out.

A line that outgrows the limit is reported once and skipped to its end: it costs no memory, and no
later message. Its beginning and its end are looked at, because they name the request that it asks
or answers.
"""

from collections.abc import Iterator
from typing import Final

from accord.protocol.json_text import FRAGMENT, may_be_message, read_envelope
from accord.protocol.jsonrpc import BeyondLimits, Kind
from accord.types._base import RequestId

LINE_LIMIT: Final = 16 * 1024 * 1024
# Nothing that ends is this many times larger than what may be sent.
_ENDLESS: Final = 16


class LineTooLong(BeyondLimits):
    """A line was longer than the limit and is lost; `id` and `kind` are what it shows of itself."""

    def __init__(
        self, limit: int, *, id: RequestId | None = None, kind: Kind | None = None
    ) -> None:
        excess = f"exceeds the limit of {limit} bytes (message_bytes)"
        super().__init__(excess, "message_bytes", what="line", id=id, kind=kind)


class _Skipped:
    """A line above the limit of which only both ends are kept."""

    def __init__(self, limit: int, beginning: list[bytes]) -> None:
        self._limit = limit
        self._head = b"".join(part[:FRAGMENT] for part in beginning[:FRAGMENT])[:FRAGMENT]
        self._tail = b""
        self._size = 0
        self._is_reported = False
        self._is_named = False
        for part in beginning[-FRAGMENT:]:
            self.add(part)

    def add(self, part: bytes) -> None:
        self._size += len(part)
        self._tail = (self._tail + part[-FRAGMENT:])[-FRAGMENT:]

    def report(self, *, is_whole: bool) -> LineTooLong | None:
        """Return what there is to say now: the id when it shows, or that none will show.

        A line that does not end is refused without an id after a while; if its end names one all
        the same, that request is refused, too.
        """
        id, kind = read_envelope(self._head, self._tail if is_whole else b"")
        if self._is_reported:
            is_due = is_whole and id is not None and not self._is_named
        else:
            is_endless = self._size > _ENDLESS * self._limit
            is_due = id is not None or is_whole or is_endless or not may_be_message(self._head)
        if not is_due:
            return None
        self._is_reported = True
        self._is_named = id is not None
        return LineTooLong(self._limit, id=id, kind=kind)


class LineReader:
    """Cuts a stream of bytes into lines; each new byte is looked at once."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self.limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._skipped: _Skipped | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes | LineTooLong]:
        """Return the lines that a chunk completes, without their ends; blank ones are skipped."""
        is_inside = self._pending or self._skipped is not None
        if not is_inside and chunk.endswith(b"\n") and len(chunk) <= self.limit:
            # Nearly all chunks are whole lines: half of the time for each of them.
            *lines, _ = chunk.split(b"\n")
            if not any(map(bytes.isspace, lines)) and all(lines):
                return iter(lines)
        return self._feed(chunk)

    def _feed(self, chunk: bytes) -> Iterator[bytes | LineTooLong]:
        whole: list[bytes] = []
        rest = chunk
        if b"\n" in chunk:  # splitting looks at each byte, searching at many at once
            *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._skipped is not None:
                self._skipped.add(part)
                report = self._skipped.report(is_whole=True)
                self._skipped = None
                if report is not None:
                    yield report
                continue
            if self._pending:
                self._pending.append(part)
                line = b"".join(self._pending)
                self._pending.clear()
                self._size = 0
            else:
                line = part
            if len(line) > self.limit:
                id, kind = read_envelope(line[:FRAGMENT], line[-FRAGMENT:])
                yield LineTooLong(self.limit, id=id, kind=kind)
            elif line and not line.isspace():
                yield line
        if rest:
            yield from self._keep(rest)

    def _keep(self, rest: bytes) -> Iterator[LineTooLong]:
        """Keep the beginning of a line, unless it is too long already."""
        if self._skipped is not None:
            self._skipped.add(rest)
        else:
            self._pending.append(rest)
            self._size += len(rest)
            if self._size <= self.limit:
                return
            self._skipped = _Skipped(self.limit, self._pending)
            self._pending.clear()
            self._size = 0
        report = self._skipped.report(is_whole=False)
        if report is not None:
            yield report

    def end(self) -> bytes | None:
        """Return a last line that has no end, if there is one."""
        line = b"".join(self._pending).strip()
        self._pending.clear()
        self._size = 0
        return line or None
