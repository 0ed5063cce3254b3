"""What became of the tests of a server: for people, programs and continuous integration."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from accord.check.contract.runner import TestRun
from accord.check.probing.tool_calls import CallLimit
from accord.check.rendering.wording import escape_unprintable, plural

_SIGNS: Final = {"pass": ("green", "ok  "), "fail": ("bold red", "FAIL"), "skip": ("dim", "skip")}


def _plain(_style: str, text: str) -> str:
    return text


def has_failed(ran: Sequence[TestRun]) -> bool:
    """Whether any test failed."""
    return any(each.outcome.verdict == "fail" for each in ran)


def summary(ran: Sequence[TestRun]) -> str:
    """Say in one line what became of the tests."""
    counts = Counter(each.outcome.verdict for each in ran)
    calls = sum(each.outcome.calls for each in ran)
    words = [f"{counts['pass']} passed", f"{counts['fail']} failed", f"{counts['skip']} skipped"]
    return f"{', '.join(words)}; {calls} requests"


def as_text(
    target: str,
    ran: Sequence[TestRun],
    limit: CallLimit | None = None,
    *,
    quiet: bool = False,
    paint: Callable[[str, str], str] = _plain,
) -> str:
    """Return the report for people: each test a sentence, failures with what came.

    Args:
        target: what was tested.
        ran: the tests.
        limit: how often each tool might be called.
        quiet: leave out what passed or was skipped.
        paint: gives a text a style.
    """
    lines = [escape_unprintable(target)]
    for each in ran:
        outcome = each.outcome
        if quiet and outcome.verdict != "fail":
            continue
        style, sign = _SIGNS[outcome.verdict]
        why = f" ({escape_unprintable(outcome.why)})" if outcome.why else ""
        lines.append(f"  {paint(style, sign)} {escape_unprintable(each.test.name)}{why}")
        if outcome.failure is not None:
            lines += [f"       {line}" for line in outcome.failure.text().splitlines()]
    if limit is not None and not quiet:
        lines.append(f"each tool was called at most {plural(limit.calls, 'time')} (--calls)")
    return "\n".join([*lines, summary(ran), ""])


def as_json(target: str, ran: Sequence[TestRun], limit: CallLimit | None = None) -> str:
    """Return the report for programs."""
    counts = Counter(each.outcome.verdict for each in ran)
    report = {
        "target": target,
        "passed": counts["pass"],
        "failed": counts["fail"],
        "skipped": counts["skip"],
        "calls": None if limit is None else limit.calls,
        "called": {} if limit is None else dict(limit.made),
        "tests": [_as_object(each) for each in ran],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _as_object(ran: TestRun) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": ran.test.name,
        "kind": ran.test.kind,
        "subject": ran.test.subject,
        "verdict": ran.outcome.verdict,
        "requests": ran.outcome.calls,
        "seconds": round(ran.seconds, 3),
    }
    if ran.outcome.why:
        made["why"] = ran.outcome.why
    failure = ran.outcome.failure
    if failure is not None:
        fields = ("given", "expected", "came", "repeat")
        made |= {name: getattr(failure, name) for name in fields if getattr(failure, name)}
    return made


def as_junit(target: str, ran: Sequence[TestRun], _limit: CallLimit | None = None) -> str:
    """Return the report for continuous integration: a suite per kind, a case per test."""
    root = Element("testsuites", {"name": f"accord: {escape_unprintable(target)}", **_counts(ran)})
    for kind in dict.fromkeys(each.test.kind for each in ran):
        members = [each for each in ran if each.test.kind == kind]
        suite = SubElement(root, "testsuite", {"name": kind, **_counts(members)})
        for each in members:
            _case(suite, each)
    indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + tostring(root, encoding="unicode") + "\n"


def _counts(ran: Sequence[TestRun]) -> dict[str, str]:
    counts = Counter(each.outcome.verdict for each in ran)
    return {
        "tests": str(len(ran)),
        "failures": str(counts["fail"]),
        "errors": "0",
        "skipped": str(counts["skip"]),
        "time": f"{sum(each.seconds for each in ran):.3f}",
    }


def _case(suite: Element, ran: TestRun) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=f"accord.{ran.test.kind}",
        name=escape_unprintable(ran.test.name),
        time=f"{ran.seconds:.3f}",
    )
    failure = ran.outcome.failure
    if ran.outcome.verdict == "skip":
        SubElement(case, "skipped", message=escape_unprintable(ran.outcome.why))
    elif failure is not None:
        said = failure.summary()
        SubElement(case, "failure", message=said).text = failure.text()


FORMS: Final[dict[str, Callable[..., str]]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
}
