"""Filters of the list of rows: each remembers what it has found, and looks at new rows only."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeAlias

import msgspec

from accord.inspector.log.entry import EntryKind, EntrySender, LogEntry
from accord.inspector.log.message_log import InspectedLog

# Seconds that one request may search, in the bodies and without; the next one goes on from there.
_READING: Final = 0.04
_SEARCHING: Final = 0.15
# Rows between two looks at the clock, and bytes of bodies.
_ROWS_PER_LOOK: Final = 500
_BYTES_PER_LOOK: Final = 1_000_000
# Filters that are remembered: some pages, and what a person types letter by letter.
_FILTERS_MOST: Final = 16
_RELATED_MOST: Final = 2_000

Test: TypeAlias = Callable[[LogEntry], bool]


class RowFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows the list shows; what is left out does not restrict it.

    Attributes:
        text: occurs in what travelled, in any case of letters.
        method: the method, or the beginning of methods if it ends with `/` or `*`.
        sender: the party that sent it, or `stderr`.
        kinds: kinds of rows.
        severity: whether only rows with breaches are shown.
        call: the id of a call of the page.
        conversation: the name of a conversation.
        related: the number of a row; it and the rows of the same request or call are shown.
        requirement: a requirement that the rows break.
        with_http: whether HTTP without a message is shown.
        with_stderr: whether lines of stderr are shown.
    """

    text: str | None = None
    method: str | None = None
    sender: EntrySender | None = None
    kinds: tuple[EntryKind, ...] | None = None
    severity: bool = False
    call: str | None = None
    conversation: str | None = None
    related: int | None = None
    requirement: str | None = None
    with_http: bool = False
    with_stderr: bool = False


class MatchingRows:
    """The numbers of the rows that a filter lets through, as far as it has searched."""

    def __init__(self, log: InspectedLog, chosen: RowFilter) -> None:
        self.numbers: list[int] = []
        self.is_complete = False
        self._log = log
        self._filter = chosen
        self._tests = _tests(chosen)
        self._reads_bodies = bool(chosen.text)
        self._next = log.first_kept
        self._late_seen = log.late_forgotten + len(log.late)

    def update(self) -> None:
        """Look at rows that came or changed since the last time, within a bounded time."""
        log = self._log
        if self._late_seen < log.late_forgotten:
            self.numbers.clear()
            self._next = log.first_kept
            self._late_seen = log.late_forgotten + len(log.late)
        if self.numbers and self.numbers[0] < log.first_kept:
            del self.numbers[: bisect_left(self.numbers, log.first_kept)]
        self._next = max(self._next, log.first_kept)
        self._look_again()
        self._search()

    def _look_again(self) -> None:
        """Look again at rows whose verdict came late."""
        log = self._log
        for number in log.late[self._late_seen - log.late_forgotten :]:
            entry = log.get(number)
            if entry is None or number >= self._next or not self._fits(entry):
                continue
            place = bisect_left(self.numbers, number)
            if place == len(self.numbers) or self.numbers[place] != number:
                insort(self.numbers, number)
        self._late_seen = log.late_forgotten + len(log.late)

    def _search(self) -> None:
        log = self._log
        end = perf_counter() + (_READING if self._reads_bodies else _SEARCHING)
        get, fits, add = log.get, self._fits, self.numbers.append
        rows = read = 0
        while self._next < log.next_number:
            entry = get(self._next)
            if entry is not None and fits(entry):
                add(self._next)
            self._next += 1
            rows += 1
            if self._reads_bodies and entry is not None:
                read += len(entry.body)
            if rows >= _ROWS_PER_LOOK or read >= _BYTES_PER_LOOK:
                rows = read = 0
                if perf_counter() > end:
                    break
        self.is_complete = self._next >= log.next_number

    def _fits(self, entry: LogEntry) -> bool:
        for test in self._tests:  # noqa: SIM110  # a generator takes twice as long
            if not test(entry):
                return False
        return True


class FilterCache:
    """The filters that were used last, a part of the session."""

    def __init__(self, log: InspectedLog) -> None:
        self._log = log
        self._known: OrderedDict[RowFilter, MatchingRows] = OrderedDict()

    def find(self, chosen: RowFilter) -> tuple[list[int], bool]:
        """Return the numbers of all rows that fit, and whether the search is complete."""
        if chosen.related is not None:
            return self._find_related(chosen), True
        found = self._known.pop(chosen, None)
        if found is None:
            found = MatchingRows(self._log, chosen)
        self._known[chosen] = found
        if len(self._known) > _FILTERS_MOST:
            self._known.popitem(last=False)
        found.update()
        return found.numbers, found.is_complete

    def _find_related(self, chosen: RowFilter) -> list[int]:
        log = self._log
        entry = log.get(chosen.related or 0)
        if entry is None:
            return []
        tests = _tests(chosen)
        rows = map(log.get, log.find_related(entry, _RELATED_MOST))
        return [row.number for row in rows if row is not None and all(test(row) for test in tests)]


def _tests(chosen: RowFilter) -> list[Test]:
    """Return the tests of a filter, the cheap ones first."""
    tests: list[Test] = []
    hidden = [
        kind
        for kind, shown in (("http", chosen.with_http), ("stderr", chosen.with_stderr))
        if not shown
    ]
    if chosen.kinds:
        kinds = frozenset(chosen.kinds).difference(hidden)
        tests.append(lambda entry: entry.kind in kinds)
    elif hidden:
        tests.append(lambda entry: entry.kind not in hidden)
    if chosen.severity:
        tests.append(lambda entry: entry.severity is not None)
    if chosen.sender is not None:
        tests.append(lambda entry: entry.sender == chosen.sender)
    if chosen.conversation is not None:
        tests.append(lambda entry: entry.conversation == chosen.conversation)
    if chosen.call is not None:
        tests.append(lambda entry: entry.call == chosen.call)
    if chosen.method:
        tests.append(_method_test(chosen.method))
    if chosen.requirement:
        broken = chosen.requirement
        tests.append(lambda entry: any(each.requirement == broken for each in entry.breaches))
    if chosen.text:
        tests.append(_text_test(chosen.text))
    return tests


def _method_test(method: str) -> Test:
    if method.endswith(("/", "*")):
        begin = method.removesuffix("*")
        return lambda entry: entry.method.startswith(begin)
    return lambda entry: entry.method == method


def _text_test(text: str) -> Test:
    plain = text.lower()
    wanted = plain.encode(errors="replace")
    # Within a text of JSON quotes and backslashes are written differently.
    escaped = msgspec.json.encode(plain)[1:-1] if wanted.isascii() else wanted

    def test(entry: LogEntry) -> bool:
        body = entry.body.lower()
        if wanted in body or (escaped != wanted and escaped in body):
            return True
        return plain in entry.method.lower() or (entry.http is not None and plain in entry.brief)

    return test
