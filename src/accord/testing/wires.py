"""A wire with an observer."""

from accord.protocol.exchange import Exchange
from accord.testing.recording import Recording
from accord.transports.wire import Lost, Receive, Wire, WireListener


class TappedWire:
    """Passes everything on as it is, and lets a recording observe it first."""

    def __init__(self, inner: Wire, recording: Recording) -> None:
        self.inner = inner
        self._recording = recording

    def report_to(self, watcher: WireListener) -> None:
        """Serve this party, where the wire wants to know."""
        if hasattr(self.inner, "report_to"):
            self.inner.report_to(watcher)

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
        # Before it is sent: in memory the answer is there when the call returns.
        self._recording.observe("client", data)
        self.inner.write(data, exchange)

    async def writable(self) -> None:
        """Wait until the server has read most of what was sent."""
        await self.inner.writable()

    async def close(self) -> None:
        """End the connection in good order."""
        await self.inner.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.inner.abort()
