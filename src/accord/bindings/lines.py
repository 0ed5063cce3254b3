"""Newline framing with a size limit: chunks in, whole lines out.

A line that outgrows the limit is reported once and skipped to its end: it costs no memory, and no
later message.
"""

from collections.abc import Iterator
from typing import Final

from accord.errors import RemoteProtocolError

LINE_LIMIT: Final = 16 * 1024 * 1024


class LineTooLong(RemoteProtocolError):
    """A line was longer than the limit and is lost."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"line exceeds the limit of {limit} bytes (message_bytes)")


class LineReader:
    """Cuts a stream of bytes into lines; each new byte is looked at once."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self.limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | LineTooLong]:
        """Yield the lines that a chunk completes, without their ends; blank ones are skipped."""
        whole: list[bytes] = []
        rest = chunk
        if b"\n" in chunk:  # splitting looks at each byte, searching at many at once
            *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._skipping:
                self._skipping = False
                continue
            if self._pending:
                self._pending.append(part)
                line = b"".join(self._pending)
                self._pending.clear()
                self._size = 0
            else:
                line = part
            if len(line) > self.limit:
                yield LineTooLong(self.limit)
            elif line and not line.isspace():
                yield line
        if rest and not self._skipping:
            self._pending.append(rest)
            self._size += len(rest)
            if self._size > self.limit:
                self._pending.clear()
                self._size = 0
                self._skipping = True
                yield LineTooLong(self.limit)

    def end(self) -> bytes | None:
        """Return a last line that has no end, if there is one."""
        line = b"".join(self._pending).strip()
        self._pending.clear()
        self._size = 0
        return line or None
