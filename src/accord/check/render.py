"""Reports as text, JSON, JUnit and Markdown: pure functions from a report to a string.

Whatever came out of a recording is made harmless on the way: control characters, bidirectional
marks and halves of surrogate pairs are spelled out and never reach a terminal as they are.
"""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from accord.check.report import SCORE_RULE, Finding, Report
from accord.protocol.catalogue import AREAS, catalogue
from accord.protocol.monitor import Verdict

__all__ = ["as_json", "as_junit", "as_markdown", "as_text", "harmless", "summary"]

Painter = Callable[[str, str], str]

_EXCERPT: Final = 200
_SKIPPED: Final = ("not-exercised", "not-applicable")
_COLUMNS: Final = ("pass", "fail", "warn", "not-exercised", "not-applicable")
_STYLES: Final = {"fail": "bold red", "warn": "bold yellow", "pass": "green"}


def harmless(text: str) -> str:
    """Spell out every character that could steer a terminal or break a document."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each.isprintable() else _spelled(each) for each in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _plain(_style: str, text: str) -> str:
    return text


def _excerpt(text: str) -> str:
    shown = harmless(text[:_EXCERPT])
    return shown if len(text) <= _EXCERPT else f"{shown} ..."


def _clause(id_: str) -> str:
    row = catalogue().get(id_)
    return row.text if row else "not in the catalogue"


def _level(id_: str, report: Report) -> str:
    row = catalogue().get(id_)
    return "unknown" if row is None else row.level_in(report.judged_by)


def _where(finding: Finding) -> str:
    if not finding.numbers:
        return "at the end of the recording"
    shown = ", ".join(str(number) for number in finding.numbers)
    if finding.count == 1:
        return f"record {shown}"
    more = ", ..." if finding.count > len(finding.numbers) else ""
    return f"{finding.count} times: records {shown}{more}"


def _revision(report: Report) -> str:
    return report.revision or f"not named (judged by {report.judged_by})"


def _coverage(report: Report) -> str:
    coverage = report.coverage
    return f"coverage: {coverage.applicable} applicable, {coverage.exercised} exercised"


def _score(report: Report) -> str:
    return "none" if report.score is None else f"{report.score:g} of 100"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def summary(report: Report) -> str:
    """Return the report in one line."""
    return (
        f"{harmless(report.target)}: revision {_revision(report)},"
        f" {_plural(report.count('fail'), 'requirement')} failed, {report.count('warn')} warned,"
        f" {report.coverage.exercised} of {report.coverage.applicable} applicable exercised,"
        f" score {_score(report)}"
    )


def _by_area(report: Report) -> list[tuple[str, Counter[str]]]:
    areas: dict[str, Counter[str]] = {}
    for result in report.results:
        areas.setdefault(_area(result.id), Counter())[result.verdict] += 1
    order = {area: place for place, area in enumerate(AREAS)}
    return sorted(areas.items(), key=lambda item: order.get(item[0], len(order)))


def _area(id_: str) -> str:
    return id_.split(".", 1)[0]


def as_text(
    report: Report, *, width: int | None = None, paint: Painter = _plain, quiet: bool = False
) -> str:
    """Return the report for people: breaches first, then the areas, coverage and score.

    Args:
        report: what to render.
        width: the columns to wrap at; without it lines are as long as they are.
        paint: gives a text a style, as (style, text).
        quiet: leave out everything but the breaches and the summary line.
    """
    lines = [f"{harmless(report.target)}: revision {_revision(report)}", ""]
    for finding in report.findings:
        lines += _finding_lines(finding, report, width=width, paint=paint)
    if not report.findings:
        lines += [paint(_STYLES["pass"], "no violations"), ""]
    if quiet:
        return "\n".join([*lines[2:-1], summary(report)]) + "\n"
    lines += _table(report, paint)
    lines += [
        "",
        _coverage(report),
        f"score: {_score(report)} ({SCORE_RULE})",
        _outcome(report, paint),
    ]
    return "\n".join(lines) + "\n"


def _finding_lines(
    finding: Finding, report: Report, *, width: int | None, paint: Painter
) -> Iterator[str]:
    severity = finding.severity
    level = _level(finding.requirement, report)
    yield (
        f"{paint(_STYLES[severity], severity.upper())} {paint('bold', finding.requirement)}"
        f" ({level}, {finding.party}) {_where(finding)}"
    )
    yield from _wrapped("clause:  ", _clause(finding.requirement), width)
    yield from _wrapped("why:     ", f"{finding.party} {harmless(finding.why)}", width)
    if finding.evidence is not None:
        yield from _wrapped("message: ", _excerpt(finding.evidence), width)
    yield ""


def _wrapped(label: str, text: str, width: int | None) -> list[str]:
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
    areas = _by_area(report)
    total = sum((counts for _, counts in areas), Counter[str]())
    rows = [*areas, ("all", total)]
    first = max(len("area"), *(len(area) for area, _ in rows))
    yield paint("bold", "area".ljust(first) + "".join(f"  {name}" for name in _COLUMNS))
    for area, counts in rows:
        cells = []
        for name in _COLUMNS:
            cell = str(counts[name]).rjust(len(name) + 2)
            marked = name in ("fail", "warn") and counts[name]
            cells.append(paint(_STYLES[name], cell) if marked else cell)
        yield area.ljust(first) + "".join(cells)


def _outcome(report: Report, paint: Painter) -> str:
    failures, warnings = report.breaches("fail"), report.breaches("warn")
    told = f"{_plural(failures, 'failure')}, {_plural(warnings, 'warning')}"
    verdict = "fail" if report.has_failed else "warn" if warnings else "pass"
    word = {"fail": "failed", "warn": "passed with warnings", "pass": "passed"}[verdict]
    return f"result: {paint(_STYLES[verdict], word)} ({told})"


def as_json(report: Report) -> str:
    """Return the report for programs, in ASCII."""
    shown: dict[str, Any] = msgspec.to_builtins(report)
    for inner in ("findings", "judged_by"):
        del shown[inner]
    return json.dumps(shown, indent=2) + "\n"


def as_junit(report: Report) -> str:
    """Return the report for continuous integration: a suite per area, a case per requirement."""
    name = f"accord: {harmless(report.target)}"
    root = Element("testsuites", {"name": name, **_counts(report.results)})
    for area, _ in _by_area(report):
        results = [result for result in report.results if _area(result.id) == area]
        suite = SubElement(root, "testsuite", {"name": area, **_counts(results)})
        for result in results:
            _case(suite, result)
    indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + tostring(root, encoding="unicode") + "\n"


def _counts(results: Sequence[Verdict]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(result.verdict == "fail" for result in results)),
        "errors": "0",
        "skipped": str(sum(result.verdict in _SKIPPED for result in results)),
    }


def _case(suite: Element, result: Verdict) -> None:
    case = SubElement(suite, "testcase", classname=f"accord.{_area(result.id)}", name=result.id)
    said = harmless(result.message)
    if result.verdict in _SKIPPED:
        SubElement(case, "skipped", message=f"{result.verdict}: {said}" if said else result.verdict)
    elif result.verdict == "fail":
        failure = SubElement(case, "failure", message=said, type=result.level)
        failure.text = _evidence_text(result)
    elif result.verdict == "warn":
        SubElement(case, "system-out").text = f"warning: {said}\n{_evidence_text(result)}"


def _evidence_text(result: Verdict) -> str:
    lines = [_clause(result.id)]
    for each in result.evidence:
        place = "" if each.number is None else f"record {each.number}: "
        lines.append(f"{place}{each.party} {harmless(each.why)}")
        if each.message is not None:
            lines.append(f"    {_excerpt(each.message)}")
    return "\n".join(lines)


def as_markdown(report: Report) -> str:
    """Return the report for a pull request: the outcome, the breaches, the areas folded away."""
    lines = [
        f"### accord: {_marked(report.target)}",
        "",
        f"- **{_outcome(report, _plain)}**",
        f"- revision: {_revision(report)}",
        f"- {_coverage(report)}",
        f"- score: {_score(report)} ({SCORE_RULE})",
        "",
    ]
    for finding in report.findings:
        lines += _finding_markdown(finding, report)
    lines += ["<details><summary>By area</summary>", ""]
    lines += [f"| area | {' | '.join(_COLUMNS)} |", "|---|" + "---:|" * len(_COLUMNS)]
    for area, counts in _by_area(report):
        lines.append(f"| {area} | {' | '.join(str(counts[name]) for name in _COLUMNS)} |")
    return "\n".join([*lines, "", "</details>"]) + "\n"


def _finding_markdown(finding: Finding, report: Report) -> Iterator[str]:
    level = _level(finding.requirement, report)
    yield (
        f"- **{finding.severity}** `{finding.requirement}` ({level}, {finding.party})"
        f" {_where(finding)}"
    )
    yield f"  - clause: {_marked(_clause(finding.requirement))}"
    yield f"  - why: {finding.party} {_marked(finding.why)}"
    if finding.evidence is not None:
        yield f"  - message: {_code(_excerpt(finding.evidence))}"
    yield ""


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    shown = harmless(text)
    for sign in "\\`*_{}[]<>#|~":
        shown = shown.replace(sign, f"\\{sign}")
    # A zero-width space keeps the name after it from being called into the discussion.
    return shown.replace("@", "@&#8203;")


def _code(text: str) -> str:
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}"
