"""The ends of a connection, and how fast its client reads."""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accord.http.server.listener import HttpListener

# asyncio would allocate four times as much for each read.
_READ: Final = 64 * 1024


class SocketFlow(asyncio.Protocol):
    """A connection of the listener, as far as it does not depend on what is sent.

    Attributes:
        listener: what all connections share.
        loop: the event loop.
        transport: the socket.
    """

    transport: asyncio.Transport
    is_congested = False
    """Whether the client has left too much unread."""
    _paused_since: float | None = None
    _unread = 0
    _collected: bytes | None = None
    _drained: asyncio.Future[None] | None = None

    def __init__(self, listener: "HttpListener") -> None:
        self.listener = listener
        self.loop = listener.loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # it is one for reading and writing
        if hasattr(transport, "max_size"):
            transport.max_size = _READ

    @property
    def client(self) -> tuple[str, int] | None:
        """The address and port of the other end; None for a Unix socket."""
        peer = self.transport.get_extra_info("peername")
        return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None

    @property
    def server(self) -> tuple[str, int | None] | None:
        """The address and port of our end; the path of a Unix socket."""
        name = self.transport.get_extra_info("sockname")
        if isinstance(name, tuple):
            return str(name[0]), int(name[1])
        return (str(name), None) if name else None

    @property
    def scheme(self) -> str:
        """Either http or https."""
        return "http" if self.transport.get_extra_info("sslcontext") is None else "https"

    # -- writing

    def write(self, data: bytes) -> None:
        """Write bytes, or keep them for as long as the listener collects what it writes."""
        if not self.listener.is_collecting:
            self.transport.write(data)
        elif self._collected is None:
            self._collected = data
            self.listener.add_writer(self)
        else:
            self._collected += data

    def flush(self) -> None:
        """Write what was collected."""
        data, self._collected = self._collected, None
        if data is not None:
            self.transport.write(data)

    def close(self) -> None:
        """End the connection once everything is written."""
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def end_writing(self) -> bool:
        """End our side of the connection, or all of it; return whether the other side is open."""
        if not self.transport.can_write_eof():
            self.close()
            return False
        self.flush()
        try:
            self.transport.write_eof()
        except OSError:  # the client has reset the connection
            self.transport.abort()
            return False
        return True

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or is gone."""
        if self.is_congested:
            if self._drained is None:
                self._drained = self.loop.create_future()
            await asyncio.shield(self._drained)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._paused_since = self.listener.now
        self._unread = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._paused_since = None
        self.release_writers()

    def release_writers(self) -> None:
        """Let go on what waits for the client to read."""
        self.is_congested = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def unread(self, now: float) -> tuple[float, int]:
        """Return since when the client has not read, and how many bytes wait for it."""
        if self._paused_since is None:
            return now, 0
        left = self.transport.get_write_buffer_size()
        if left < self._unread:
            self._paused_since = now
        self._unread = left
        return self._paused_since, left
