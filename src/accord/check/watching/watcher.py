"""The judge beside the wire: takes copies of what passes, judges and records them.

What passes is handed over by whoever passes it on and judged in a thread of its own. When it comes
faster than it can be judged, copies are dropped and counted; what passes is not touched.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import IO, Final

import msgspec

from accord import trace
from accord.check.replay import decidable
from accord.check.report import Findings, Report, build
from accord.check.watching.masking import Masks
from accord.protocol.monitor import Monitor, Verdict, VerdictName
from accord.protocol.violation import Violation
from accord.trace import HttpFacts, Party, Record, Transport

__all__ = ["Copy", "Watcher", "merged"]

# Copies that wait to be judged: with more, the watcher would cost more than what it watches.
HELD_MOST: Final = 64 * 1024 * 1024
_ORDER: Final[dict[VerdictName, int]] = {
    "fail": 0,
    "warn": 1,
    "pass": 2,
    "not-exercised": 3,
    "not-applicable": 4,
}


class Copy(msgspec.Struct):
    """A copy of something that passed: a message, or only what HTTP said."""

    sender: Party
    data: bytes | None
    t: float
    http: HttpFacts | None = None
    conversation: str = ""
    transport: Transport = "stdio"


class _Conversation:
    """One conversation: its monitor, its findings, its recording."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.monitor = Monitor()
        self.findings = Findings()
        self.masks = Masks()
        self.file = file
        self.count = 0


class Watcher:
    """Judges copies in a thread of its own.

    Args:
        target: what reports call the conversation.
        found: told each breach as it is seen; called in the watcher's thread.
        recording: where to write the trace; a second conversation goes into a second file.
    """

    def __init__(
        self,
        target: str,
        *,
        found: Callable[[Violation], None] | None = None,
        recording: Path | None = None,
    ) -> None:
        self.target = target
        self.dropped = 0
        self._found = found
        self._recording = recording
        self._start = monotonic()
        self._conversations: dict[str, _Conversation] = {}
        self._waiting: deque[Copy] = deque()
        self._held = 0
        self._is_ended = False
        self._changed = threading.Condition()
        # Opened before anything passes: a file that cannot be written is said at once.
        self._first_file: IO[bytes] | None = None if recording is None else recording.open("wb")
        self._thread = threading.Thread(target=self._judge_all, name="accord-watcher", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Return the seconds since the watch began."""
        return round(monotonic() - self._start, 6)

    def take(self, copy: Copy) -> None:
        """Take a copy; never waits, never fails."""
        size = len(copy.data or b"")
        with self._changed:
            if self._is_ended or self._held + size > HELD_MOST:
                self.dropped += 1
                return
            self._waiting.append(copy)
            self._held += size
            self._changed.notify()

    def close(self) -> None:
        """Judge what is left and end the recording; may be repeated."""
        with self._changed:
            self._is_ended = True
            self._changed.notify()
        self._thread.join()

    def reports(self) -> list[Report]:
        """Return a report for each conversation, once the watch is closed."""
        return [_report(self.target, each) for each in self._conversations.values() if each.count]

    # -- in the thread

    def _judge_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_ended:
                    self._changed.wait()
                if not self._waiting:
                    break
                copy = self._waiting.popleft()
                self._held -= len(copy.data or b"")
            self._judge(copy)
        for conversation in self._conversations.values():
            self._tell(conversation, conversation.monitor.close())
            if conversation.file is not None:
                conversation.file.close()
        if self._first_file is not None:
            self._first_file.close()

    def _judge(self, copy: Copy) -> None:
        conversation = self._conversations.get(copy.conversation)
        if conversation is None:
            conversation = _Conversation(self._next_file())
            self._conversations[copy.conversation] = conversation
        conversation.count += 1
        record = _record(copy, conversation.count)
        self._tell(conversation, conversation.monitor.observe(record))
        if conversation.file is not None:
            try:
                trace.write(conversation.file, conversation.masks.applied(record))
            except (OSError, ValueError):
                # A full disk ends the recording, not the conversation.
                conversation.file.close()
                conversation.file = None

    def _tell(self, conversation: _Conversation, violations: Iterable[Violation]) -> None:
        for violation in violations:
            conversation.findings.add(violation)
            if self._found is not None:
                self._found(violation)

    def _next_file(self) -> IO[bytes] | None:
        if self._recording is None:
            return None
        number = len(self._conversations) + 1
        if number == 1:
            return self._first_file
        path = self._recording
        try:
            return path.with_name(f"{path.stem}-{number}{path.suffix}").open("wb")
        except OSError:
            return None


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


def _report(target: str, conversation: _Conversation) -> Report:
    monitor = conversation.monitor
    judged_by = monitor.conversation.current.id
    return build(
        monitor.verdicts(),
        target=target,
        revision=monitor.revision,
        judged_by=judged_by,
        decidable=decidable(judged_by),
        findings=conversation.findings.sorted(),
    )


def merged(reports: list[Report]) -> Report:
    """Make one report of several conversations: the worst verdict on each requirement counts."""
    first = reports[0]
    if len(reports) == 1:
        return first
    worst: dict[str, Verdict] = {}
    for report in reports:
        for verdict in report.results:
            known = worst.get(verdict.id)
            if known is None or _ORDER[verdict.verdict] < _ORDER[known.verdict]:
                worst[verdict.id] = verdict
    return build(
        list(worst.values()),
        target=first.target,
        revision=first.revision,
        judged_by=first.judged_by,
        decidable=decidable(first.judged_by),
        findings=[finding for report in reports for finding in report.findings],
    )
