"""JUnit XML: the format in which continuous integration reads test results."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from accord.check.rendering.wording import area_of, by_area, escape_unprintable, excerpt
from accord.check.report import Report, RequirementResult

State: TypeAlias = Literal["pass", "fail", "skip", "warn"]

_SKIPPED: Final = ("not-exercised", "not-applicable")


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
    suites = [area for area, _ in by_area(report)]
    return format_junit(report.target, cases, suites, seconds=report.setting.seconds)


def format_junit(
    target: str, cases: Sequence[JunitCase], suites: Iterable[str], *, seconds: float | None = None
) -> str:
    """Return a JUnit document.

    Args:
        target: the name of what was tested.
        cases: the test cases.
        suites: the names of the suites, in order.
        seconds: the duration of the whole; by default the sum of the cases, if they have any.
    """
    root = Element(
        "testsuites", {"name": f"accord: {escape_unprintable(target)}", **_counts(cases)}
    )
    if seconds is not None:
        root.set("time", f"{seconds:.3f}")
    for suite in suites:
        members = [case for case in cases if case.suite == suite]
        element = SubElement(root, "testsuite", {"name": suite, **_counts(members)})
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
            lines.append(f"    {excerpt(each.message)}")
    if result.repeat is not None:
        lines.append(f"again: {escape_unprintable(result.repeat)}")
    return "\n".join(lines)
