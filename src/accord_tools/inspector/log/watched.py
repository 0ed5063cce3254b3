"""Watched traffic: what passes between another client and its server goes into the log.

The copies come from the thread of a `Watcher`, in batches: a flood makes that thread wait, and it
then counts what it has to drop. The watched connection itself never waits.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from accord.http.server.sockets import listen
from accord.trace import Record
from accord_tools.inspector.log.message_log import MAIN, InspectedLog
from accord_tools.watch.watcher import Watcher

if TYPE_CHECKING:
    from accord_tools.inspector.log.logged_conversation import LoggedConversation
    from accord_tools.inspector.session import InspectedSession

WatchState: TypeAlias = Literal["connecting", "ready", "closed", "failed"]

# Records that wait for the event loop; more of them wait in the watcher.
_WAITING_MOST: Final = 2_000
# Seconds of judging between two turns of the event loop.
_TURN: Final = 0.01
# Conversations over HTTP; each costs a monitor.
_CONVERSATIONS_MOST: Final = 200
# Seconds between two looks whether the log has ended while the watcher waits.
_LOOK: Final = 0.5
# Seconds that the page gets to end.
_ENDING: Final = 15.0


class TrafficBuffer:
    """Hands records from the thread of a watcher to an event loop, in batches.

    Attributes:
        watcher: takes the copies.
    """

    def __init__(self, target: str) -> None:
        self.watcher = Watcher(target, recorded=self._put)
        self._records: deque[tuple[str, Record]] = deque()
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Callable[[], None] | None = None
        self._is_scheduled = False
        self._is_closed = False

    # -- in the thread of the watcher

    def _put(self, conversation: str, record: Record) -> None:
        with self._changed:
            while len(self._records) >= _WAITING_MOST and not self._is_closed:
                self._changed.wait(_LOOK)
            if self._is_closed:
                return
            self._records.append((conversation, record))
            self._schedule()

    def _schedule(self) -> None:
        """Wake the event loop once for all records that wait."""
        if self._loop is None or self._is_scheduled or self._receive is None:
            return
        self._is_scheduled = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._receive)

    # -- on the event loop

    def attach(self, receive: Callable[[], None]) -> None:
        """Call a function on the running loop whenever records wait."""
        with self._changed:
            self._loop, self._receive = asyncio.get_running_loop(), receive
            if self._records:
                self._schedule()

    def take(self, seconds: float) -> Iterator[tuple[str, Record]]:
        """Yield records that wait, for a bounded time; the rest wakes the loop again."""
        end = perf_counter() + seconds
        while True:
            with self._changed:
                if not self._records:
                    self._is_scheduled = False
                    return
                if perf_counter() > end:
                    assert self._loop is not None
                    assert self._receive is not None
                    self._loop.call_soon(self._receive)
                    return
                some = [self._records.popleft() for _ in range(min(50, len(self._records)))]
                self._changed.notify()
            yield from some

    def close(self) -> None:
        """Let the watcher go on without a log."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()


class WatchedTraffic:
    """The traffic of another client, a part of the session.

    Attributes:
        state: `connecting` until the first message.
        error: why nothing can be watched; empty if it can.
        note: what the person has to do or to know.
        port: the port that the client connects to, over HTTP.
    """

    def __init__(self, session: "InspectedSession") -> None:
        self.state: WatchState = "connecting"
        self.error = ""
        self.note = ""
        self.port: int | None = None
        self._session = session
        self._log = session.part(InspectedLog)
        self._conversations: dict[str, LoggedConversation] = {}
        self._buffer: TrafficBuffer | None = None
        self._dropped = 0
        self._proxy = AsyncExitStack()

    def attach(self, buffer: TrafficBuffer) -> None:
        """Take the records of a buffer; on the event loop of the session."""
        self._buffer = buffer
        buffer.attach(self._receive)

    def change(self, state: WatchState, *, error: str = "", note: str = "") -> None:
        """Note a state."""
        self.state, self.error, self.note = state, error, note
        self._session.mark("session")
        self._session.mark_app()

    def _receive(self) -> None:
        buffer = self._buffer
        if buffer is None:
            return
        for conversation, record in buffer.take(_TURN):
            self._add(conversation, record)
        self._note_dropped(buffer.watcher)

    def _add(self, name: str, record: Record) -> None:
        if self.state == "connecting":
            self.change("ready", note=self.note)
        found = self._conversations.get(name)
        if found is None:
            if len(self._conversations) >= _CONVERSATIONS_MOST:
                self._log.note_missed(1)
                return
            # A session id is a secret, so conversations are counted.
            count = len(self._conversations) + 1
            shown = MAIN if count == 1 else f"client-{count}"
            found = self._log.conversation(shown, record.transport)
            self._conversations[name] = found
        found.transport = record.transport
        at = None if record.t is None else self._log.began_at + record.t
        found.add(record, at=at)

    def _note_dropped(self, watcher: Watcher) -> None:
        if watcher.dropped > self._dropped:
            self._log.note_missed(watcher.dropped - self._dropped)
            self._dropped = watcher.dropped
            self._log.trouble = (
                "messages arrived too fast, were too long or could not be read; from there on the "
                "conversation is neither shown nor judged"
            )
            self.change(self.state, error=self.error, note=self._log.trouble)

    # -- over HTTP

    async def listen(self, url: str, port: int, headers: Mapping[str, str] | None = None) -> int:
        """Pass requests at a port of loopback on to a server; returns the port.

        Args:
            url: of the server's endpoint.
            port: 0 takes any free one.
            headers: added to every request.

        Raises:
            MissingExtra: a package for HTTP is not installed.
            TransportError: the port is taken.
        """
        from accord_tools.watch.http_proxy import serve_proxy

        buffer = TrafficBuffer(self._session.target.name)
        self.attach(buffer)
        sockets = listen("127.0.0.1", port)
        found: int = sockets[0].getsockname()[1]
        proxy = serve_proxy(url, sockets, buffer.watcher, headers=headers)
        await self._proxy.enter_async_context(proxy)
        self.port = found
        place = f"http://127.0.0.1:{found}{urlsplit(url).path}"
        self.change("connecting", note=f"point the client to {place}")
        return found

    async def close(self) -> None:
        """End the watch, and take what still waits."""
        await self._proxy.aclose()
        buffer = self._buffer
        if buffer is not None:
            # Meanwhile the loop takes the last records.
            await asyncio.to_thread(buffer.watcher.close)
            for conversation, record in buffer.take(_ENDING):
                self._add(conversation, record)
            self._note_dropped(buffer.watcher)
            buffer.close()
        for each in self._conversations.values():
            each.close()
        self.change("closed", error=self.error)


async def watch_http(
    session: "InspectedSession", url: str, port: int, headers: Mapping[str, str] | None = None
) -> int:
    """Show the traffic of clients that connect to a port of loopback; returns the port."""
    return await session.part(WatchedTraffic).listen(url, port, headers)


# -- over stdio

Page: TypeAlias = Callable[[TrafficBuffer], Coroutine[Any, Any, None]]
"""Serves the page until it is cancelled; attaches the buffer to the `WatchedTraffic` of a session.
"""


def watch_stdio(
    command: Sequence[str], env: Mapping[str, str] | None, page: Page, *, title: str = ""
) -> int:
    """Relay between a host and a command in this thread; the page runs in another one.

    Call it from the main thread, which receives the signals. It returns when the command has ended,
    with its exit code as `watch_command` gives it.

    Args:
        command: launches the server.
        env: variables for it, beside those of this process.
        page: the page; it ends after the command.
        title: of the conversation.

    Raises:
        ConnectFailed: the command cannot be started.
    """
    from accord_tools.watch.stdio_relay import watch_command

    buffer = TrafficBuffer(title or " ".join(command))
    beside = _PageThread(page, buffer)
    try:
        return watch_command(command, buffer.watcher, env=env, launched=beside.start)
    finally:
        buffer.watcher.close()
        beside.end()


class _PageThread(threading.Thread):
    """Runs the page on an event loop of its own."""

    def __init__(self, page: Page, buffer: TrafficBuffer) -> None:
        super().__init__(name="accord-inspect", daemon=True)
        self._page = page
        self._buffer = buffer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = threading.Event()

    def run(self) -> None:
        # The traffic goes on if the page fails: it is that of the host.
        try:
            asyncio.run(self._serve())
        finally:
            self._has_begun.set()
            self._buffer.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._page(self._buffer))
        self._has_begun.set()
        with suppress(asyncio.CancelledError):
            await self._task

    def end(self) -> None:
        """End the page, within a bounded time."""
        if self.ident is None:
            return
        self._has_begun.wait(_ENDING)
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        self.join(_ENDING)
