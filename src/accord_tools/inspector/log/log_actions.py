"""The actions of the page on the log."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.types import JsonObject
from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.definition import ActionRefused, InspectTarget
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.row_filter import FilterCache, RowFilter
from accord_tools.inspector.log.timeline import LANES_MOST, show_timeline
from accord_tools.inspector.log.trace_session import open_trace
from accord_tools.inspector.log.views import show_counters, show_detail, show_row, show_summary

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

_COUNT_MOST: Final = 1_000
_NAME_MOST: Final = 80


class LogFilters(FilterCache):
    """The filters of a session's log."""

    def __init__(self, session: "InspectedSession") -> None:
        super().__init__(session.part(InspectedLog))


class RowsParams(msgspec.Struct):
    """Which rows are asked for: `count` from the position `start` on, of those that fit."""

    start: int = -1
    count: int = 100
    filter: RowFilter = RowFilter()


class TimelineParams(msgspec.Struct):
    """Which requests are asked for; a negative start means the last ones."""

    start: int = -1
    count: int = LANES_MOST
    filter: RowFilter = RowFilter()


class OpenParams(msgspec.Struct):
    """A recording: the name that the page shows, and its text; never a path."""

    name: str
    text: str


class DetailParams(msgspec.Struct):
    """The row that is asked for."""

    n: int
    reveal: bool = False


@action("log.rows", kinds=READ)
async def list_rows(session: "InspectedSession", params: RowsParams) -> JsonObject:
    """Return rows; a negative start means the last ones."""
    log = session.part(InspectedLog)
    if not 0 <= params.count <= _COUNT_MOST:
        raise ActionRefused(f"count is {params.count}, expected 0 to {_COUNT_MOST}", field="count")
    numbers, is_complete = session.part(LogFilters).find(params.filter)
    total = len(numbers)
    start = max(0, total - params.count) if params.start < 0 else min(params.start, total)
    rows = (log.get(number) for number in numbers[start : start + params.count])
    if not is_complete:
        # The page asks again, and the search goes on.
        session.mark("log")
    return {
        "total": total,
        "start": start,
        "first_kept": log.first_kept,
        "last": log.last,
        "rows": [show_row(log, each) for each in rows if each is not None],
        "counters": show_counters(log),
        "is_complete": is_complete,
    }


@action("log.timeline", kinds=READ)
async def get_timeline(session: "InspectedSession", params: TimelineParams) -> JsonObject:
    """Return requests as lanes on a time axis."""
    log = session.part(InspectedLog)
    if not 0 <= params.count <= LANES_MOST:
        raise ActionRefused(f"count is {params.count}, expected 0 to {LANES_MOST}", field="count")
    chosen = msgspec.structs.replace(params.filter, kinds=("request", "batch"))
    numbers, is_complete = session.part(LogFilters).find(chosen)
    total = len(numbers)
    start = max(0, total - params.count) if params.start < 0 else min(params.start, total)
    if not is_complete:
        session.mark("log")
    shown = show_timeline(log, numbers[start : start + params.count])
    return {**shown, "total": total, "start": start, "is_complete": is_complete}


@action("log.detail", kinds=READ)
async def get_detail(session: "InspectedSession", params: DetailParams) -> JsonObject:
    """Return everything about one row."""
    log = session.part(InspectedLog)
    entry = log.get(params.n)
    if entry is None:
        has_left = 0 < params.n < log.first_kept
        why = "has left the log, which keeps the newest rows" if has_left else "does not exist"
        raise ActionRefused(f"row {params.n} {why}", field="n")
    return show_detail(log, entry, reveal=params.reveal)


@action("log.summary", kinds=READ)
async def get_summary(session: "InspectedSession", params: Nothing) -> JsonObject:
    """Return the verdicts so far."""
    return show_summary(session.part(InspectedLog))


@action("log.clear", kinds=("live", "watch"))
async def clear_log(session: "InspectedSession", params: Nothing) -> JsonObject:
    """Forget all rows."""
    session.part(InspectedLog).clear()
    return {}


@action("trace.open", kinds=READ)
async def open_recording(session: "InspectedSession", params: OpenParams) -> JsonObject:
    """Show a recording in a session of its own."""
    if not params.text.strip():
        raise ActionRefused("the recording is empty", field="text")
    title = params.name[:_NAME_MOST] or "a recording"
    made = session.add_session(InspectTarget(title=title), "trace")
    made.spawn(open_trace(made, params.text.encode(errors="replace")))
    return {"target": made.index}
