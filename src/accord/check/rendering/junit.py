"""Reports for continuous integration: what every such system reads as results of tests."""

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from accord.check.rendering.wording import area_of, by_area, escape_unprintable, excerpt
from accord.check.report import Report, RequirementResult

_SKIPPED: Final = ("not-exercised", "not-applicable")


def as_junit(report: Report) -> str:
    """Return the report for continuous integration: a suite per area, a case per requirement."""
    name = f"accord: {escape_unprintable(report.target)}"
    root = Element("testsuites", {"name": name, **_counts(report.results)})
    if report.setting.seconds is not None:
        root.set("time", f"{report.setting.seconds:.3f}")
    for area, _ in by_area(report):
        results = [result for result in report.results if area_of(result.id) == area]
        suite = SubElement(root, "testsuite", {"name": area, **_counts(results)})
        for result in results:
            _case(suite, result)
    indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + tostring(root, encoding="unicode") + "\n"


def _counts(results: Sequence[RequirementResult]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(result.verdict == "fail" for result in results)),
        "errors": "0",
        "skipped": str(sum(result.verdict in _SKIPPED for result in results)),
    }


def _case(suite: Element, result: RequirementResult) -> None:
    case = SubElement(suite, "testcase", classname=f"accord.{area_of(result.id)}", name=result.id)
    said = escape_unprintable(result.message)
    if result.verdict in _SKIPPED:
        SubElement(case, "skipped", message=f"{result.verdict}: {said}" if said else result.verdict)
    elif result.verdict == "fail":
        failure = SubElement(case, "failure", message=said, type=result.level)
        failure.text = _evidence_text(result)
    elif result.verdict == "warn":
        SubElement(case, "system-out").text = f"warning: {said}\n{_evidence_text(result)}"


def _evidence_text(result: RequirementResult) -> str:
    lines = [result.clause]
    for each in result.evidence:
        place = "" if each.number is None else f"record {each.number}: "
        lines.append(f"{place}{each.party} {escape_unprintable(each.why)}")
        if each.message is not None:
            lines.append(f"    {excerpt(each.message)}")
    if result.repeat is not None:
        lines.append(f"again: {escape_unprintable(result.repeat)}")
    return "\n".join(lines)
