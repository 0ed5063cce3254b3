"""Reports as text: the violations first, then the areas, coverage and score."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from accord.check.rendering import wording
from accord.check.report import SCORE_RULE, Report, ViolationGroup

Painter = Callable[[str, str], str]

_STYLES: Final = {"fail": "bold red", "warn": "bold yellow", "pass": "green"}


def no_style(_style: str, text: str) -> str:
    """Return a text without any style."""
    return text


def as_text(
    report: Report, *, width: int | None = None, paint: Painter = no_style, quiet: bool = False
) -> str:
    """Return the report as text: violations first, then the areas, coverage and score.

    Args:
        report: the report.
        width: the columns to wrap at; None does not wrap.
        paint: styles a text, as (style, text).
        quiet: only the violations and the summary line.
    """
    lines = [f"{wording.escape_unprintable(report.target)}: {wording.revision(report)}", ""]
    repeats = {result.id: result.repeat for result in report.results}
    for group in report.violations:
        lines += _group_lines(group, report, width=width, paint=paint)
        if (repeat := repeats.get(group.violation.requirement)) is not None:
            # Users copy the command, so it is never wrapped.
            lines.append(f"     again:   {wording.escape_unprintable(repeat)}")
        lines.append("")
    if not report.violations:
        lines += [paint(_STYLES["pass"], "no violations"), ""]
    if quiet:
        return "\n".join([*lines[2:-1], wording.summary(report)]) + "\n"
    lines += _table(report, paint)
    lines += [
        "",
        wording.coverage(report),
        *(line for line in (wording.calls_line(report), wording.not_called_line(report)) if line),
        *(f"note: {wording.escape_unprintable(note)}" for note in report.setting.notes),
        f"score: {wording.score(report)} ({SCORE_RULE})",
        _outcome(report, paint),
    ]
    return "\n".join(lines) + "\n"


def _group_lines(
    group: ViolationGroup, report: Report, *, width: int | None, paint: Painter
) -> Iterator[str]:
    severity = group.severity
    violation = group.violation
    level = wording.level(violation.requirement, report)
    yield (
        f"{paint(_STYLES[severity], severity.upper())} {paint('bold', violation.requirement)}"
        f" ({level}, {violation.party}){wording.where(group, report)}"
    )
    yield from _wrap("clause:  ", wording.clause(violation.requirement), width)
    yield from _wrap(
        "why:     ", f"{violation.party} {wording.escape_unprintable(violation.why)}", width
    )
    for message in wording.evidence_messages(group, report):
        yield from _wrap("message: ", wording.excerpt(message), width)


def _wrap(label: str, text: str, width: int | None) -> list[str]:
    first = f"     {label}"
    if width is None:
        return [first + text]
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )


def _table(report: Report, paint: Painter) -> Iterator[str]:
    areas = wording.by_area(report)
    total = sum((counts for _, counts in areas), Counter[str]())
    rows = [*areas, ("all", total)]
    first = max(len("area"), *(len(area) for area, _ in rows))
    yield paint("bold", "area".ljust(first) + "".join(f"  {name}" for name in wording.COLUMNS))
    for area, counts in rows:
        cells = []
        for name in wording.COLUMNS:
            cell = str(counts[name]).rjust(len(name) + 2)
            marked = name in ("fail", "warn") and counts[name]
            cells.append(paint(_STYLES[name], cell) if marked else cell)
        yield area.ljust(first) + "".join(cells)


def _outcome(report: Report, paint: Painter) -> str:
    word, counts = wording.outcome(report)
    return f"result: {paint(_STYLES.get(wording.state(report), 'bold'), word)} ({counts})"
