"""A wire whose messages are recorded; it stands apart because a client needs no server."""

from accord.protocol.exchange import Exchange
from accord.runtime.wire import Lost, Receive, Wire, WireListener
from accord.testing.recording import Observer


class TappedWire:
    """A wire that passes everything on unchanged, and records it first."""

    def __init__(self, inner: Wire, recording: Observer) -> None:
        self.inner = inner
        self._recording = recording

    def report_to(self, listener: WireListener) -> None:
        """Pass the listener on, if the inner wire takes one."""
        if hasattr(self.inner, "report_to"):
            self.inner.report_to(listener)

    @property
    def is_congested(self) -> bool:
        """Whether the server is slow to read."""
        return self.inner.is_congested

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Make the connection."""
        recording = self._recording

        def record_and_receive(data: bytes) -> None:
            recording.observe("server", data)
            receive(data)

        await self.inner.open(record_and_receive, lost)

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Send one message."""
        # Before it is sent: in memory the answer arrives before the call returns.
        self._recording.observe("client", data)
        self.inner.write(data, exchange)

    async def writable(self) -> None:
        """Wait until the server has read most of the sent data."""
        await self.inner.writable()

    async def close(self) -> None:
        """Close the connection in an orderly way."""
        await self.inner.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.inner.abort()
