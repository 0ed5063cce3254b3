"""The log of a session: rows of all its conversations with verdicts, within bounds.

Rows are numbered from 1. The oldest ones leave when the log outgrows its bounds; a verdict may come
later than its row, so rows are changed by their number. For one event loop.
"""

import asyncio
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic, time
from typing import IO, TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from accord import trace
from accord.protocol.violation import FAIL, Party, Severity
from accord.secrets.masks import Secrets
from accord.testing.recording import create_next
from accord.trace import Record, Transport
from accord_tools.inspector.log.log_entry import EntryKind, LogEntry, RowBreach, shorten
from accord_tools.inspector.log.logged_conversation import LoggedConversation, RuleAnswers
from accord_tools.inspector.target_access import find_secrets

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


PostingKey = TypeVar("PostingKey", bound=Hashable)
# Shorter ones are not worth a look at what has left.
_LONG: Final = 1_000


def row_numbers(numbers: Iterable[int] = ()) -> "array[int]":
    """Return numbers of rows in little memory."""
    return array("q", numbers)


class Postings(Generic[PostingKey]):
    """Ascending numbers by key."""

    def __init__(self) -> None:
        self._numbers: dict[PostingKey, array[int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[PostingKey]:
        return iter(self._numbers)

    def add(self, key: PostingKey, number: int, first_kept: int) -> None:
        """Add a number, usually the highest of its key."""
        found = self._numbers.get(key)
        if found is None:
            self._numbers[key] = row_numbers((number,))
            return
        if found[-1] < number:
            found.append(number)
        else:
            add_once(found, number)
        if len(found) >= _LONG and found[len(found) // 2] < first_kept:
            del found[: bisect_left(found, first_kept)]

    def drop(self, key: PostingKey, number: int) -> None:
        """Forget a key if the row that leaves was the last with it."""
        found = self._numbers.get(key)
        if found is not None and found[-1] <= number:
            del self._numbers[key]

    def get(self, key: PostingKey, first_kept: int, most: int | None = None) -> "array[int]":
        """Return the numbers of a key that are kept, at most the first `most` of them."""
        found = self._numbers.get(key)
        if found is None:
            return row_numbers()
        start = bisect_left(found, first_kept)
        return found[start : None if most is None else start + most]

    def get_all(self, chosen: Callable[[PostingKey], bool], first_kept: int) -> "array[int]":
        """Return the numbers of all keys that a function chooses."""
        found = [self.get(key, first_kept) for key in self._numbers if chosen(key)]
        # Parts that are sorted already are merged fast.
        return found[0] if len(found) == 1 else row_numbers(sorted(chain.from_iterable(found)))

    def clear(self) -> None:
        """Forget everything."""
        self._numbers.clear()


def add_once(numbers: "array[int]", number: int) -> None:
    """Add a number to ascending ones, unless it is among them."""
    place = bisect_left(numbers, number)
    if place == len(numbers) or numbers[place] != number:
        insort(numbers, number)


# Seconds after which written rows reach the file.
_FLUSHING: Final = 0.5


class TraceWriter:
    """The trace files of a session: the first has the given name, others `name-2` and so on.

    Args:
        path: of the first file; one that exists is left alone.
        report: called with what went wrong; a full disk ends the recording only.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self._path = path
        self._report = report
        # None in place of a file that has ended or cannot be written.
        self._files: dict[str, tuple[int, IO[bytes] | None]] = {}
        self._is_flushing = False
        # Created first, so that an unwritable folder is reported at once.
        chosen, self._first = create_next(path)
        self._first_name = chosen
        self.name = chosen.name
        self._is_used = False
        self._is_closed = False

    def write(self, entry: LogEntry) -> None:
        """Write a row; not after the end, when a connection may still say something."""
        if self._is_closed:
            return
        try:
            file = self._file_for(entry)
            if file is not None:
                trace.write(file, entry.to_record())
                self._flush_soon()
        except (OSError, ValueError) as error:
            self._give_up(entry.conversation, entry.part, error)

    def _give_up(self, conversation: str, part: int, error: OSError | ValueError) -> None:
        """Record no more of a connection."""
        _, file = self._files.get(conversation, (0, None))
        self._files[conversation] = (part, None)
        if file is not None:
            with suppress(OSError, ValueError):
                file.close()
        why = getattr(error, "strerror", None) or str(error)
        self._report(f"the recording ended early: {why}")

    def _file_for(self, entry: LogEntry) -> IO[bytes] | None:
        part, file = self._files.get(entry.conversation, (0, None))
        if entry.part < part:
            return None  # a connection that has ended still says something
        if part != entry.part:
            self.end(entry.conversation)
            if self._is_used:
                chosen, file = create_next(self._path)
                self.name = chosen.name if entry.conversation == "main" else self.name
            else:
                self._is_used, file = True, self._first
            self._files[entry.conversation] = (entry.part, file)
        return file

    def _flush_soon(self) -> None:
        if self._is_flushing:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._flush()
            return
        self._is_flushing = True
        loop.call_later(_FLUSHING, self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for name, (part, file) in list(self._files.items()):
            try:
                if file is not None:
                    file.flush()
            except (OSError, ValueError) as error:
                self._give_up(name, part, error)

    def end(self, conversation: str) -> None:
        """Close the file of a connection that ended."""
        part, file = self._files.get(conversation, (0, None))
        self._files[conversation] = (part, None)
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._report(f"the recording ended early: {error.strerror or error}")

    def close(self) -> None:
        """Close all files; one without a message is removed. May be repeated."""
        if self._is_closed:
            return
        self._is_closed = True
        for name in list(self._files):
            self.end(name)
        if not self._is_used:
            self._first.close()
            if self._first_name.is_file():
                self._first_name.unlink()


# Rows of one session, whatever their size.
ROWS_MOST: Final = 200_000
MAIN: Final = "main"
ANY_REQUIREMENT: Final = ""
"""In place of a requirement: rows that break any."""
# Bytes of a line of stderr.
_STDERR_MOST: Final = 64 * 1024
# Different sets of kept clauses that rows share; messages of one kind have the same set.
_SHARED_MOST: Final = 4_096
# Rows whose verdict came late; lists that were made before then look at them again.
_LATE_MOST: Final = 10_000


class Counters(msgspec.Struct):
    """What the log has counted since it was made or cleared.

    Attributes:
        messages: without stderr, and without HTTP that carries no message.
        fail: breaches that fail.
        warn: breaches that warn.
        stderr: lines.
        dropped: rows that left the log.
        missed: messages that were not observed, because they came too fast.
    """

    messages: int = 0
    fail: int = 0
    warn: int = 0
    stderr: int = 0
    dropped: int = 0
    missed: int = 0


class BrokenClause(msgspec.Struct):
    """A requirement that was broken: how often, and the first time."""

    requirement: str
    severity: Severity
    party: Party
    count: int
    first: int
    why: str


class InspectedLog:
    """The log of a session.

    Attributes:
        counters: see there.
        secrets: credentials that the user gave for the server, which are masked everywhere.
        t_start: the time of the first record, if the recording counts from another moment.
        first_kept: the number of the oldest row that is kept.
        late: numbers of rows whose verdict came after later rows.
        trouble: why something is not judged or recorded; empty if all is well.
        rule_answers: which standing answers travel with the next messages.
    """

    def __init__(self, session: "InspectedSession") -> None:
        self.session = session
        self.options = session.options
        self.secrets = () if session.kind == "trace" else find_secrets(session.target)
        self.started = monotonic()
        self.began_at = time()
        self.counters = Counters()
        self.first_kept = 1
        self.next_number = 1
        self.t_start = 0.0
        self.late: list[int] = []
        self.late_forgotten = 0
        self.trouble = ""
        self.rule_answers = RuleAnswers()
        self.broken: dict[str, BrokenClause] = {}
        self.held: set[str] = set()
        self.roots: Postings[int] = Postings()
        self.calls: Postings[str] = Postings()
        self.requirements: Postings[str] = Postings()
        self.kinds: Postings[EntryKind] = Postings()
        self.methods: Postings[str] = Postings()
        self._stderr_masks = Secrets(self.secrets)
        self._rows: dict[int, LogEntry] = {}
        self._bytes = 0
        # The row that is judged right now: no list has it yet.
        self._fresh = 0
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._conversations: dict[str, LoggedConversation] = {}
        self._parts: dict[str, int] = {}
        path = None if session.kind == "trace" else session.options.record
        self._writer = None if path is None else TraceWriter(path, self._note_trouble)

    # -- conversations

    def conversation(self, name: str, transport: Transport = "stdio") -> LoggedConversation:
        """Begin a conversation; an earlier one of the same name ends.

        Args:
            name: `main` for the session's own connection.
            transport: of the first messages.
        """
        before = self._conversations.get(name)
        if before is not None:
            before.close()
        part = self.count_part(name)
        made = LoggedConversation(self, name, transport, part=part)
        self._conversations[name] = made
        return made

    def count_part(self, name: str) -> int:
        """Return the number of the next connection of a conversation."""
        self._parts[name] = self._parts.get(name, 0) + 1
        return self._parts[name]

    def end_part(self, conversation: LoggedConversation) -> None:
        """Note that a connection has ended; other ones than the main one are forgotten."""
        if self._writer is not None:
            self._writer.end(conversation.name)
        if conversation.name != MAIN and self._conversations.get(conversation.name) is conversation:
            del self._conversations[conversation.name]

    @property
    def main(self) -> LoggedConversation | None:
        """The newest connection of the session itself, or else the newest of any name."""
        found = self._conversations.get(MAIN)
        return found or next(reversed(self._conversations.values()), None)

    @property
    def is_empty(self) -> bool:
        """Whether no row is kept."""
        return self.first_kept == self.next_number

    @property
    def last(self) -> int:
        """The number of the newest row; 0 before the first."""
        return self.next_number - 1

    @property
    def kept_bytes(self) -> int:
        """How many bytes the rows take, about."""
        return self._bytes

    @property
    def record_name(self) -> str:
        """The name of the file that the session is recorded in; empty without one."""
        return "" if self._writer is None else self._writer.name

    def add_stderr(self, line: str) -> None:
        """Add a line that the server wrote to stderr."""
        main = self.main
        masks = self._stderr_masks if main is None else main.masks
        shown = masks.mask_text(line[:_STDERR_MOST])
        body = shown.encode(errors="replace")
        original = None
        if shown != line and self.options.shows_secrets:
            original = line[:_STDERR_MOST].encode(errors="replace")
        entry = LogEntry(
            self.next_number,
            time(),
            round(monotonic() - self.started, 6),
            "stderr",
            MAIN,
            0 if main is None else main.part,
            "stdio",
            kind="stderr",
            size=len(line),
            brief=shorten(shown),
            body=body,
            original=original,
        )
        self.append(entry)
        self.keep_within_limits()

    def note_missed(self, count: int) -> None:
        """Count messages that could not be observed."""
        self.counters.missed += count
        self.session.mark("log")

    # -- rows

    def append(self, entry: LogEntry) -> None:
        """Add a row with the next number."""
        self.next_number = entry.number + 1
        self._fresh = entry.number
        self._rows[entry.number] = entry
        self._bytes += entry.cost
        if entry.kind == "stderr":
            self.counters.stderr += 1
        elif entry.kind not in ("http", "refusal"):
            self.counters.messages += 1
        self.kinds.add(entry.kind, entry.number, self.first_kept)
        self.methods.add(entry.method, entry.number, self.first_kept)
        if entry.root and entry.root != entry.number:
            self.roots.add(entry.root, entry.number, self.first_kept)
        if entry.call is not None:
            self.calls.add(entry.call, entry.number, self.first_kept)
        if entry.pair:
            asked = self._rows.get(entry.pair)
            if asked is not None:
                asked.pair, asked.took = asked.pair or entry.number, asked.took or entry.took
        if self._writer is not None and entry.sender != "stderr":
            self._writer.write(entry)
        self.session.mark("log")

    def note_passed(self, record: Record, requirements: tuple[str, ...]) -> None:
        """Note which requirements a record was held to and kept."""
        shared = self._shared.get(requirements)
        if shared is None:
            if len(self._shared) >= _SHARED_MOST:
                self._shared.clear()
            shared = self._shared[requirements] = tuple(dict.fromkeys(requirements))
            self.held.update(shared)
        entry = self._rows.get(record.number)
        if entry is not None:
            entry.passed = shared

    def add_breach(self, number: int, breach: RowBreach) -> None:
        """Add a breach to its row, and count it even if the row has left."""
        if breach.severity == FAIL:
            self.counters.fail += 1
        else:
            self.counters.warn += 1
        known = self.broken.get(breach.requirement)
        if known is None:
            self.broken[breach.requirement] = BrokenClause(
                breach.requirement, breach.severity, breach.party, 1, number, breach.why
            )
        else:
            known.count += 1
            known.severity = FAIL if FAIL in (known.severity, breach.severity) else known.severity
        entry = self._rows.get(number)
        if entry is not None:
            before = entry.cost
            entry.breaches = (*entry.breaches, breach)
            entry.severity = FAIL if FAIL in (entry.severity, breach.severity) else breach.severity
            self._bytes += entry.cost - before
            for key in (breach.requirement, ANY_REQUIREMENT):
                self.requirements.add(key, number, self.first_kept)
            self._note_late(number)
        self.session.mark("log")
        self.session.mark("session")
        self.session.mark_app()

    def _note_late(self, number: int) -> None:
        if number == self._fresh:
            return
        if len(self.late) >= _LATE_MOST:
            self.late_forgotten += len(self.late)
            self.late.clear()
        self.late.append(number)

    def keep_within_limits(self) -> None:
        """Let the oldest rows leave until the log is within its bounds, after each new row."""
        self._fresh = 0
        most = self.options.keep_bytes
        while len(self._rows) > ROWS_MOST or (self._bytes > most and len(self._rows) > 1):
            entry = self._rows.pop(self.first_kept)
            self._bytes -= entry.cost
            self.first_kept += 1
            self.counters.dropped += 1
            self.kinds.drop(entry.kind, entry.number)
            self.methods.drop(entry.method, entry.number)
            self.roots.drop(entry.root, entry.number)
            if entry.call is not None:
                self.calls.drop(entry.call, entry.number)
            if entry.breaches:
                for key in (ANY_REQUIREMENT, *(each.requirement for each in entry.breaches)):
                    self.requirements.drop(key, entry.number)
            later = self._rows.get(entry.pair)
            if later is not None and later.pair == entry.number:
                later.pair = 0

    def get(self, number: int) -> LogEntry | None:
        """Return a row; None if it has left the log or does not exist yet."""
        return self._rows.get(number)

    def find_related(self, entry: LogEntry, most: int) -> list[int]:
        """Return the rows that belong to the same request or the same call, this one too."""
        found = {entry.number}
        if entry.root:
            found.update(self.roots.get(entry.root, self.first_kept, most))
            if entry.root >= self.first_kept:
                found.add(entry.root)
        if entry.call is not None:
            found.update(self.calls.get(entry.call, self.first_kept, most))
        return sorted(found)[:most]

    def rows_of_call(self, call: str, most: int) -> list[int]:
        """Return the first rows of a call of the page."""
        return list(self.calls.get(call, self.first_kept, most))

    def clear(self) -> None:
        """Forget all rows and counts; conversations go on, and numbers too."""
        self._rows.clear()
        self._bytes = 0
        self.first_kept = self.next_number
        self.counters = Counters()
        self.broken.clear()
        self.held.clear()
        self._shared.clear()
        for each in (self.kinds, self.methods, self.roots, self.calls, self.requirements):
            each.clear()
        self.late_forgotten += len(self.late) + 1
        self.late.clear()
        self.session.mark("log")
        self.session.mark("session")
        self.session.mark_app()

    def _note_trouble(self, why: str) -> None:
        self.trouble = why
        self.session.mark("log")

    async def close(self) -> None:
        """End all conversations and the recording."""
        for each in list(self._conversations.values()):
            each.close()
        if self._writer is not None:
            self._writer.close()


def trace_records(log: InspectedLog, conversation: str = MAIN) -> Iterator[Record]:
    """Yield the records of a trace of a conversation, with secrets masked.

    They are those of the newest connection of the conversation that is in the log: over stdio a
    trace has one connection only.
    """
    numbers = range(log.first_kept, log.next_number)
    found = (log.get(number) for number in reversed(numbers))
    part = next(
        (
            each.part
            for each in found
            if each is not None and each.sender != "stderr" and each.conversation == conversation
        ),
        None,
    )
    for number in numbers:
        entry = log.get(number)
        if entry is None or entry.sender == "stderr":
            continue
        if entry.conversation == conversation and entry.part == part:
            yield entry.to_record()


def write_trace(log: InspectedLog, conversation: str = MAIN) -> Iterator[bytes]:
    """Yield the lines of a trace of a conversation, which `accord check trace` reads."""
    for record in trace_records(log, conversation):
        yield record.encode() + b"\n"
