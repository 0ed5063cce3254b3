"""A session that shows a recording: it is read in a thread, and judged in short turns."""

import asyncio
import io
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from accord import trace
from accord.errors import TraceError
from accord.secrets.masks import Secrets
from accord.trace import Record
from accord_tools.check.trace_check import FactInference, TraceConversations
from accord_tools.inspector.log.message_log import MAIN, InspectedLog

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

ReadingState: TypeAlias = Literal["reading", "ready", "failed"]

# Records and bytes that are read at once.
_RECORDS_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
# Seconds of judging between two turns of the event loop.
_TURN: Final = 0.01
# Times above are seconds since the epoch; sessions do not last for years.
_EPOCH: Final = 1_000_000_000


class TraceReading:
    """How far the reading of a recording is, a part of the session.

    Attributes:
        state: of the reading.
        error: why the recording could not be read to its end; empty if it could.
        count: the records that were read.
    """

    def __init__(self, session: "InspectedSession") -> None:
        self.state: ReadingState = "reading"
        self.error = ""
        self.count = 0
        self._session = session

    def change(self, state: ReadingState, error: str = "") -> None:
        """Note a state."""
        self.state, self.error = state, error
        self._session.mark("session")
        self._session.mark_app()


async def open_trace(session: "InspectedSession", source: Path | bytes) -> None:
    """Read a recording into the log of a session; what is wrong with it is shown on the page.

    Args:
        session: of the kind `trace`.
        source: a file, or its content.
    """
    reading = session.part(TraceReading)
    reading.change("reading")
    judge = _TraceJudge(session)
    reader = _Reader(source)
    try:
        while some := await asyncio.to_thread(reader.take):
            await judge.add(some)
            reading.count += len(some)
            session.mark("session")
    except TraceError as error:
        judge.end()
        reading.change("failed", str(error))
        return
    judge.end()
    if session.part(InspectedLog).counters.messages == 0:
        reading.change("failed", "no message in this recording")
        return
    reading.change("ready")


class _Reader:
    """Reads records some at a time, in a thread."""

    def __init__(self, source: Path | bytes) -> None:
        self._records = trace.read(io.BytesIO(source) if isinstance(source, bytes) else source)
        self._error: TraceError | None = None

    def take(self) -> list[Record]:
        """Return the next records; none at the end.

        Raises:
            TraceError: a line is broken; the records before it have been returned.
        """
        if self._error is not None:
            raise self._error
        taken: list[Record] = []
        size = 0
        try:
            for each in self._records:
                taken.append(each)
                size += len(bytes(each.message or b"")) + len(each.raw or "")
                if len(taken) >= _RECORDS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    break
        except TraceError as error:
            if not taken:
                raise
            self._error = error
        return taken


class _TraceJudge:
    """Judges records as `accord check trace` does."""

    def __init__(self, session: "InspectedSession") -> None:
        self._log = session.part(InspectedLog)
        self._conversation = self._log.conversation(MAIN)
        self._conversation.masks = Secrets(keeps_masks=True)
        self._monitors = TraceConversations(self._conversation.make_monitor)
        self._inference = FactInference()
        self._is_first = True

    async def add(self, records: list[Record]) -> None:
        """Add records to the log, with pauses for everything else."""
        end = perf_counter() + _TURN
        for record in records:
            if self._is_first and record.t is not None:
                self._is_first, self._log.t_start = False, record.t
            judged = self._inference.complete(record)
            at = record.t if record.t is not None and record.t > _EPOCH else None
            monitor = self._monitors.of(judged)
            self._conversation.transport = record.transport
            self._conversation.add(record, at=at, monitor=monitor, judged=judged)
            if perf_counter() > end:
                await asyncio.sleep(0)
                end = perf_counter() + _TURN

    def end(self) -> None:
        """Judge what can only be judged at the end."""
        self._conversation.report(self._monitors.close())
