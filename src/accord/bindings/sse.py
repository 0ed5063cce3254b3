"""Event streams: an encoder, and a decoder that takes bytes as they come.

Of the event-stream format only what the protocol uses: event names, data, ids, retry, comments.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from accord.errors import RemoteProtocolError

CONTENT_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": keep-alive\n\n"


class Event(msgspec.Struct, frozen=True):
    """One event. `id` is the last id the stream has named, `retry` in milliseconds."""

    data: str
    name: str = "message"
    id: str | None = None
    retry: int | None = None


def encode(data: bytes, *, name: str | None = None, id: str | None = None) -> bytes:
    """Make an event; a message never holds a raw newline, other data may."""
    head = b""
    if name is not None:
        head += b"event: %b\n" % name.encode()
    if id is not None:
        head += b"id: %b\n" % id.encode()
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"%bdata: %b\n\n" % (head, data)


def encode_retry(milliseconds: int) -> bytes:
    """Tell the client how long to wait before it comes back."""
    return b"retry: %d\n\n" % milliseconds


class EventTooLong(RemoteProtocolError):
    """An event outgrew the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"event exceeds the limit of {limit} bytes (message_bytes)")


class Decoder:
    """Reads events from chunks of bytes, cut anywhere.

    `last_id` and `retry` keep what the stream said last, also outside of events.
    """

    def __init__(self, limit: int = 16 * 1024 * 1024) -> None:
        self.limit = limit
        self.last_id: str | None = None
        self.retry: int | None = None
        self._rest: list[bytes] = []
        self._size = 0
        self._after_return = False
        self._begun = False
        self._data: list[str] = []
        self._data_size = 0
        self._name = ""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that a chunk completes.

        Raises:
            EventTooLong: a line or an event outgrew the limit.
        """
        for line in self._lines(chunk):
            event = self._line(line)
            if event is not None:
                yield event

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._after_return and chunk:
            self._after_return = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._rest:
                self._rest.append(part)
                part = b"".join(self._rest)
                self._rest.clear()
                self._size = 0
            yield part
        if rest:
            self._rest.append(rest)
            self._size += len(rest)
            if self._size > self.limit:
                raise EventTooLong(self.limit)

    def _line(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode(errors="replace")
        if name == b"data":
            self._data.append(text)
            self._data_size += len(text)
            if self._data_size > self.limit:
                raise EventTooLong(self.limit)
        elif name == b"event":
            self._name = text
        elif name == b"id" and "\0" not in text:
            self.last_id = text
        elif name == b"retry" and text.isascii() and text.isdigit():
            self.retry = int(text)
        return None

    def _dispatch(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._name, self._data_size = [], "", 0
        if not data:
            return None
        return Event("\n".join(data), name or "message", self.last_id, self.retry)
