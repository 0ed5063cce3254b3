"""Streams of events as logs in the store: written by one worker, read by any.

An entry is a byte that says what it is, and the message or the number that follows. The number of
the entry in its log is part of the event id that clients see, so that they can go on from there on
any worker.
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from accord.errors import Conflict, Fenced, LogClosed, StoreError, StoreUnavailable
from accord.http.rules import sse
from accord.sharing.workers.messages import BEHIND

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

__all__ = ["LogLimits", "LogWriter", "encode_event", "make_label", "parse_stream_event"]

log = logging.getLogger("accord.sharing.workers")

Prepare: TypeAlias = Callable[[], Awaitable[object]]
"""Something to await before clients can see an entry."""

MESSAGE: Final = b"m"
PRIMING: Final = b"p"
RETRY: Final = b"r"

_LABEL_BYTES: Final = 5
_STREAM_EVENT: Final = re.compile(r"([0-9a-f]{10})-(\d{1,12})", re.ASCII)
_OUTBOX_EVENT: Final = re.compile(r"o(\d{1,15})b(\d{1,15})(?:p[0-9a-f]{1,16})?", re.ASCII)
# Seconds between attempts while the store does not answer.
_PAUSE: Final = 0.2
_PAUSE_MOST: Final = 1.0


def make_label() -> str:
    """Return the name of a new stream, unlike others of its session on any worker."""
    return os.urandom(_LABEL_BYTES).hex()


def parse_stream_event(event_id: str) -> tuple[str, int] | None:
    """Return the stream of an event and its number; None for an invalid event id."""
    found = _STREAM_EVENT.fullmatch(event_id)
    return None if found is None else (found[1], int(found[2]))


def parse_outbox_event(event_id: str) -> tuple[int, int] | None:
    """Return the positions of an event outside of any request; None for another event id."""
    found = _OUTBOX_EVENT.fullmatch(event_id)
    return None if found is None else (int(found[1]), int(found[2]))


def encode_event(entry: bytes, id: str | None, retry: int | None = None) -> bytes:
    """Return an entry as an event of a stream.

    Args:
        entry: as it is in the log.
        id: from where clients can go on.
        retry: milliseconds after which they should come back.
    """
    kind = entry[:1]
    if kind == MESSAGE:
        return sse.encode(entry[1:], name="message", id=id, retry=retry)
    if kind == RETRY:
        retry = int(entry[1:])
    return sse.encode(b"", id=id, retry=retry)


class LogLimits(NamedTuple):
    """How long a log is kept.

    Attributes:
        ttl: seconds after its last entry, while it is open.
        retention: seconds after its end.
        entries: how many entries are kept, the newest.
    """

    ttl: float
    retention: float
    entries: int


class LogWriter:
    """Adds entries to one log, in order. Each is reported once the store has it.

    Args:
        worker: on whose part.
        log: the name of the log.
        on_stored: called with the number and the entry, for each, and with None at the end.
        on_lost: called once if another worker has taken the log over, or the store has lost it.
        begin: awaited before the first entry is written.
        limits: how long the log is kept.
        fence: of this worker; None for a log that several workers write to.
        last: the number of the entry before the first one that is added.
    """

    def __init__(
        self,
        worker: "Worker",
        log: str,
        *,
        on_stored: Callable[[int, bytes | None], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        begin: Prepare | None = None,
        limits: LogLimits,
        fence: int | None = None,
        last: int = 0,
    ) -> None:
        self._worker = worker
        self.log = log
        self._on_stored = on_stored
        self._on_lost = on_lost
        self._begin = begin
        self._limits = limits
        self._fence = fence
        self._last = last
        self._pending: list[tuple[bytes, Prepare | None]] = []
        self._is_final = False
        self.is_over = False
        self._pump: asyncio.Task[None] | None = None
        self._extended = worker.now()

    def append(self, entry: bytes, prepare: Prepare | None = None) -> None:
        """Add an entry, soon; `prepare` is awaited before clients can see it."""
        if not self.is_over:
            self._pending.append((entry, prepare))
            if self._fence is None and len(self._pending) > self._limits.entries:
                del self._pending[0]  # the log would not keep it either
            self._start()

    def finish(self) -> None:
        """End the log behind the entries so far."""
        if not self.is_over and not self._is_final:
            self._is_final = True
            self._start()

    @property
    def is_single(self) -> bool:
        """Whether this worker alone writes to the log."""
        return self._fence is not None

    @property
    def _is_open(self) -> bool:
        return not self.is_over and not self._is_final

    @property
    def is_ending(self) -> bool:
        """Whether the log ends once everything so far is stored."""
        return self._is_final

    @property
    def is_busy(self) -> bool:
        """Whether something waits to be stored."""
        return self._pump is not None

    def _start(self) -> None:
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._write(), name="accord-log")

    async def flush(self) -> None:
        """Wait until everything so far is stored, or cannot be."""
        while self._pump is not None:
            await asyncio.wait((self._pump,))

    def abandon(self) -> None:
        """Write nothing more."""
        self.is_over = True
        if self._pump is not None:
            self._pump.cancel()

    async def extend(self) -> None:
        """Keep an open log that nothing was written to for a long time."""
        now = self._worker.now()
        if not self.is_over and now - self._extended > self._limits.ttl / 3:
            self._extended = now
            await self._worker.backend.extend(self.log, ttl=self._limits.ttl)

    async def check(self) -> None:
        """Find out whether another worker has taken the log over while this one was late."""
        if self._fence is None or self.is_over:
            return
        page = await self._worker.backend.read(self.log, after=BEHIND, limit=1)
        if page is not None and (page.fence != self._fence or page.is_closed) and self._is_open:
            self._worker.metrics.fenced_appends += 1
            if self._pump is not None:
                self._pump.cancel()
            self._lose()

    async def _write(self) -> None:
        try:
            if self._begin is not None:
                begin, self._begin = self._begin, None
                await self._persist(begin)
            while (self._pending or self._is_final) and not self.is_over:
                await self._write_pending()
        except (Fenced, LogClosed, Conflict):
            self._worker.metrics.fenced_appends += 1
            self._lose()
        except StoreError:
            log.exception("a stream cannot be written")
            self._lose()
        except Exception:
            log.exception("a stream failed")
            self._lose()
        finally:
            self._pump = None

    async def _write_pending(self) -> None:
        pending, self._pending = self._pending, []
        is_final = self._is_final
        prepared = [prepare for _, prepare in pending if prepare is not None]
        for prepare in prepared:
            await self._persist(prepare)
        entries = [entry for entry, _ in pending]
        await self._store(entries, is_final=is_final)
        if self._on_stored is not None:
            for number, entry in enumerate(entries, self._last - len(entries) + 1):
                self._on_stored(number, entry)
        if is_final:
            self.is_over = True
            if self._on_stored is not None:
                self._on_stored(self._last, None)

    async def _persist(self, attempt: Prepare) -> None:
        """Do something for as long as it takes until the store answers."""
        pause = _PAUSE
        while True:
            try:
                await attempt()
            except StoreUnavailable as error:
                self._worker.note_silence(error)
                await asyncio.sleep(pause)
                pause = min(_PAUSE_MOST, 2 * pause)
            else:
                return

    async def _store(self, entries: list[bytes], *, is_final: bool) -> None:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                self._last = await self._append(entries, is_final=is_final)
            except (Conflict, LogClosed):
                # An attempt that seemed to fail may have been carried out.
                if attempts == 1 or not await self._is_stored(entries, is_final=is_final):
                    raise
                self._last += len(entries)

        await self._persist(attempt)
        self._extended = self._worker.now()

    async def _append(self, entries: list[bytes], *, is_final: bool) -> int:
        return await self._worker.backend.append(
            self.log,
            entries,
            ttl=self._limits.retention if is_final else self._limits.ttl,
            fence=self._fence,
            after=None if self._fence is None else self._last,
            final=is_final,
            keep=self._limits.entries,
            notify=(self.log,),
        )

    async def _is_stored(self, entries: list[bytes], *, is_final: bool) -> bool:
        page = await self._worker.backend.read(self.log, after=self._last)
        if page is None or page.fence != self._fence or page.is_closed != is_final:
            return False
        return page.last == self._last + len(entries)

    def _lose(self) -> None:
        self.is_over = True
        self._pending = []
        if self._on_lost is not None:
            on_lost, self._on_lost = self._on_lost, None
            on_lost()
