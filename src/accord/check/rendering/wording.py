"""The words that all formats of a report share."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from accord.check.report import VERDICTS, Report, ViolationGroup
from accord.protocol.catalogue import AREAS, catalogue
from accord.protocol.verdict import VerdictName

_COLUMNS: Final[tuple[VerdictName, ...]] = ("pass", *(e for e in VERDICTS if e != "pass"))

_EXCERPT: Final = 200
_PROOF: Final = 2
# Lists of names show this many and count the others.
_NAMED: Final = 6
_PAGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)((?:/[a-z0-9-]+)+)")
_SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"


def columns(report: Report) -> tuple[VerdictName, ...]:
    """Return the verdicts that a table counts; only recordings can lack facts."""
    return tuple(e for e in _COLUMNS if e != "not-recorded" or report.count(e))


def escape_unprintable(text: str) -> str:
    """Escape every character that could control a terminal or break a document."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def excerpt(text: str) -> str:
    """Return the beginning of a message, escaped."""
    shown = escape_unprintable(text[:_EXCERPT])
    return shown if len(text) <= _EXCERPT else f"{shown} ..."


def violation_context(group: ViolationGroup, report: Report) -> str:
    """Return the level and the party of a violation, and the records that show it."""
    row = catalogue().get(group.violation.requirement)
    level = "unknown" if row is None else row.level_in(report.judged_by)
    return f"({level}, {group.violation.party}){_where(group, report)}"


def _where(group: ViolationGroup, report: Report) -> str:
    if not group.numbers:
        return " at the end of the recording" if report.setting.party == "both" else ""
    shown = ", ".join(str(number) for number in group.numbers)
    if group.count == 1:
        return f" record {shown}"
    more = ", ..." if group.count > len(group.numbers) else ""
    return f" {group.count} times: records {shown}{more}"


def violation_facts(group: ViolationGroup, report: Report) -> Iterator[tuple[str, str]]:
    """Yield what is known about a violation, each fact with its label; not all are escaped."""
    violation = group.violation
    row = catalogue().get(violation.requirement)
    result = next((each for each in report.results if each.id == violation.requirement), None)
    yield "clause", row.text if row else "not in the catalogue"
    yield "why", f"{violation.party} {violation.why}"
    if violation.evidence is not None:
        shown = [violation.evidence]
        if not group.numbers and result is not None:
            # No recording: a request and its answer.
            proof = [f"{each.party}: {each.message}" for each in result.evidence if each.message]
            shown = proof[-_PROOF:] or shown
        for message in shown:
            yield "message", excerpt(message)
    if row is not None and _is_first(group, report):
        yield "mend", row.mend
    if result is not None and result.repeat is not None:
        yield "again", result.repeat


def _is_first(group: ViolationGroup, report: Report) -> bool:
    """Return whether no earlier violation of the report breaks the same requirement."""
    id = group.violation.requirement
    return group is next((e for e in report.violations if e.violation.requirement == id), group)


def page_of(anchor: str | None) -> str | None:
    """Return the URL of a page of the specification; None if it is not a page."""
    found = None if anchor is None else _PAGE.fullmatch(anchor)
    return None if found is None else f"{_SPECIFICATION}{found[1]}{found[2].removesuffix('/index')}"


def revision(report: Report) -> str:
    """Return the revisions that were checked, as text."""
    checked = report.setting.revisions
    if len(checked) > 1:
        return f"revisions {', '.join(checked)}"
    return f"revision {report.revision or f'not named (judged by {report.judged_by})'}"


def coverage(report: Report) -> str:
    """Return how many requirements were put to the test, as text."""
    counts = report.coverage
    return f"coverage: {counts.applicable} applicable, {counts.exercised} exercised"


def tool_lines(report: Report) -> Iterator[str]:
    """Yield which tools were called and how often, and which were not and why."""
    setting = report.setting
    if setting.calls is not None:
        names = _few([f"{excerpt(name)} ({count})" for name, count in setting.called.items()])
        yield f"calls, at most {setting.calls} of each tool: {names or 'none'}"
    reasons = [
        f"{_few([excerpt(name) for name in names])} ({escape_unprintable(reason)})"
        for reason, names in names_by_reason(setting.not_called).items()
    ]
    if reasons:
        yield f"not called: {'; '.join(reasons)}"


def names_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the tools that are not called, by the reason that they share."""
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(reason, []).append(name)
    return found


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def percent_covered(report: Report) -> int:
    """Return the percentage of applicable requirements that were exercised, rounded down."""
    counts = report.coverage
    return 100 * counts.exercised // counts.applicable if counts.applicable else 0


def score(report: Report) -> str:
    """Return the score as text."""
    return "none" if report.score is None else f"{report.score:g} of 100"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def state(report: Report) -> VerdictName:
    """Return the verdict on the whole; `not-exercised` if nothing was put to the test."""
    if report.has_failed:
        return "fail"
    if report.count("warn"):
        return "warn"
    return "pass" if report.coverage.exercised else "not-exercised"


def outcome(report: Report) -> tuple[str, str]:
    """Return the verdict on the whole as text, and the counts of broken requirements."""
    words = {"fail": "failed", "warn": "passed with warnings", "pass": "passed"}
    return words.get(state(report), "nothing was put to the test"), breach_counts(report)


def breach_counts(report: Report) -> str:
    """Return how many requirements were broken; repetitions do not count."""
    return f"{plural(report.count('fail'), 'requirement')} failed, {report.count('warn')} warned"


def summary(report: Report) -> str:
    """Return the report in one line."""
    return (
        f"{escape_unprintable(report.target)}: {revision(report)}, {breach_counts(report)},"
        f" {report.coverage.exercised} of {report.coverage.applicable} applicable exercised,"
        f" score {score(report)}"
    )


def by_area(report: Report) -> list[tuple[str, Counter[str]]]:
    """Count the verdicts in each area, in the order of the specification."""
    areas: dict[str, Counter[str]] = {}
    for result in report.results:
        areas.setdefault(area_of(result.id), Counter())[result.verdict] += 1
    order = {area: index for index, area in enumerate(AREAS)}
    return sorted(areas.items(), key=lambda item: order.get(item[0], len(order)))


def area_of(id: str) -> str:
    """Return the area that a requirement belongs to."""
    return id.split(".", 1)[0]
