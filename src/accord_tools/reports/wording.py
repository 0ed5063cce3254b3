"""The words that all formats of a report share."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import AREAS
from accord.protocol.verdict import Evidence, Mark, VerdictName
from accord_tools.reports.clauses import clause_of
from accord_tools.reports.report import (
    HIGHEST_WITH_FAILURE,
    VERDICTS,
    Report,
    RequirementResult,
    ViolationGroup,
)
from accord_tools.reports.tool_calls import ToolCounts, names_by_reason, refusal_reason

_COLUMNS: Final[tuple[VerdictName, ...]] = ("pass", *(e for e in VERDICTS if e != "pass"))

_EXCERPT: Final = 200
_PROOF: Final = 2
# Lists of names show this many and count the others.
_NAMED: Final = 6
CAPPED: Final = f"capped at {HIGHEST_WITH_FAILURE} because a MUST failed"
# Below this percentage of coverage a score without violations is not shown as good.
_ENOUGH_COVERED: Final = 60


def columns(report: Report) -> tuple[VerdictName, ...]:
    """Return the verdicts that a table counts; only recordings can lack facts."""
    return tuple(e for e in _COLUMNS if e != "not-recorded" or report.count(e))


def plural(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def excerpt(text: str) -> str:
    """Return the beginning of a message, escaped."""
    shown = escape_unprintable(text[:_EXCERPT])
    return shown if len(text) <= _EXCERPT else f"{shown} ..."


class Fact(NamedTuple):
    """Something that is known about a violation; `sign` marks a value in its text."""

    label: str
    text: str
    sign: str | None = None


def mark_value(text: str, mark: Mark, sign: str) -> str:
    """Return an excerpt, escaped, with signs before and after the value in question."""
    before, value, after = (escape_unprintable(each) for each in split_marked(text, mark))
    closing = "<" * len(sign)
    return f"{before} {sign} {value} {closing} {after}".rstrip()


def split_marked(text: str, mark: Mark | None) -> tuple[str, str, str]:
    """Return the text before the value in question, the value, and the text after it."""
    start, end = mark or (len(text), len(text))
    return text[:start], text[start:end], text[end:]


def _message(party: str | None, text: str, mark: Mark | None) -> Fact:
    speaker = "" if party is None else f"{party}: "
    if mark is None:
        return Fact("message", speaker + excerpt(text))
    sign = ">>>"
    while sign in text or "<" * len(sign) in text:
        sign += ">"
    return Fact("message", speaker + mark_value(text, mark, sign), sign)


def shown_violations(report: Report) -> list[ViolationGroup]:
    """Return the violations to list; the others are named by a more specific one."""
    return [group for group in report.violations if group.beside is None]


def violation_context(group: ViolationGroup, report: Report) -> str:
    """Return the level and the party of a violation, and the records that show it."""
    level = clause_of(group.violation.requirement, report.judged_by).level or "unknown"
    return f"({level}, {group.violation.party}){_where(group, report)}"


def _where(group: ViolationGroup, report: Report) -> str:
    if not group.numbers:
        return " at the end of the recording" if report.setting.party == "both" else ""
    shown = ", ".join(str(number) for number in group.numbers)
    if group.count == 1:
        return f" record {shown}"
    more = ", ..." if group.count > len(group.numbers) else ""
    return f" {group.count} times: records {shown}{more}"


def violation_facts(group: ViolationGroup, report: Report) -> Iterator[Fact]:
    """Yield what is known about a violation; not all facts are escaped."""
    violation = group.violation
    clause = clause_of(violation.requirement, report.judged_by)
    result = next((each for each in report.results if each.id == violation.requirement), None)
    yield Fact("clause", clause.text)
    yield Fact("why", f"{violation.party} {violation.why}")
    if group.also:
        yield Fact("also", "; ".join(_name_overlap(each, group, report) for each in group.also))
    if violation.place is not None:
        yield Fact("at", violation.place)
    if violation.evidence is not None:
        proof = [] if group.numbers or result is None else _proof(result)
        for each in proof:
            yield _message(each.party, each.message or "", each.mark)
        if not proof:
            yield _message(None, violation.evidence, violation.mark)
    if clause.mend and _is_first(group, report):
        yield Fact("mend", clause.mend)
    if result is not None and result.repeat is not None:
        yield Fact("again", result.repeat)


def _proof(result: RequirementResult) -> list[Evidence]:
    """Return the request and the answer that show a violation, without a recording."""
    messages = [each for each in result.evidence if each.message]
    marked = [place for place, each in enumerate(messages) if each.mark is not None]
    end = marked[0] + 1 if marked else len(messages)
    return messages[max(0, end - _PROOF) : end]


def _name_overlap(id: str, group: ViolationGroup, report: Report) -> str:
    """Return a requirement that is broken too, and why if it is not listed by itself."""
    own = group.violation.requirement
    for each in report.violations:
        if each.violation.requirement == id and each.beside == own:
            return f"{id} ({each.violation.party} {each.violation.why})"
    return id


def _is_first(group: ViolationGroup, report: Report) -> bool:
    """Return whether no earlier violation of the report breaks the same requirement."""
    id = group.violation.requirement
    shown = shown_violations(report)
    return group is next((e for e in shown if e.violation.requirement == id), group)


def revision(report: Report) -> str:
    """Return the revisions that were checked, as text."""
    checked = report.setting.revisions
    if len(checked) > 1:
        return f"revisions {', '.join(checked)}"
    return f"revision {report.revision or f'not named (judged by {report.judged_by})'}"


def headline(report: Report) -> str:
    """Return the outcome in a sentence: what was broken, and how much was tested."""
    is_clean = not report.has_failed and not report.count("warn")
    broken = "no failures" if is_clean else breach_counts(report)
    words = [f"{broken} in the {coverage(report)}"]
    names = [excerpt(name) for name in report.setting.never_succeeded]
    words += [f"no call of {_few(names)} succeeded"] if names else []
    return "; ".join(words)


def coverage(report: Report) -> str:
    """Return how many requirements were put to the test, and how many tools were called."""
    counts = report.coverage
    tested = f"{counts.exercised} of {counts.applicable} rules tested"
    return f"{tested} ({percent_covered(report)} %){called_tools(report, '; {} were called')}"


def called_tools(report: Report, words: str) -> str:
    """Return how many of the tools were called, within these words; empty without tools."""
    setting = report.setting
    if not setting.tools:
        return ""
    return words.format(f"{len(setting.call_counts)} of {len(setting.tools)} tools")


def untried_reasons(report: Report) -> list[tuple[str, list[str]]]:
    """Return why requirements were not put to the test, each reason with its requirements.

    The reason for most of them is first.
    """
    reasons: dict[str, list[str]] = {}
    for result in report.results:
        if result.verdict == "not-exercised":
            reasons.setdefault(result.message or "no reason was noted", []).append(result.id)
    return sorted(reasons.items(), key=lambda item: -len(item[1]))


def tool_lines(report: Report) -> Iterator[str]:
    """Yield which tools were called and how often, and which were not and why."""
    setting = report.setting
    if setting.calls is not None:
        names = _few([f"{excerpt(name)} ({count})" for name, count in setting.call_counts.items()])
        yield f"calls, at most {setting.calls} of each tool: {names or 'none'}"
    yield from never_succeeded(setting.never_succeeded)
    reasons = [
        f"{_few([excerpt(name) for name in names])} ({refusal_reason(reason, names)})"
        for reason, names in names_by_reason(setting.not_called).items()
    ]
    if reasons:
        yield f"not called: {'; '.join(reasons)}"


def count_calls(counts: ToolCounts) -> str:
    """Return how often a tool was called, and how its calls were answered, as text."""
    called = plural(counts.calls, "call")
    return f"{called}, {counts.succeeded} succeeded, {counts.refused} refused"


def never_succeeded(names: Sequence[str]) -> list[str]:
    """Return the warning that every call of these tools was answered with an error."""
    if not names:
        return []
    tools = _few([excerpt(name) for name in names])
    return [f"no call of {tools} succeeded; give examples of valid arguments in its inputSchema"]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def percent_covered(report: Report) -> int:
    """Return the percentage of applicable requirements that were exercised, rounded down."""
    counts = report.coverage
    return 100 * counts.exercised // counts.applicable if counts.applicable else 0


def score(report: Report) -> str:
    """Return the score as text, and why it is capped."""
    if report.score is None:
        return "none"
    return f"{report.score:g} of 100" + (f", {CAPPED}" if report.is_capped else "")


def state(report: Report) -> VerdictName:
    """Return the verdict on the whole; `not-exercised` if nothing was put to the test."""
    if report.has_failed:
        return "fail"
    if report.count("warn") or report.setting.never_succeeded:
        return "warn"
    return "pass" if report.coverage.exercised else "not-exercised"


def is_little_tested(report: Report) -> bool:
    """Return whether too little was tested to call a clean score good."""
    is_clean = state(report) == "pass"
    return is_clean and percent_covered(report) < _ENOUGH_COVERED


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
        f"{called_tools(report, ' {} called,')} score {score(report)}"
        f" by rules {escape_unprintable(report.rules)}"
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
