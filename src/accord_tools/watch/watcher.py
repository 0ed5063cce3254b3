"""A watcher beside a connection: it judges and records copies of the messages.

Copies are judged in a separate thread. When they arrive faster than they can be judged, copies are
dropped and counted; the messages themselves are not touched. After a gap a conversation is neither
judged nor recorded any further, because missing messages would cause false verdicts.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Final

import msgspec
from msgspec.structs import replace

from accord import trace
from accord.protocol.monitor import Monitor
from accord.protocol.violation import Violation
from accord.secrets.masks import Secrets
from accord.testing.recording import create_next
from accord.trace import HttpFacts, Party, Record, Transport
from accord_tools.check.trace_check import decidable
from accord_tools.check.verdicts import edit_marked, edit_texts
from accord_tools.reports.report import (
    Report,
    RequirementResult,
    ViolationGroups,
    build_report,
    rank,
)

# Bytes of copies that wait to be judged.
HELD_MOST: Final = 64 * 1024 * 1024
# The size of a copy beside its bytes, so that a flood of empty lines is bounded as well.
_OVERHEAD: Final = 512
# Conversations: each costs a monitor and a file, and a proxy may run for weeks.
_CONVERSATIONS_MOST: Final = 200
# Seconds to judge the rest when the server has ended; the host waits meanwhile.
_CLOSING: Final = 10.0


class Copy(msgspec.Struct):
    """A copy of a message, or of HTTP facts alone."""

    sender: Party
    data: bytes | None
    t: float
    http: HttpFacts | None = None
    conversation: str = ""
    transport: Transport = "stdio"


class _WatchedConversation:
    """A conversation with its monitor, violations and recording."""

    def __init__(self, file: IO[bytes] | None, given: tuple[str, ...]) -> None:
        self.monitor = Monitor()
        self.violations = ViolationGroups()
        self.masks = Secrets(given)
        self.file = file
        self.count = 0


class Watcher:
    """Judges copies in a separate thread.

    Args:
        target: the name of the conversation in reports.
        found: called with each violation, in the watcher's thread.
        recorded: called with the conversation of each record and the record, in the watcher's
            thread; it judges and keeps them in place of this watcher. It may wait: then copies are
            held, up to a limit.
        recording: where to write the trace. A file that exists is left alone: the trace goes into
            `name-2` beside it, and so does that of a second conversation.

    Raises:
        OSError: the recording cannot be created.
    """

    def __init__(
        self,
        target: str,
        *,
        given: tuple[str, ...] = (),
        found: Callable[[Violation], None] | None = None,
        recorded: Callable[[str, Record], None] | None = None,
        recording: Path | None = None,
    ) -> None:
        self.target = target
        self._given = given
        self.dropped = 0
        self._found = found
        self._recorded = recorded
        self._recording = recording
        self._start = monotonic()
        self._conversations: dict[str, _WatchedConversation] = {}
        self._waiting: deque[Copy] = deque()
        self._gaps: set[str] = set()
        self.trouble = ""
        self._held = 0
        self._is_ended = False
        self._changed = threading.Condition()
        self.recordings: list[Path] = []
        # Opened first, so that an unwritable file is reported at once.
        self._first_file = None if recording is None else self._create(recording)
        # Started with the first copy, so that a process can be launched before there are threads.
        self._thread = threading.Thread(target=self._judge_all, name="accord-watcher", daemon=True)

    def now(self) -> float:
        """Return the seconds since the watch started."""
        return round(monotonic() - self._start, 6)

    def take(self, copy: Copy) -> None:
        """Take a copy; never blocks, never fails."""
        size = len(copy.data or b"") + _OVERHEAD
        with self._changed:
            is_gap = copy.conversation in self._gaps
            if self._is_ended or is_gap or self._held + size > HELD_MOST:
                self._note_gap(copy.conversation)
                return
            self._waiting.append(copy)
            self._held += size
            self._begin()
            self._changed.notify()

    def _begin(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def drop(self, conversation: str = "") -> None:
        """Count a message that cannot be judged, such as an endless line."""
        with self._changed:
            self._note_gap(conversation)

    def _note_gap(self, conversation: str) -> None:
        self.dropped += 1
        if len(self._gaps) < _CONVERSATIONS_MOST:
            self._gaps.add(conversation)

    def close(self) -> None:
        """Judge the remaining copies and end the recording; may be repeated."""
        with self._changed:
            self._is_ended = True
            self._begin()
            self._changed.notify()
        self._thread.join(_CLOSING)
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def reports(self) -> list[Report]:
        """Return a report for each conversation, once the watch is closed."""
        return [_report(self.target, each) for each in self._conversations.values() if each.count]

    # -- in the thread

    def _judge_all(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            # Signals belong to the thread that waits for them.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (copy := self._next()) is not None:
            try:
                self._judge(copy)
            except Exception as error:
                # A bug here must not stop the watched connection.
                self.trouble = f"internal error, please report it: {type(error).__name__}: {error}"
                self.drop(copy.conversation)
        for name, conversation in self._conversations.items():
            if name not in self._gaps:
                self._tell(conversation, conversation.monitor.close())
            self._end_recording(conversation)
        if self._first_file is not None:
            # No messages: a host that only tests the launch leaves no empty file behind.
            with suppress(OSError):
                self._first_file.close()
                path = self.recordings.pop(0)
                if path.is_file():
                    path.unlink()

    def _next(self) -> Copy | None:
        """Wait for a copy; None at the end. The recording is flushed before a wait."""
        with self._changed:
            if not self._waiting and not self._is_ended:
                self._flush()
            while not self._waiting and not self._is_ended:
                self._changed.wait()
            if not self._waiting:
                return None
            copy = self._waiting.popleft()
            self._held -= len(copy.data or b"") + _OVERHEAD
            return copy

    def _flush(self) -> None:
        for conversation in self._conversations.values():
            if conversation.file is not None:
                try:
                    conversation.file.flush()
                except OSError as error:
                    self._end_recording(conversation, error)

    def _judge(self, copy: Copy) -> None:
        if self._recorded is not None:
            self._recorded(copy.conversation, _record(copy, 0))
            return
        conversation = self._conversations.get(copy.conversation)
        if conversation is None:
            if len(self._conversations) >= _CONVERSATIONS_MOST:
                self.drop(copy.conversation)
                return
            conversation = _WatchedConversation(self._next_file(), self._given)
            self._conversations[copy.conversation] = conversation
        conversation.count += 1
        record = _record(copy, conversation.count)
        # Before it is judged, so that verdicts show no secrets.
        masked = conversation.masks.apply(record)
        if record.http is not None:
            # The facts as they are recorded, so that the recording gets the same verdicts.
            record = replace(record, http=masked.http)
        self._tell(conversation, conversation.monitor.observe(record))
        if conversation.file is not None:
            try:
                trace.write(conversation.file, masked)
            except (OSError, ValueError) as error:
                self._end_recording(conversation, error)

    def _end_recording(
        self, conversation: _WatchedConversation, error: OSError | ValueError | None = None
    ) -> None:
        """Close a recording; a full disk ends only the recording."""
        file, conversation.file = conversation.file, None
        try:
            if file is not None:
                file.close()
        except OSError as late:
            error = error or late
        if error is not None:
            why = getattr(error, "strerror", None) or str(error)
            self.trouble = f"the recording ended early: {why}"

    def _tell(self, conversation: _WatchedConversation, violations: Iterable[Violation]) -> None:
        told = conversation.masks.mask_text
        for found in violations:
            evidence, mark = edit_marked(found.evidence, found.mark, told)
            violation = replace(
                found,
                why=told(found.why),
                evidence=evidence,
                place=found.place and told(found.place),
                mark=mark,
            )
            conversation.violations.add(violation)
            if self._found is not None:
                self._found(violation)

    def _next_file(self) -> IO[bytes] | None:
        if self._recording is None:
            return None
        first, self._first_file = self._first_file, None
        if first is not None:
            return first
        try:
            return self._create(self._recording)
        except OSError as error:
            self.trouble = f"a conversation is not recorded: {error.strerror or error}"
            return None

    def _create(self, path: Path) -> IO[bytes]:
        chosen, file = create_next(path)
        self.recordings.append(chosen)
        return file


def _record(copy: Copy, number: int) -> Record:
    message = raw = None
    if copy.data is not None:
        try:
            msgspec.json.decode(copy.data)
        except (ValueError, RecursionError):
            raw = copy.data.decode(errors="surrogateescape")
        else:
            message = msgspec.Raw(copy.data)
    return Record(
        sender=copy.sender,
        t=copy.t,
        transport=copy.transport,
        message=message,
        raw=raw,
        http=copy.http,
        number=number,
    )


def _report(target: str, conversation: _WatchedConversation) -> Report:
    monitor = conversation.monitor
    judged_by = monitor.conversation.current.id
    return build_report(
        [edit_texts(each, conversation.masks.mask_text) for each in monitor.verdicts()],
        target=target,
        revision=monitor.revision,
        judged_by=judged_by,
        decidable=decidable(judged_by),
        violations=conversation.violations.failures_first(),
    )


def merge_reports(reports: list[Report]) -> Report:
    """Merge reports of several conversations: the worst verdict on each requirement counts."""
    first = reports[0]
    if len(reports) == 1:
        return first
    by_id: dict[str, list[RequirementResult]] = {}
    for report in reports:
        for result in report.results:
            by_id.setdefault(result.id, []).append(result)
    worst = [min(results, key=rank) for results in by_id.values()]
    return build_report(
        worst,
        target=first.target,
        revision=first.revision,
        judged_by=first.judged_by,
        decidable=decidable(first.judged_by),
        violations=[finding for report in reports for finding in report.violations],
        by_revision={each.id: each.by_revision for each in worst},
    )
