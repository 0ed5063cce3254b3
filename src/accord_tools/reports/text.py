"""Reports as text, and the plan of a check: what users read in a terminal."""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord_tools.reports import wording
from accord_tools.reports.report import SCORE_RULE, Report
from accord_tools.reports.tool_calls import CallPlan, names_by_reason, refusal_reason

Painter = Callable[[str, str], str]

_STYLES: Final = {"fail": "bold red", "warn": "bold yellow", "pass": "green"}
_MARKED: Final = "bold yellow"
# The most frequent reasons; the others are counted.
_REASONS: Final = 4


def no_style(_style: str, text: str) -> str:
    """Return a text without any style."""
    return text


def as_text(
    report: Report,
    *,
    width: int | None = None,
    paint: Painter = no_style,
    quiet: bool = False,
    verbose: bool = False,
) -> str:
    """Return the report as text: violations first, then the areas, coverage and score.

    Args:
        report: the report.
        width: the columns to wrap at; None does not wrap.
        paint: styles a text, as (style, text).
        quiet: only the violations and the summary line.
        verbose: also every requirement that was not put to the test.
    """
    target = escape_unprintable(report.target)
    lines = [f"{target}: {wording.revision(report)}", wording.headline(report), ""]
    for group in wording.shown_violations(report):
        severity = paint(_STYLES[group.severity], group.severity.upper())
        requirement = paint("bold", group.violation.requirement)
        lines.append(f"{severity} {requirement} {wording.violation_context(group, report)}")
        for fact in wording.violation_facts(group, report):
            # Users copy the command, so it is never wrapped.
            wrapped = _wrap(fact.label, fact.text, None if fact.label == "again" else width)
            lines += wrapped if fact.sign is None else _paint_value(wrapped, fact.sign, paint)
        lines.append("")
    if not report.violations:
        lines += [paint(_STYLES["pass"], "no violations"), ""]
    if quiet:
        return "\n".join([*lines[3:-1], wording.summary(report)]) + "\n"
    word, counts = wording.outcome(report)
    lines += [
        *_table(report, paint),
        "",
        f"coverage: {wording.coverage(report)}",
        *_list_untried(report, verbose=verbose),
        *wording.tool_lines(report),
        *(f"note: {escape_unprintable(note)}" for note in report.setting.notes),
        f"rules: {escape_unprintable(report.rules)}",
        f"score: {wording.score(report)} ({SCORE_RULE})",
        f"result: {paint(_STYLES.get(wording.state(report), 'bold'), word)} ({counts})",
    ]
    return "\n".join(lines) + "\n"


def _wrap(label: str, text: str, width: int | None) -> list[str]:
    first = f"     {label + ':':<9}"
    return wrap_text(text, width, first, " " * len(first))


def wrap_text(text: str, width: int | None, first: str, others: str) -> list[str]:
    """Return a text, escaped, as lines that fit; None does not wrap.

    Args:
        text: the text.
        width: the columns of the terminal.
        first: what the first line begins with.
        others: what the other lines begin with.
    """
    shown = escape_unprintable(text)
    if width is None:
        return [first + shown]
    return textwrap.wrap(
        shown,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
    )


def _paint_value(lines: list[str], sign: str, paint: Painter) -> list[str]:
    """Style the value between the signs, which may be on several lines."""
    closing, is_inside, styled = "<" * len(sign), False, []
    for line in lines:
        head, opening, value = line.partition(sign)
        if not opening:
            indent = len(line) - len(line.lstrip()) if is_inside else len(line)
            head, value = line[:indent], line[indent:]
        is_inside = is_inside or bool(opening)
        value, end, tail = value.partition(closing)
        value = f"{opening}{value}{end}"
        styled.append(head + (paint(_MARKED, value) if value else "") + tail)
        is_inside = is_inside and not end
    return styled


def _list_untried(report: Report, *, verbose: bool) -> Iterator[str]:
    """Yield why requirements were not put to the test, with their number or all of them."""
    reasons = wording.untried_reasons(report)
    if not reasons:
        return
    if not verbose:
        shown = [f"{len(ids)} {escape_unprintable(why)}" for why, ids in reasons[:_REASONS]]
        others = sum(len(ids) for _, ids in reasons[_REASONS:])
        shown += [f"{others} for other reasons"] if others else []
        yield f"not exercised (--verbose names them): {', '.join(shown)}"
        return
    yield "not exercised:"
    for why, ids in reasons:
        yield f"  {escape_unprintable(why)} ({len(ids)}):"
        yield from (f"    {id}" for id in ids)


def _table(report: Report, paint: Painter) -> Iterator[str]:
    areas = wording.by_area(report)
    total = sum((counts for _, counts in areas), Counter[str]())
    rows = [*areas, ("all", total)]
    first = max(len("area"), *(len(area) for area, _ in rows))
    yield paint(
        "bold", "area".ljust(first) + "".join(f"  {name}" for name in wording.columns(report))
    )
    for area, counts in rows:
        cells = []
        for name in wording.columns(report):
            cell = str(counts[name]).rjust(len(name) + 2)
            marked = name in ("fail", "warn") and counts[name]
            cells.append(paint(_STYLES[name], cell) if marked else cell)
        yield area.ljust(first) + "".join(cells)


# -- the plan of a check: which tools it will call, which not, and why


def plan_as_text(plan: CallPlan) -> str:
    """Return the plan as text."""
    lines = [f"will call no tools{' except in your cases' if plan.cases else ''}"]
    if plan.called:
        most = wording.plural(plan.calls, "time")
        lines = [f"will call, each at most {most} (--calls): {_join(plan.called)}"]
    for reason, names in names_by_reason(plan.not_called).items():
        lines.append(f"will not call: {_join(names)} ({refusal_reason(reason, names)})")
    if plan.cases:
        lines.append(f"your cases call: {_join(plan.cases)}")
    return "\n".join(lines)


def _join(names: Iterable[str]) -> str:
    return ", ".join(escape_unprintable(name) for name in names)


def plan_as_json(plan: CallPlan, target: str) -> str:
    """Return the plan as JSON, in ASCII."""
    return json.dumps({"target": target, **msgspec.structs.asdict(plan)}, indent=2) + "\n"
