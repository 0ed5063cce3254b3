"""Event streams: an encoder, and a decoder that takes bytes as they come.

Of the event-stream format only what the protocol uses: event names, data, ids, retry, comments.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from accord.errors import RemoteProtocolError
from accord.protocol.json_text import FRAGMENT

CONTENT_TYPE: Final = "text/event-stream"
# Without a blank line, which some decoders take for the end of an event.
KEEP_ALIVE: Final = b": keep-alive\n"
# Years; a longer time is a mistake, or an attempt to make us parse it.
_RETRY_DIGITS: Final = 12
# Ids come back in a header, and servers take heads of 8 KB (nginx, Node.js 16 KB) in all.
_ID_BYTES: Final = 1_024
# The names in use are "message" and "endpoint"; a truncated one equals neither.
_NAME_BYTES: Final = 100
# Small pieces of a line are joined, so that a line sent byte by byte does not cost an object each.
_PIECE: Final = 4_096
# Nothing that ends is this many times larger than what may be sent.
_ENDLESS: Final = 16
# "data: " and the line end around a message that is as long as the limit.
_DATA_FIELD: Final = 7


class Event(msgspec.Struct, frozen=True):
    """One event. `id` is its own; None where it has none.

    `lost` is how the data began and ended, of an event that was too long to be kept; its end is
    empty as long as it has not come.
    """

    data: bytes
    name: str = "message"
    id: str | None = None
    lost: tuple[bytes, bytes] | None = None


def encode(
    data: bytes, *, name: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Make an event; a message never holds a raw newline, other data may.

    Args:
        data: what it carries.
        name: what it is called.
        id: where a reader may take up the stream again.
        retry: milliseconds that the reader should wait before it does.
    """
    head = b"" if retry is None else b"retry: %d\n" % retry
    if name is not None:
        head += b"event: %b\n" % name.encode()
    if id is not None:
        head += b"id: %b\n" % id.encode()
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"%bdata: %b\n\n" % (head, data)


class EventTooLong(RemoteProtocolError):
    """An event, or the id of one, outgrew its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"event exceeds the limit of {limit} bytes; limits=Limits(message_bytes=...) raises it"
        )


class EventIdTooLong(EventTooLong):
    """The id of an event is longer than a reader keeps or sends back."""

    def __init__(self) -> None:
        RemoteProtocolError.__init__(self, f"event id exceeds the limit of {_ID_BYTES} bytes")


class Decoder:
    """Reads events from chunks of bytes, cut anywhere.

    `last_id` is where a reader may take the stream up again: the id that was named last, once the
    event that named it is complete. `retry`, in milliseconds, counts as soon as it is said.

    Args:
        limit: the most bytes of an event.
        with_empty: also yield events that have an id or a name, but no data; readers skip them, and
            recordings keep them.
        with_lost: also yield the beginning and then both ends of an event that is too long, unless
            it is endless, rather than raise.
    """

    def __init__(
        self,
        limit: int = 16 * 1024 * 1024,
        *,
        with_empty: bool = False,
        with_lost: bool = False,
    ) -> None:
        self.limit = limit
        self.with_empty = with_empty
        self.with_lost = with_lost
        self.last_id: str | None = None
        self.retry: int | None = None
        self._rest: list[bytes] = []
        self._size = 0
        self._after_return = False
        self._begun = False
        # The text of the first data line; those that follow it are appended to a bytearray.
        self._data: bytes | bytearray | None = None
        self._data_size = 0
        self._name = b""
        self._id: str | None = None
        # The ends of the data of an event that is too long, and whether we are within its line.
        self._lost: tuple[bytes, bytes] | None = None
        self._lost_size = 0
        self._is_within = self._is_told = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that a chunk completes; those without data are usually left out.

        Raises:
            EventTooLong: a line, an event or an id outgrew its limit.
        """
        self._lost_size += len(chunk) if self._lost is not None else 0
        if self._lost_size > _ENDLESS * self.limit:
            raise EventTooLong(self.limit)
        for line in self._lines(chunk):
            if line:
                self._line(line)
            elif (event := self._dispatch()) is not None:
                yield event
        if self._lost is not None and not self._is_told:
            self._is_told = True
            yield Event(b"", "message", self._id, (self._lost[0], b""))

    def restart(self) -> None:
        """Forget an incomplete event: another response continues the stream."""
        self._rest.clear()
        self._data = None
        self._size = self._data_size = 0
        self._name, self._id = b"", None
        self._lost, self._lost_size = None, 0
        self._is_within = self._is_told = False
        self._after_return = self._begun = False

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
            if self._is_within:
                self._lose(part)
                self._is_within = False
                continue
            if self._rest:
                self._rest.append(part)
                part = b"".join(self._rest)
                self._rest.clear()
                self._size = 0
            yield part
        if rest and self._is_within:
            self._lose(rest)
        elif rest:
            if self._rest and len(self._rest[-1]) < _PIECE:
                self._rest[-1] += rest
            else:
                self._rest.append(rest)
            self._size += len(rest)
            if self._size > self.limit:
                name, _, value = b"".join(self._rest).partition(b":")
                self._lose(value.removeprefix(b" ") if name == b"data" else b"")
                self._rest.clear()
                self._size, self._is_within = 0, True

    def _lose(self, text: bytes) -> None:
        """Keep the ends of the data of an event that is too long.

        Raises:
            EventTooLong: nothing is to be kept.
        """
        if not self.with_lost:
            raise EventTooLong(self.limit)
        if self._lost is None:
            head = bytes(self._data or b"")[:FRAGMENT]
            self._lost, self._data = ((head + text[:FRAGMENT])[:FRAGMENT], b""), None
        head, tail = self._lost
        self._lost = head, (tail + text[-FRAGMENT:])[-FRAGMENT:]

    def _line(self, line: bytes) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            # Lines count whole: those without text cost memory too.
            self._data_size += len(line) + 1
            if self._lost is not None or self._data_size > self.limit + _DATA_FIELD:
                self._lose(value)
            elif self._data is None:
                self._data = value
            elif isinstance(self._data, bytearray):
                self._data += b"\n"
                self._data += value
            else:
                self._data = bytearray(self._data + b"\n" + value)
        elif name == b"event":
            self._name = value[:_NAME_BYTES]
        elif name == b"id" and b"\0" not in value:
            if len(value) > _ID_BYTES:
                raise EventIdTooLong
            self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            self.retry = int(value)

    def _dispatch(self) -> Event | None:
        self._begun = True
        data, name, id = self._data, self._name, self._id
        if id is not None:
            self.last_id = id
            self._id = None
        if name:
            self._name = b""
        self._data, self._data_size = None, 0
        if self._lost is not None:
            lost, self._lost = self._lost, None
            self._lost_size, self._is_told = 0, False
            return Event(b"", "message", id, lost)
        if not data and not (self.with_empty and (id is not None or name or data is not None)):
            return None
        return Event(bytes(data or b""), name.decode(errors="replace") or "message", id)
