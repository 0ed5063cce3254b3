"""The requests of a log as lanes on a time axis, with what happened while each was open."""

from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic
from typing import Final, Literal, TypeAlias

import msgspec

from accord.types import JsonObject
from accord_tools.inspector.log.log_entry import LogEntry, sketch_message
from accord_tools.inspector.log.message_log import InspectedLog

LaneState: TypeAlias = Literal["answered", "error", "open", "cancelled"]
MarkKind: TypeAlias = Literal["progress", "notification", "cancelled", "question", "stderr"]

LANES_MOST: Final = 500
# Marks of one lane, the first and the last ones, and of all lanes together.
_MARKS_AT_ENDS: Final = 20
_MARKS_MOST: Final = 4_000
# The newest lines of stderr that are looked at.
_LINES_MOST: Final = 1_000
_CANCELLED: Final = "notifications/cancelled"
_KINDS: Final[dict[str, MarkKind]] = {
    "notifications/progress": "progress",
    _CANCELLED: "cancelled",
}


class _Lane(msgspec.Struct):
    """One request: its row, the row that ended it, and rows in between."""

    entry: LogEntry
    end: LogEntry | None
    state: LaneState
    marks: list[tuple[LogEntry, MarkKind]]

    def is_open_at(self, number: int) -> bool:
        """Whether the request waits for its answer when a row comes."""
        return self.entry.number < number and (self.end is None or number < self.end.number)

    def may_cause(self, row: LogEntry) -> bool:
        """Whether a row of the same connection comes while the request is open."""
        entry = self.entry
        is_same = entry.conversation == row.conversation and entry.part == row.part
        return is_same and self.is_open_at(row.number)


def show_timeline(log: InspectedLog, numbers: Iterable[int]) -> JsonObject:
    """Return lanes for requests, with times in seconds since the log began.

    Args:
        log: that has the rows.
        numbers: of the rows of requests, ascending; batches are among them.
    """
    entries = (log.get(number) for number in numbers)
    lanes = [
        _make_lane(log, entry) for entry in entries if entry is not None and _is_request(entry)
    ]
    _mark_loose_rows(log, lanes)
    _limit_marks(lanes)
    # A recording may lack times; its rows are then shown in their order.
    rows = [row for lane in lanes for row in (lane.entry, lane.end) if row is not None]
    has_times = all(row.t is not None for row in rows)

    def place(entry: LogEntry) -> float:
        if not has_times:
            return float(entry.number)
        return round((entry.t or 0.0) - log.t_start, 6)

    shown = [_show_lane(lane, place) for lane in lanes]
    ends = [place(row) for row in rows]
    if any(lane.end is None for lane in lanes):
        ends.append(_now(log, has_times=has_times))
    return {
        "t0": min(ends, default=0.0),
        "t1": max(ends, default=0.0),
        "has_times": has_times,
        "lanes": shown,
    }


def _is_request(entry: LogEntry) -> bool:
    if entry.kind == "request" or entry.pair > entry.number:
        return True
    if entry.pair:
        return False  # a batch of answers
    return any(part.kind == "request" for part in sketch_message(entry.body).parts)


def _now(log: InspectedLog, *, has_times: bool) -> float:
    """Return where the axis ends while a request is open."""
    if not has_times:
        return float(log.last)
    newest = log.get(log.last)
    if log.session.kind != "trace":
        return round(monotonic() - log.started - log.t_start, 6)
    return 0.0 if newest is None or newest.t is None else round(newest.t - log.t_start, 6)


# -- what happened meanwhile


def _make_lane(log: InspectedLog, entry: LogEntry) -> _Lane:
    answer = log.get(entry.pair) if entry.pair > entry.number else None
    numbers = log.roots.get(entry.root, log.first_kept)
    if len(numbers) > 2 * _MARKS_AT_ENDS:
        numbers = numbers[:_MARKS_AT_ENDS] + numbers[-_MARKS_AT_ENDS:]
    rows = [row for row in map(log.get, numbers) if row is not None and row is not answer]
    cancelled = next((row for row in rows if _cancels(row, entry)), None)
    marks: list[tuple[LogEntry, MarkKind]] = []
    if entry.root == entry.number:
        # What belongs to a request within another one is shown with the outer one.
        marks = [(row, kind) for row in rows if (kind := _mark_kind(row, entry)) is not None]
    elif cancelled is not None:
        marks = [(cancelled, "cancelled")]
    if answer is not None:
        return _Lane(entry, answer, "error" if answer.kind == "error" else "answered", marks)
    return _Lane(entry, cancelled, "open" if cancelled is None else "cancelled", marks)


def _cancels(row: LogEntry, entry: LogEntry) -> bool:
    if row.method != _CANCELLED or row.sender != entry.sender:
        return False
    subject = sketch_message(row.body).subject
    return subject is not None and subject == sketch_message(entry.body).key


def _mark_kind(row: LogEntry, entry: LogEntry) -> MarkKind | None:
    if row.kind == "notification":
        return _KINDS.get(row.method, "notification")
    return "question" if row.kind == "request" and row.sender != entry.sender else None


def _mark_loose_rows(log: InspectedLog, lanes: list[_Lane]) -> None:
    """Mark questions and lines of stderr in the lane of the one request that is open then.

    Over stdio nothing says which request they belong to; if several are open, they stay out.
    """
    if not lanes:
        return
    first = lanes[0].entry.number
    lines = log.kinds.get("stderr", max(first, log.first_kept))[-_LINES_MOST:]
    loose = [row for row in map(log.get, lines) if row is not None]
    loose += [
        lane.entry
        for lane in lanes
        if lane.entry.sender == "server" and lane.entry.root == lane.entry.number
    ]
    asked = [lane for lane in lanes if lane.entry.sender == "client"]
    following = iter([*asked, None])
    coming = next(following)
    waiting: list[_Lane] = []
    for row in sorted(loose, key=lambda each: each.number):
        while coming is not None and coming.entry.number < row.number:
            waiting.append(coming)
            coming = next(following)
        found = list(islice((lane for lane in reversed(waiting) if lane.may_cause(row)), 2))
        if len(found) == 1:
            found[0].marks.append((row, "stderr" if row.kind == "stderr" else "question"))
        if len(found) < 2:
            # The search has seen all of them, so it is worth to forget those that have ended.
            waiting = [lane for lane in waiting if lane.is_open_at(row.number)]


def _limit_marks(lanes: list[_Lane]) -> None:
    left = _MARKS_MOST
    for lane in reversed(lanes):
        lane.marks = sorted(lane.marks, key=lambda each: each[0].number)[:left]
        left -= len(lane.marks)


# -- for the page


def _show_lane(lane: _Lane, place: Callable[[LogEntry], float]) -> JsonObject:
    entry = lane.entry
    return {
        "n": entry.number,
        "method": entry.method or entry.kind,
        "brief": entry.brief,
        "sender": entry.sender,
        "conversation": entry.conversation,
        "start": place(entry),
        "end": None if lane.end is None else place(lane.end),
        "state": lane.state,
        "severity": _worst(entry, lane.end),
        "call": entry.call,
        "marks": [{"n": row.number, "t": place(row), "kind": kind} for row, kind in lane.marks],
    }


def _worst(*rows: LogEntry | None) -> str | None:
    found = {row.severity for row in rows if row is not None}
    return next((each for each in ("fail", "warn") if each in found), None)
