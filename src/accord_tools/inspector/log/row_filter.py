"""Filters of the list of rows: each remembers what it has found, and looks at new rows only."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from accord_tools.inspector.log.log_entry import EntryKind, EntrySender, LogEntry
from accord_tools.inspector.log.message_log import (
    ANY_REQUIREMENT,
    InspectedLog,
    add_once,
    row_numbers,
)

if TYPE_CHECKING:
    from array import array

    from accord_tools.inspector.session import InspectedSession

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
        self.numbers = row_numbers()
        self.is_complete = False
        self._log = log
        self._filter = chosen
        self._others = _other_tests(chosen)
        self._tests = [*_indexed_tests(chosen), *self._others]
        self._reads_bodies = bool(chosen.text)
        self._begin()

    def _begin(self) -> None:
        """Take from the indexes of the log which rows may fit; later rows are looked at."""
        log = self._log
        self._late_seen = log.late_forgotten + len(log.late)
        self._next = log.next_number
        found = _candidates(log, self._filter)
        nothing = row_numbers()
        self.numbers, self._candidates = (nothing, found) if self._others else (found, nothing)
        self._tested = 0

    def update(self) -> None:
        """Look at rows that came or changed since the last time, within a bounded time."""
        log = self._log
        if self._late_seen < log.late_forgotten:
            self._begin()
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
            if entry is None or number >= self._next or not _fits(entry, self._tests):
                continue
            left = self._candidates[self._tested :]
            if left and number >= left[0]:
                add_once(left, number)
                self._candidates, self._tested = left, 0
            else:
                add_once(self.numbers, number)
        self._late_seen = log.late_forgotten + len(log.late)

    def _search(self) -> None:
        """Test the candidates, then the rows that came later."""
        log = self._log
        end = perf_counter() + (_READING if self._reads_bodies else _SEARCHING)
        get, add = log.get, self.numbers.append
        candidates, rows, read = self._candidates, 0, 0
        while True:
            if self._tested < len(candidates):
                number, tests = candidates[self._tested], self._others
                self._tested += 1
            elif self._next < log.next_number:
                number, tests = self._next, self._tests
                self._next += 1
            else:
                break
            entry = get(number)
            if entry is not None and _fits(entry, tests):
                add(number)
            rows += 1
            if self._reads_bodies and entry is not None:
                read += len(entry.body)
            if rows >= _ROWS_PER_LOOK or read >= _BYTES_PER_LOOK:
                rows = read = 0
                if perf_counter() > end:
                    break
        if self._tested >= len(candidates):
            self._candidates, self._tested = row_numbers(), 0
        self.is_complete = not self._candidates and self._next >= log.next_number


def _fits(entry: LogEntry, tests: list[Test]) -> bool:
    for test in tests:  # noqa: SIM110  # a generator takes twice as long
        if not test(entry):
            return False
    return True


class LogFilters:
    """The filters of a log that were used last, a part of the session."""

    def __init__(self, session: "InspectedSession") -> None:
        self._log = session.part(InspectedLog)
        self._known: OrderedDict[RowFilter, MatchingRows] = OrderedDict()

    def find(self, chosen: RowFilter) -> "tuple[array[int], bool]":
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

    def _find_related(self, chosen: RowFilter) -> "array[int]":
        log = self._log
        entry = log.get(chosen.related or 0)
        if entry is None:
            return row_numbers()
        tests = [*_indexed_tests(chosen), *_other_tests(chosen)]
        rows = map(log.get, log.find_related(entry, _RELATED_MOST))
        return row_numbers(
            row.number for row in rows if row is not None and all(test(row) for test in tests)
        )


def _restricts_kinds(chosen: RowFilter) -> bool:
    return bool(chosen.kinds) or not (chosen.with_http and chosen.with_stderr)


def _candidates(log: InspectedLog, chosen: RowFilter) -> "array[int]":
    """Return the rows that all indexes name; other tests are left to do."""
    first = log.first_kept
    named: list[array[int]] = []
    if chosen.requirement or chosen.severity:
        named.append(log.requirements.get(chosen.requirement or ANY_REQUIREMENT, first))
    if chosen.call is not None:
        named.append(log.calls.get(chosen.call, first))
    if chosen.method:
        named.append(log.methods.get_all(_method_test(chosen.method), first))
    is_kind = _kind_test(chosen)
    if not all(map(is_kind, log.kinds)):
        named.append(log.kinds.get_all(is_kind, first))
    if not named:
        return row_numbers(range(first, log.next_number))
    fewest, *others = sorted(named, key=len)
    if not others:
        return fewest
    return row_numbers(sorted(set(fewest).intersection(*others)))


def _kind_test(chosen: RowFilter) -> Callable[[EntryKind], bool]:
    hidden = [
        kind
        for kind, shown in (("http", chosen.with_http), ("stderr", chosen.with_stderr))
        if not shown
    ]
    return lambda kind: kind not in hidden and (not chosen.kinds or kind in chosen.kinds)


def _indexed_tests(chosen: RowFilter) -> list[Test]:
    """Return the tests of what the indexes of the log know."""
    tests: list[Test] = []
    if _restricts_kinds(chosen):
        is_kind = _kind_test(chosen)
        tests.append(lambda entry: is_kind(entry.kind))
    if chosen.severity:
        tests.append(lambda entry: entry.severity is not None)
    if chosen.call is not None:
        tests.append(lambda entry: entry.call == chosen.call)
    if chosen.method:
        is_method = _method_test(chosen.method)
        tests.append(lambda entry: is_method(entry.method))
    if chosen.requirement:
        broken = chosen.requirement
        tests.append(lambda entry: any(each.requirement == broken for each in entry.breaches))
    return tests


def _other_tests(chosen: RowFilter) -> list[Test]:
    """Return the tests that need a look at the row, the cheap ones first."""
    tests: list[Test] = []
    if chosen.sender is not None:
        tests.append(lambda entry: entry.sender == chosen.sender)
    if chosen.conversation is not None:
        tests.append(lambda entry: entry.conversation == chosen.conversation)
    if chosen.text:
        tests.append(_text_test(chosen.text))
    return tests


def _method_test(method: str) -> Callable[[str], bool]:
    if method.endswith(("/", "*")):
        begin = method.removesuffix("*")
        return lambda each: each.startswith(begin)
    return lambda each: each == method


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
