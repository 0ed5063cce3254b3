"""`accord fleet history` and `prune`: show earlier runs, or one server over time; remove runs."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import TEXT_OR_JSON, is_json, kind_of_work
from accord.cli.terminal import note, painter, say, say_json

if TYPE_CHECKING:
    from accord_tools.fleet.history.history import PastResult, RunSummary, ServerPast
    from accord_tools.fleet.results import RunDifference


_HELP: Final = """\
usage: accord fleet history [options] [NAME]

Show the earlier runs of a fleet, the newest first; or, of one server, its results over time, what
changed when, and which verdicts change without cause.

Exit code: 0 shown, 2 there is no history, or it has no such server.

examples:
  accord fleet history
  accord fleet history tickets --limit 100
  accord fleet history --history runs.sqlite --format json
"""
HISTORY: Final = """\
--file FILE     the fleet file, to find the history beside it (default: accord-fleet.toml)
--history PATH  the history (default: accord-fleet.sqlite beside the fleet file)
"""
_OPTIONS: Final = f"""\
name? NAME      a server of the fleet
{HISTORY}\
--limit N       the most runs or results to show (default: 20)
{TEXT_OR_JSON}
"""
_LIMIT: Final = 20
# Differences that are listed for each result; the others are counted.
_SHOWN: Final = 8
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS: Final = "_.-:=+*#"
_STYLES: Final = {"ok": "green", "skipped": "bold", "timed-out": "red", "unreachable": "red"}


def history_path(options: argparse.Namespace) -> Path:
    """Return the history that the options name: beside the fleet file, unless they say so."""
    from accord_tools.fleet.definition import DEFAULT_FILE
    from accord_tools.fleet.history import default_history

    if options.history is not None:
        return Path(options.history)
    return default_history(Path(options.file or DEFAULT_FILE))


@kind_of_work(_HELP, _OPTIONS, format="text", limit=_LIMIT)
def run(options: argparse.Namespace) -> int:
    """Print the runs, or the results of a server."""
    from accord_tools.fleet.catalogs.changes import find_catalog_changes
    from accord_tools.fleet.history import open_history

    with_json = is_json(options)
    with open_history(history_path(options), must_exist=True) as history:
        for each in history.notes:
            note(each)
        if options.name:
            past = history.server_past(options.name, options.limit, find_catalog_changes)
            say_json(past) if with_json else say(_describe_past(past))
        else:
            runs = history.runs(options.limit)
            say_json(runs) if with_json else say(_describe_runs(runs))
    return 0


# -- runs


def _describe_runs(runs: "Sequence[RunSummary]") -> str:
    if not runs:
        return "the history has no runs yet\n"
    fleets = {each.fleet or each.file for each in runs}
    heading = ("run", "started", "commit", "branch", "as expected", "regressions", "exit")
    rows = [heading, *(_row_of(each) for each in runs)]
    if len(fleets) > 1:
        names = ["fleet", *(each.fleet or each.file for each in runs)]
        rows = [(*row, name) for row, name in zip(rows, names, strict=True)]
    return _table(rows)


def _row_of(run: "RunSummary") -> tuple[str, ...]:
    from accord_tools.fleet.history.comparison import short_time

    return (
        str(run.id),
        short_time(run.started),
        _short_commit(run.git_commit, is_dirty=run.is_dirty),
        run.git_branch or "-",
        f"{run.as_expected} of {run.servers}",
        "-" if run.regressions is None else str(run.regressions),
        str(run.exit) if run.is_finished else f"{run.exit}, interrupted",
    )


def _short_commit(commit: str, *, is_dirty: bool = False) -> str:
    return f"{commit[:8]}{'*' if is_dirty else ''}" or "-"


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines with columns; texts of servers are made harmless."""
    from accord.cli.terminal import escape_unprintable

    shown = [[escape_unprintable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )
    return "".join(f"{line}\n" for line in lines)


# -- one server


def _describe_past(past: "ServerPast") -> str:
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.history.comparison import short_time

    about = ", ".join(filter(None, [past.owner, *past.tags]))
    title = escape_unprintable(past.name + (f" ({about})" if about else ""))
    lines = [painter()("bold", title), f"first seen {short_time(past.first_seen)}"]
    if past.flaky:
        lines.append(f"flaky: {', '.join(past.flaky)}")
    lines += ["", *_sparklines(past), ""]
    for before, each in zip((None, *past.results), past.results, strict=False):
        lines.append(_describe_result(each))
        lines += (f"    {escape_unprintable(text)}" for text in _changes(before, each))
    return "".join(f"{line}\n" for line in lines)


def _sparklines(past: "ServerPast") -> Iterator[str]:
    points = [each.point for each in past.results]
    series: dict[str, list[float | None]] = {
        "failures": [each.failures for each in points],
        "exercised": [each.exercised for each in points],
        "score": [each.score for each in points],
        "start, ms": [None if each.start is None else each.start * 1000 for each in points],
    }
    for name, values in series.items():
        known = [each for each in values if each is not None]
        if known:
            least, most = _format_number(min(known)), _format_number(max(known))
            span = least if least == most else f"{least} to {most}"
            yield f"{name:<10} {draw_sparkline(values, _bars())}  {span}"


def _format_number(number: float) -> str:
    """Return a number without an exponent; a score has one digit after the point."""
    return f"{number:,.1f}".removesuffix(".0")


def _bars() -> str:
    """Return the bars that the terminal can show."""
    try:
        _LEVELS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return _ASCII_LEVELS
    return _LEVELS


def draw_sparkline(values: Sequence[float | None], bars: str = _LEVELS) -> str:
    """Return a line of bars, one for each value, from the least to the largest.

    >>> draw_sparkline([0, 1, 2, None, 7])
    '▁▂▃ █'
    """
    known = [each for each in values if each is not None]
    least = min(known, default=0)
    span = max(known, default=0) - least
    steps = len(bars) - 1
    return "".join(
        " " if each is None else bars[round((each - least) / span * steps) if span else 0]
        for each in values
    )


def _describe_result(each: "PastResult") -> str:
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.history.comparison import short_time
    from accord_tools.reports.wording import plural

    point = each.point
    facts = [
        plural(point.failures, "failure") if point.applicable else "not checked",
        f"{point.exercised} of {point.applicable} exercised" if point.applicable else "",
        "" if point.score is None else f"score {point.score:.4g}",
        each.server_version and f"version {each.server_version}",
        each.commit and f"commit {_short_commit(each.commit)}",
        "reused" if point.is_reused else "",
        "" if each.is_finished else "of an interrupted run",
    ]
    if point.state in ("unreachable", "timed-out", "skipped"):
        facts[:3] = each.reasons[:1]
    state = painter()(_STYLES.get(point.state, "red"), point.state)
    shown = escape_unprintable(", ".join(filter(None, facts)))
    return f"run {point.run}  {short_time(point.started)}  {state}: {shown}"


def _changes(before: "PastResult | None", after: "PastResult") -> Iterator[str]:
    """Yield what changed since the result before it."""
    if before is not None:
        for what, old, new in (
            ("version", before.server_version, after.server_version),
            ("rules", before.point.rules, after.point.rules),
        ):
            if old and new and old != new:
                yield f"{what} {old} -> {new}"
    for each in after.differences[:_SHOWN]:
        yield _describe_difference(each)
    if len(after.differences) > _SHOWN:
        yield f"and {len(after.differences) - _SHOWN} more"


def _describe_difference(each: "RunDifference") -> str:
    from accord_tools.fleet.rendering.wording import DIFFERENCE_WORDS
    from accord_tools.reports.wording import excerpt

    subject = f"{each.subject}: " if each.subject and each.subject not in each.text else ""
    return f"{DIFFERENCE_WORDS[each.kind]}: {subject}{excerpt(each.text)}"


# -- accord fleet prune


_PRUNE_HELP: Final = """\
usage: accord fleet prune [options]

Remove old runs from the history, with what only they refer to, and make the file smaller.

Exit code: 0 done, also if there was nothing to remove; 2 there is no history, or it cannot be
written.

examples:
  accord fleet prune
  accord fleet prune --keep 50 --history runs.sqlite
"""
_KEEP: Final = 200
_PRUNE_OPTIONS: Final = f"""\
--keep N        how many of the newest runs of each fleet stay (default: {_KEEP})
{HISTORY}"""


@kind_of_work(_PRUNE_HELP, _PRUNE_OPTIONS, keep=_KEEP)
def prune(options: argparse.Namespace) -> int:
    """Remove old runs and say how many."""
    from accord_tools.fleet.history import open_history
    from accord_tools.reports.wording import plural

    path = history_path(options)
    with open_history(path, must_exist=True) as history:
        for each in history.notes:
            note(each)
        done = history.prune(options.keep)
    say(
        f"{path}: {plural(done.removed, 'run')} removed, {done.kept} kept;"
        f" {_describe_size(done.size_before)} before, {_describe_size(done.size_after)} now\n"
    )
    return 0


def _describe_size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.1f} kB"
