"""Targets that keep the texts of requests and their answers for the work that sent them.

Results are shown as they came: nothing that was decoded and encoded again takes their place.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from accord.client.options import ClientSettings, ConnectOptions
from accord.client.server_spec import ServerSpec
from accord.runtime.wire import Lost, Receive, Wire
from accord.stdio.client import Process
from accord.testing.http_wires import TappedHttpWire
from accord.testing.recording import TappedWire
from accord.trace import HttpFacts, Party, Transport

if TYPE_CHECKING:
    from accord.secrets.masks import Secrets
    from accord.stdio.child import StderrSink
    from accord_tools.inspector.log.logged_conversation import LoggedConversation


# A task that is followed for hours asks for its state again and again.
_EXCHANGES_MOST: Final = 50
# Requests without an answer, over all work of one connection.
_WAITING_MOST: Final = 1_000
_TASK_NOTICE: Final = b'"notifications/tasks'


class _Envelope(msgspec.Struct):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | None = None


class _Answer(msgspec.Struct):
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class CapturedExchange:
    """A request and its answer as text.

    Attributes:
        method: of the request.
        request: the whole message.
        answer: the whole message; None until it comes.
    """

    __slots__ = ("_masked", "answer", "id", "method", "on_answer", "request")

    def __init__(
        self, id: bytes, method: str, request: bytes, on_answer: "OnAnswer | None" = None
    ) -> None:
        self.id = id
        self.on_answer = on_answer
        self.method = method
        self.request = request
        self.answer: bytes | None = None
        # The texts without secrets, once they were shown: large ones take a while.
        self._masked: dict[bytes, bytes] = {}

    def hide(self, data: bytes, secrets: "Secrets") -> bytes:
        """Return the request or the answer without secrets."""
        if data not in self._masked:
            self._masked[data] = secrets.hide_json(data)
        return self._masked[data]

    @property
    def result(self) -> bytes | None:
        """The result as it came; None without one."""
        return None if self.answer is None else _member(self.answer, "result")

    @property
    def error(self) -> bytes | None:
        """The error as it came; None without one."""
        return None if self.answer is None else _member(self.answer, "error")


def _member(data: bytes, name: str) -> bytes | None:
    try:
        found = getattr(msgspec.json.decode(data, type=_Answer), name)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return None if found is msgspec.UNSET else bytes(found)


class Captured:
    """The exchanges of one piece of work, the oldest first.

    Args:
        on_answer: called with each exchange that is answered.
    """

    def __init__(self, on_answer: "OnAnswer | None" = None) -> None:
        self.on_answer = on_answer
        self.exchanges: deque[CapturedExchange] = deque(maxlen=_EXCHANGES_MOST)

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return sum(len(each.request) + len(each.answer or b"") for each in self.exchanges)

    def last(self, *methods: str) -> CapturedExchange | None:
        """Return the last exchange, of some methods if they are given."""
        for each in reversed(self.exchanges):
            if not methods or each.method in methods:
                return each
        return None


OnAnswer: TypeAlias = Callable[[CapturedExchange], object]

_current: Final[ContextVar[Captured | None]] = ContextVar("inspected_capture", default=None)


@contextmanager
def capture(on_answer: OnAnswer | None = None) -> Iterator[Captured]:
    """Keep the texts of all requests that this context sends, and of their answers."""
    captured = Captured(on_answer)
    before = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(before)


class CapturingObserver:
    """Passes everything on to the log, and keeps the texts that some work waits for.

    Args:
        inner: the conversation in the log.
        on_task: called with each notification about a task.
    """

    def __init__(self, inner: "LoggedConversation", on_task: Callable[[bytes], object]) -> None:
        self._inner = inner
        self._on_task = on_task
        self._waiting: dict[bytes, CapturedExchange] = {}

    @property
    def transport(self) -> Transport:
        """The transport that the log names."""
        return self._inner.transport

    @transport.setter
    def transport(self, name: Transport) -> None:
        self._inner.transport = name

    def observe(self, sender: Party, data: bytes | None, *, http: HttpFacts | None = None) -> None:
        """Take one message."""
        if data is not None:
            if sender == "server":
                if self._waiting:
                    self._take_answer(data)
                if _TASK_NOTICE in data:
                    self._on_task(data)
            elif (captured := _current.get()) is not None:
                self._take_request(data, captured)
        self._inner.observe(sender, data, http=http)

    def begin_anew(self) -> None:
        """Begin another conversation; answers of the old one do not count."""
        self._waiting.clear()
        self._inner.begin_anew()

    def close(self) -> None:
        """End the conversation."""
        self._waiting.clear()
        self._inner.close()

    def _take_request(self, data: bytes, captured: Captured) -> None:
        found = _read_envelope(data)
        if found is None or found.method is None or found.id is msgspec.UNSET:
            return
        exchange = CapturedExchange(bytes(found.id), found.method, data, captured.on_answer)
        captured.exchanges.append(exchange)
        if len(self._waiting) >= _WAITING_MOST:
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[exchange.id] = exchange

    def _take_answer(self, data: bytes) -> None:
        found = _read_envelope(data)
        if found is None or found.method is not None or found.id is msgspec.UNSET:
            return
        exchange = self._waiting.pop(bytes(found.id), None)
        if exchange is not None:
            exchange.answer = data
            if exchange.on_answer is not None:
                exchange.on_answer(exchange)


def _read_envelope(data: bytes) -> _Envelope | None:
    try:
        return msgspec.json.decode(data, type=_Envelope)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None  # the log says what is wrong with it


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
        target: ServerSpec,
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
