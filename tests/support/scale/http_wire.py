"""HTTP/1.1 and event streams as a client reads them, byte by byte as they come.

Independent of the library on purpose: what a worker sends is read by other code than its own.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass


class WireBroken(Exception):
    """The connection could not be made, or ended before the response was complete."""


class WireSilent(WireBroken):
    """Nothing came for too long."""


@dataclass
class SentEvent:
    """One event of a stream."""

    data: str
    name: str = "message"
    id: str | None = None
    retry: int | None = None


class EventParser:
    """Parses an event stream from pieces cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._name = "message"
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, piece: bytes) -> list[SentEvent]:
        """Return the events that a piece completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found = [self._take(line.decode().rstrip("\r")) for line in lines]
        return [event for event in found if event is not None]

    def _take(self, line: str) -> SentEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id":
            self._id = value
        elif field == "retry" and value.isdigit():
            self._retry = int(value)
        return None

    def _dispatch(self) -> SentEvent | None:
        event = SentEvent("\n".join(self._data), self._name, self._id, self._retry)
        has_any = bool(self._data) or event.id is not None or event.retry is not None
        self._data, self._name, self._id, self._retry = [], "message", None, None
        return event if has_any else None


class Reply:
    """The response to one request: its head at once, its body as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def is_stream(self) -> bool:
        return self.status == 200 and self.kind == "text/event-stream"

    @property
    def worker(self) -> int | None:
        """The worker that answered, as the balancer says; None if the balancer itself did."""
        number = self.headers.get("x-served-by")
        return None if number is None else int(number)

    async def read_head(self, within: float) -> None:
        head = await self._bounded(self._reader.readuntil(b"\r\n\r\n"), within)
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.status = int(first.split(" ")[1])
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def _bounded(self, work: "asyncio._CoroutineLike[bytes]", within: float) -> bytes:
        try:
            async with asyncio.timeout(within):
                return await work
        except TimeoutError:
            raise WireSilent(f"nothing came for {within:g} s") from None
        except (OSError, EOFError) as error:
            raise WireBroken(f"the connection ended: {type(error).__name__}") from None

    async def pieces(self, silence: float) -> AsyncIterator[bytes]:
        """Yield the body as it comes.

        Raises:
            WireBroken: it ended before it was complete, or nothing came for so many seconds.
        """
        if "content-length" in self.headers:
            left = int(self.headers["content-length"])
            async for piece in self._exactly(left, silence):
                yield piece
        elif self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self._bounded(self._reader.readuntil(b"\r\n"), silence), 16):
                async for piece in self._exactly(size, silence):
                    yield piece
                await self._bounded(self._reader.readexactly(2), silence)
            await self._bounded(self._reader.readexactly(2), silence)
        elif self.status not in (202, 204, 304):
            while piece := await self._bounded(self._reader.read(1 << 16), silence):
                yield piece
        self.is_complete = True

    async def _exactly(self, left: int, silence: float) -> AsyncIterator[bytes]:
        while left:
            piece = await self._bounded(self._reader.read(min(left, 1 << 16)), silence)
            if not piece:
                raise WireBroken("the connection ended within the body")
            left -= len(piece)
            yield piece

    async def body(self, within: float) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces(within)])

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


async def send(
    port: int,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes | None = None,
    *,
    within: float,
) -> Reply:
    """Send a request on a connection of its own, and return the response with its head read.

    Raises:
        WireBroken: there is no response.
    """
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise WireBroken(f"no connection: {error}") from None
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
    reply = Reply(reader, writer)
    try:
        await reply.read_head(within)
    except BaseException:
        writer.transport.abort()
        raise
    return reply
