"""What all forms of a report say in the same words."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from accord.check.report import VERDICTS, Report, ViolationGroup
from accord.protocol.catalogue import AREAS, catalogue
from accord.protocol.monitor import VerdictName

COLUMNS: Final[tuple[VerdictName, ...]] = ("pass", *(e for e in VERDICTS if e != "pass"))

_EXCERPT: Final = 200
_PROOF: Final = 2
# So many names are read; more are counted.
_NAMED: Final = 6
_PAGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)((?:/[a-z0-9-]+)+)")
_SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"


def escape_unprintable(text: str) -> str:
    """Spell out every character that could steer a terminal or break a document."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each.isprintable() else _spelled(each) for each in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def excerpt(text: str) -> str:
    """Return the beginning of a message."""
    shown = escape_unprintable(text[:_EXCERPT])
    return shown if len(text) <= _EXCERPT else f"{shown} ..."


def evidence_messages(group: ViolationGroup, report: Report) -> list[str]:
    """Return the messages that show a breach: the one recorded, or a request and its answer."""
    if group.numbers or group.violation.evidence is None:
        return [] if group.violation.evidence is None else [group.violation.evidence]
    for result in report.results:
        if result.id == group.violation.requirement:
            shown = [f"{each.party}: {each.message}" for each in result.evidence if each.message]
            return shown[-_PROOF:] or [group.violation.evidence]
    return [group.violation.evidence]


def clause(id: str) -> str:
    """Return what a requirement says."""
    row = catalogue().get(id)
    return row.text if row else "not in the catalogue"


def level(id: str, report: Report) -> str:
    """Return the keyword of a requirement in the revision of a report."""
    row = catalogue().get(id)
    return "unknown" if row is None else row.level_in(report.judged_by)


def page_of(anchor: str | None) -> str | None:
    """Return the address of the page that a place in the specification has, if it has one."""
    found = None if anchor is None else _PAGE.fullmatch(anchor)
    return None if found is None else f"{_SPECIFICATION}{found[1]}{found[2].removesuffix('/index')}"


def where(group: ViolationGroup, report: Report) -> str:
    """Say where a breach was seen, with a space before it; nothing where there is no recording."""
    if not group.numbers:
        return " at the end of the recording" if report.setting.party == "both" else ""
    shown = ", ".join(str(number) for number in group.numbers)
    if group.count == 1:
        return f" record {shown}"
    more = ", ..." if group.count > len(group.numbers) else ""
    return f" {group.count} times: records {shown}{more}"


def revision(report: Report) -> str:
    """Name the revisions that were checked, with the word before them."""
    checked = report.setting.revisions
    if len(checked) > 1:
        return f"revisions {', '.join(checked)}"
    return f"revision {report.revision or f'not named (judged by {report.judged_by})'}"


def coverage(report: Report) -> str:
    """Say how much was put to the test."""
    told = report.coverage
    return f"coverage: {told.applicable} applicable, {told.exercised} exercised"


def calls_line(report: Report) -> str | None:
    """Say which tools were called and how often; None where the check calls no tools."""
    setting = report.setting
    if setting.calls is None:
        return None
    told = _few([f"{excerpt(name)} ({count})" for name, count in setting.called.items()])
    return f"calls, at most {setting.calls} of each tool: {told or 'none'}"


def not_called_line(report: Report) -> str | None:
    """Say which tools were left alone and why; None where none was."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.setting.not_called.items():
        by_reason.setdefault(reason, []).append(excerpt(name))
    told = [f"{_few(names)} ({escape_unprintable(reason)})" for reason, names in by_reason.items()]
    return f"not called: {'; '.join(told)}" if told else None


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def percent_covered(report: Report) -> int:
    """Return the part of the applicable requirements that was exercised, rounded down."""
    told = report.coverage
    return 100 * told.exercised // told.applicable if told.applicable else 0


def score(report: Report) -> str:
    """Return the score in words."""
    return "none" if report.score is None else f"{report.score:g} of 100"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def state(report: Report) -> VerdictName:
    """Return the verdict on the whole; not exercised where nothing was put to the test."""
    if report.has_failed:
        return "fail"
    if report.count("warn"):
        return "warn"
    return "pass" if report.coverage.exercised else "not-exercised"


def outcome(report: Report) -> tuple[str, str]:
    """Return the verdict on the whole in words, and how many requirements were broken."""
    words = {"fail": "failed", "warn": "passed with warnings", "pass": "passed"}
    return words.get(state(report), "nothing was put to the test"), breach_counts(report)


def breach_counts(report: Report) -> str:
    """Say how many requirements were broken, however often: the count of every form."""
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
    order = {area: place for place, area in enumerate(AREAS)}
    return sorted(areas.items(), key=lambda item: order.get(item[0], len(order)))


def area_of(id: str) -> str:
    """Return the area that a requirement belongs to."""
    return id.split(".", 1)[0]
