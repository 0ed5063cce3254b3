"""Reports for other programs: as JSON and as JUnit XML.

Members of the JSON may be added, but are never removed or renamed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.protocol.verdict import Evidence
from accord_tools.reports.report import SCORE_RULE, VERDICTS, Report, RequirementResult
from accord_tools.reports.tool_calls import ToolCounts
from accord_tools.reports.wording import area_of, by_area, count_calls, excerpt, mark_value


def as_json(report: Report) -> str:
    """Return the report as JSON, in ASCII."""
    setting = report.setting
    members = {
        "target": report.target,
        "party": setting.party,
        "transport": setting.transport,
        "revision": report.revision,
        "revisions": setting.revisions,
        "at": setting.at,
        "seconds": setting.seconds,
        "accord": report.version,
        "rules": report.rules,
        "counts": {name: report.count(name) for name in VERDICTS},
        "coverage": msgspec.to_builtins(report.coverage),
        "calls": setting.calls,
        "called": setting.call_counts,
        "tools": msgspec.to_builtins(setting.tools),
        "not_called": dict(setting.not_called),
        "notes": list(setting.notes),
        "score": report.score,
        "score_capped": report.is_capped,
        "score_rule": SCORE_RULE,
        "results": msgspec.to_builtins(report.results),
    }
    return json.dumps(members, indent=2) + "\n"


# -- JUnit, in which continuous integration reads test results

State: TypeAlias = Literal["pass", "fail", "skip", "warn"]

# The suite of the tools, beside those of the areas.
CALLS_SUITE: Final = "calls"
_SKIPPED: Final = ("not-exercised", "not-recorded", "not-applicable")


class JunitCase(msgspec.Struct, frozen=True, kw_only=True):
    """One test case; warnings become output, because JUnit has no such state."""

    suite: str
    name: str
    state: State
    message: str = ""
    details: str = ""
    type: str | None = None
    seconds: float | None = None


def as_junit(report: Report) -> str:
    """Return the report for continuous integration: a suite per area, a case per requirement."""
    cases = [_requirement_case(result) for result in report.results]
    cases += calls_cases(report.setting.tools)
    suites = [area for area, _ in by_area(report)]
    suites += [CALLS_SUITE] if report.setting.call_counts else []
    return format_junit(
        report.target, cases, suites, seconds=report.setting.seconds, rules=report.rules
    )


def calls_cases(tools: Iterable[ToolCounts]) -> list[JunitCase]:
    """Return a test case for each tool that was called: how its calls were answered."""
    return [
        JunitCase(
            suite=CALLS_SUITE,
            name=f"{each.name}: {count_calls(each)}",
            state="warn" if each.never_succeeded else "pass",
            message="no call succeeded",
        )
        for each in tools
        if each.calls
    ]


def format_junit(
    target: str,
    cases: Sequence[JunitCase],
    suites: Iterable[str],
    *,
    seconds: float | None = None,
    rules: str | None = None,
) -> str:
    """Return a JUnit document.

    Args:
        target: the name of what was tested.
        cases: the test cases.
        suites: the names of the suites, in order.
        seconds: the duration of the whole; by default the sum of the cases, if they have any.
        rules: the rule set that the cases were judged by; a property of each suite.
    """
    root = Element(
        "testsuites", {"name": f"accord: {escape_unprintable(target)}", **_counts(cases)}
    )
    if seconds is not None:
        root.set("time", f"{seconds:.3f}")
    by_suite: dict[str, list[JunitCase]] = {suite: [] for suite in suites}
    for case in cases:
        by_suite[case.suite].append(case)
    for suite, members in by_suite.items():
        element = SubElement(root, "testsuite", {"name": suite, **_counts(members)})
        if rules is not None:
            properties = SubElement(element, "properties")
            SubElement(properties, "property", name="rules", value=escape_unprintable(rules))
        for case in members:
            _add_case(element, case)
    indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + tostring(root, encoding="unicode") + "\n"


def _counts(cases: Sequence[JunitCase]) -> Mapping[str, str]:
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.state == "fail" for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.state == "skip" for case in cases)),
    }
    durations = [case.seconds for case in cases if case.seconds is not None]
    return counts | ({"time": f"{sum(durations):.3f}"} if durations else {})


def _add_case(suite: Element, case: JunitCase) -> None:
    name = escape_unprintable(case.name)
    element = SubElement(suite, "testcase", classname=f"accord.{case.suite}", name=name)
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.3f}")
    if case.state == "skip":
        SubElement(element, "skipped", message=case.message)
    elif case.state == "fail":
        failure = SubElement(element, "failure", message=case.message)
        if case.type is not None:
            failure.set("type", case.type)
        failure.text = case.details
    elif case.state == "warn":
        SubElement(element, "system-out").text = f"warning: {case.message}\n{case.details}"


def _requirement_case(result: RequirementResult) -> JunitCase:
    message = escape_unprintable(result.message)
    state: State = "pass"
    if result.verdict in _SKIPPED:
        state = "skip"
        message = f"{result.verdict}: {message}" if message else result.verdict
    elif result.verdict in ("fail", "warn"):
        state = result.verdict
    return JunitCase(
        suite=area_of(result.id),
        name=result.id,
        state=state,
        message=message,
        details=_evidence_text(result),
        type=result.level,
    )


def _evidence_text(result: RequirementResult) -> str:
    lines = [result.clause]
    for each in result.evidence:
        record = "" if each.number is None else f"record {each.number}: "
        lines.append(f"{record}{each.party} {escape_unprintable(each.why)}")
        if each.message is not None:
            lines.append(f"    {_quote_message(each)}")
    if result.also:
        lines.append(f"also: {', '.join(result.also)}")
    if result.mend is not None:
        lines.append(f"mend: {result.mend}")
    if result.repeat is not None:
        lines.append(f"again: {escape_unprintable(result.repeat)}")
    return "\n".join(lines)


def _quote_message(evidence: Evidence) -> str:
    message = evidence.message or ""
    if evidence.mark is None:
        return excerpt(message)
    return f"{mark_value(message, evidence.mark, '>>>')} (at {evidence.pointer})"
