"""What `connect` is given: a target whose wire is logged, and whose end is noticed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from accord.client.options import ClientSettings, ConnectOptions
from accord.runtime.wire import Lost, Receive, Wire
from accord.stdio.client import Process
from accord.testing.http_wires import TappedHttpWire
from accord.testing.tapped_wire import TappedWire
from accord_tools.inspector.definition import InspectTarget
from accord_tools.inspector.live.capture import CapturingObserver

if TYPE_CHECKING:
    from accord.stdio.child import StderrSink

OnLost: TypeAlias = Callable[[str, int | None], None]
"""Called with the reason, and with the exit code of a launched server."""


class InspectedWire(TappedWire):
    """A logged wire to a launched server."""

    def __init__(self, process: Process, observer: CapturingObserver, on_lost: OnLost) -> None:
        super().__init__(process, observer)
        self._process = process
        self._on_lost = on_lost

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Launch the server."""

        def note_and_lose(why: str) -> None:
            lost(why)
            self._on_lost(why, self._process.child.exit_code)

        await super().open(receive, note_and_lose)


class InspectedHttpWire(TappedHttpWire):
    """A logged wire over HTTP."""

    def __init__(
        self,
        url: str,
        observer: CapturingObserver,
        settings: ClientSettings,
        on_lost: OnLost,
    ) -> None:
        super().__init__(url, observer, settings)
        self._on_lost = on_lost

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Connect."""

        def note_and_lose(why: str) -> None:
            lost(why)
            self._on_lost(why, None)

        await super().open(receive, note_and_lose)


class InspectedTarget:
    """A target for `connect`; each wire to it is logged.

    Args:
        target: the server.
        options: the options of the connection; those of the transport are used here.
        observer: takes all messages.
        on_lost: called when the connection is lost.
        on_retry: called before a server is launched another time.
    """

    def __init__(
        self,
        target: InspectTarget,
        options: ConnectOptions,
        observer: CapturingObserver,
        *,
        on_lost: OnLost,
        on_retry: Callable[[], object],
    ) -> None:
        self._target = target
        self._options = options
        self._observer = observer
        self._on_lost = on_lost
        self._on_retry = on_retry
        self._wires = 0

    async def connect_memory(self) -> Wire:
        """Return a wire, the name that `connect` calls."""
        self._wires += 1
        if self._wires > 1:
            # A server that did not understand the first opening is launched again.
            self._observer.begin_anew()
            self._on_retry()
        if self._target.url:
            return self._http_wire()
        options = self._options
        stderr: StderrSink = options.get("stderr", "keep")
        process = Process(
            list(self._target.command),
            env=options.get("env"),
            cwd=options.get("cwd"),
            stderr=stderr,
        )
        return InspectedWire(process, self._observer, self._on_lost)

    def _http_wire(self) -> Wire:
        settings = ClientSettings(**self._options)
        return InspectedHttpWire(self._target.url, self._observer, settings, self._on_lost)
