"""A fleet's report as text, for terminals and logs."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from accord.cli.terminal import escape_unprintable
from accord_tools.fleet.judging import IMPROVED
from accord_tools.fleet.rendering.wording import (
    DIFFERENCE_WORDS,
    STATE_WORDS,
    counted_breaches,
    counted_findings,
    date_text,
    difference_text,
    differences_by_server,
    fleet_title,
    group_differences,
    group_findings,
    headline,
    most_broken,
    outcome_state,
    reused_text,
    seconds_text,
    server_cells,
)
from accord_tools.fleet.results import (
    STATES,
    FleetView,
    ServerResult,
)
from accord_tools.reports.text import Painter, no_style, wrap_text
from accord_tools.reports.wording import plural

_STYLES: Final = {
    "ok": "green",
    "failed": "bold red",
    "unreachable": "bold red",
    "timed-out": "bold red",
    "skipped": "bold",
}
_OUTCOMES: Final = {"fail": "bold red", "pass": "green"}
_LEFT: Final = ("server", "state", "change", "version", "result")
# Columns that are left out on a narrow terminal, the first first.
_DROPPED: Final = (
    *("version", "tokens", "tools", "start", "warnings", "tests", "result", "score", "change"),
)
_LONGEST_NAME: Final = 32
_SHORTEST_NAME: Final = 8
_LONGEST_CELL: Final = 40
_GAP: Final = 2
# Lists show this many and count the others.
_SHOWN: Final = 10
_NAMED: Final = 5


class _Style(NamedTuple):
    width: int | None
    paint: Painter
    verbose: bool

    @property
    def most(self) -> int:
        """How many entries of a list are shown."""
        return 10_000 if self.verbose else _SHOWN

    @property
    def most_names(self) -> int:
        """How many entries of a server one line names."""
        return 10_000 if self.verbose else _NAMED


def as_text(
    view: FleetView,
    *,
    width: int | None = None,
    paint: Painter = no_style,
    is_quiet: bool = False,
    is_verbose: bool = False,
) -> str:
    """Return the report as text: the table, reasons and breaches, what changed, the headline.

    Args:
        view: the run and all that is known beside it.
        width: the columns to fit the text to; None does not wrap.
        paint: styles a text, as (style, text).
        is_quiet: only the servers that are not as expected, and the headline.
        is_verbose: whole lists instead of their beginnings.
    """
    style, run = _Style(width, paint, is_verbose), view.run
    outcome = paint(_OUTCOMES.get(outcome_state(run), "bold"), headline(view))
    title = f"{fleet_title(run)}: "
    lines = [] if is_quiet else [*_table(view, style), ""]
    for result in sorted(run.results, key=lambda each: STATES.index(each.state)):
        if not is_quiet or not result.is_as_expected:
            lines += _server(result, style)
    if is_quiet:
        return "\n".join([*lines, f"{escape_unprintable(title)}{outcome}"]) + "\n"
    lines += _comparison(view, style)
    lines += _common_breaches(view, style)
    lines += _findings(view, style)
    facts = [
        date_text(run.started),
        seconds_text(run.seconds),
        f"rules {run.rules.version}",
        *([f"compared with {view.comparison.against}"] if view.comparison else []),
    ]
    lines += _improvements(view, style)
    lines += [f"note: {escape_unprintable(note)}" for note in run.notes]
    lines += [*_wrap(f"{title}{', '.join(facts)}", style, ""), outcome]
    return "\n".join(lines) + "\n"


# -- the table


def _table(view: FleetView, style: _Style) -> Iterator[str]:
    changes = differences_by_server(view)
    found = [server_cells(each, view, changes.get(each.name, ())) for each in view.run.results]
    rows = [
        {name: _cut(escape_unprintable(cell) or "-", _LONGEST_CELL) for name, cell in row.items()}
        for row in found
    ]
    columns = [
        name for name in (rows[0] if rows else ()) if any(row[name].strip("-") for row in rows)
    ]
    if "server" not in columns:
        return
    widths = {name: max(_wide(name), *(_wide(row[name]) for row in rows)) for name in columns}
    widths["server"] = min(widths["server"], _LONGEST_NAME)
    _fit(columns, widths, style.width)
    yield style.paint("bold", _join({name: name for name in columns}, columns, widths).rstrip())
    for result, row in zip(view.run.results, rows, strict=True):
        row["server"] = _cut(row["server"], widths["server"])
        line = _join(row, columns, widths).rstrip()
        word = STATE_WORDS[result.state]
        place = line.find(word, widths["server"])
        painted = style.paint(_STYLES[result.state], word)
        yield line[:place] + painted + line[place + len(word) :]
    reused = [
        f"{result.name} ({made})"
        for result in view.run.results
        if (made := reused_text(result, view.run))
    ]
    if reused and "result" not in columns:
        yield from _wrap(f"reused: {', '.join(reused)}", style, "")


def _fit(columns: list[str], widths: dict[str, int], width: int | None) -> None:
    """Leave out columns, then shorten names, until the table fits."""
    if width is None:
        return

    def too_wide() -> int:
        return sum(widths[name] + _GAP for name in columns) - _GAP - width

    for name in _DROPPED:
        if too_wide() > 0 and name in columns:
            columns.remove(name)
    widths["server"] = max(_SHORTEST_NAME, widths["server"] - max(too_wide(), 0))


def _join(row: dict[str, str], columns: Sequence[str], widths: dict[str, int]) -> str:
    cells = []
    for name in columns:
        padding = " " * (widths[name] - _wide(row[name]))
        cells.append(row[name] + padding if name in _LEFT else padding + row[name])
    return (" " * _GAP).join(cells)


def _wide(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _cut(text: str, width: int) -> str:
    if _wide(text) <= width:
        return text
    kept = text[: width - 1]
    while _wide(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}\u2026"


# -- below the table


def _server(result: ServerResult, style: _Style) -> Iterator[str]:
    """Yield why a server is not as expected; nothing if it is, and nothing is to be said."""
    # What is better than expected is one line for all servers.
    remarks = [f"note: {e}" for e in result.remarks if not e.startswith(IMPROVED)]
    left = [f"left running: {each}" for each in result.left_processes]
    if result.state == "ok" and not remarks and not left:
        return
    state = style.paint(_STYLES[result.state], STATE_WORDS[result.state])
    yield f"{style.paint('bold', escape_unprintable(result.name))}: {state}"
    for line in (*result.reasons, *remarks, *left):
        yield from _wrap(line, style)
    if result.state != "ok":
        yield from _breaches(result, style)
        yield from _lock_changes(result, style)
    if result.state in ("unreachable", "timed-out") and result.stderr:
        lines = result.stderr if style.verbose else _last_lines(result)
        for line in lines:
            yield from _wrap(f"stderr: {line}", style)
    yield ""


def _last_lines(result: ServerResult) -> list[str]:
    """Return the last lines of its output; a server that was started twice says the same twice."""
    said = " ".join(result.reasons)
    fresh = [line for line in dict.fromkeys(result.stderr) if line.strip() not in said]
    return fresh[-3:]


def _improvements(view: FleetView, style: _Style) -> Iterator[str]:
    """Yield which limits are looser than servers need, in one line."""
    found: dict[str, list[str]] = {}
    for result in view.run.results:
        for remark in result.remarks:
            if remark.startswith(IMPROVED):
                limit, _, number = remark.removeprefix(IMPROVED).partition(" to ")
                found.setdefault(limit, []).append(f"{result.name} (to {number})")
    if found:
        limits = "; ".join(f"{limit} of {', '.join(names)}" for limit, names in found.items())
        yield from _wrap(f"note: {IMPROVED}{limits}", style, "")


def _lock_changes(result: ServerResult, style: _Style) -> Iterator[str]:
    if result.changed_since != "lock":
        return
    for each in result.changes[: style.most]:
        yield from _wrap(f"{each.kind} change: {each.subject}: {each.what}", style)
    yield from _rest(result.changes, style)


def _breaches(result: ServerResult, style: _Style) -> Iterator[str]:
    counted = [each for each in counted_breaches(result) if each.counts]
    for each in counted[: style.most]:
        yield from _wrap(f"{each.verdict} {each.requirement}: {each.message}", style)
    yield from _rest(counted, style)
    tests = result.tests.failures
    for test in tests[: style.most]:
        yield from _wrap(f"test {test.name}: {test.summary}", style)
        if test.repeat:
            # Users copy the command, so it is never wrapped.
            yield f"    again: {escape_unprintable(test.repeat)}"
    yield from _rest(tests, style)


def _wrap(text: str, style: _Style, indent: str = "  ") -> list[str]:
    return wrap_text(text, style.width, indent, f"{indent}  ")


def _rest(items: Sequence[object], style: _Style) -> Iterator[str]:
    if len(items) > style.most:
        yield f"  and {len(items) - style.most} more (--verbose names them)"


def _comparison(view: FleetView, style: _Style) -> Iterator[str]:
    if view.comparison is None:
        return
    titles = ("regressions", "fixed", "other changes")
    for title, found in zip(titles, group_differences(view.comparison), strict=True):
        if not found:
            continue
        yield style.paint("bold", f"{title} ({len(found)}):")
        for each in found[: style.most]:
            flaky = " (flaky)" if each.is_flaky else ""
            said = f"{each.server}: {DIFFERENCE_WORDS[each.kind]}: {difference_text(each)}{flaky}"
            yield from _wrap(said, style)
        yield from _rest(found, style)
        yield ""
    if rules := view.comparison.new_rules:
        yield from _wrap(f"{plural(len(rules), 'new rule')}, not regressions:", style, "")
        yield from (f"  {escape_unprintable(id)}" for id in rules[: style.most])
        yield from _rest(rules, style)
        yield ""


def _common_breaches(view: FleetView, style: _Style) -> Iterator[str]:
    """Yield the requirements that several servers break."""
    common = [row for row in most_broken(view.run) if len(row.failing) + len(row.warning) > 1]
    if not common:
        return
    yield style.paint("bold", "broken by several servers:")
    for row in common[: style.most]:
        names = ", ".join((*row.failing, *row.warning))
        yield from _wrap(f"{row.id} ({len(row.failing) + len(row.warning)}): {names}", style)
    yield from _rest(common, style)
    yield ""


def _findings(view: FleetView, style: _Style) -> Iterator[str]:
    counted = counted_findings(view.run)
    if not counted:
        return
    yield style.paint("bold", f"findings ({len(counted)}):")
    groups = group_findings(counted)
    for each in groups[: style.most]:
        named = list(each.subjects[: style.most_names])
        if len(each.subjects) > len(named):
            named.append(f"and {len(each.subjects) - len(named)} more")
        about = [each.id, each.server, ", ".join(named), each.text]
        yield from _wrap(": ".join(filter(None, about)), style)
    yield from _rest(groups, style)
    yield ""
