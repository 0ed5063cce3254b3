"""Reports on the tests of a server: as text, JSON and JUnit."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from accord.check.contract.runner import TestRun
from accord.check.probing.tool_calls import CallLimit
from accord.check.rendering.machine_readable import JunitCase, format_junit
from accord.check.rendering.text import Painter, no_style
from accord.check.rendering.wording import escape_unprintable, plural
from accord.types import JsonObject

_SIGNS: Final = {"pass": ("green", "ok  "), "fail": ("bold red", "FAIL"), "skip": ("dim", "skip")}


def has_failed(ran: Sequence[TestRun]) -> bool:
    """Return whether any test failed."""
    return any(each.outcome.verdict == "fail" for each in ran)


def summary(ran: Sequence[TestRun]) -> str:
    """Return the counts in one line."""
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
    paint: Painter = no_style,
) -> str:
    """Return the report as text: each test is a sentence, failures have details.

    Args:
        target: what was tested.
        ran: the tests.
        limit: the limit of calls for each tool.
        quiet: leave out what passed or was skipped.
        paint: styles a text, as (style, text).
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
    """Return the report as JSON."""
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


def _as_object(ran: TestRun) -> JsonObject:
    made: JsonObject = {
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
    kinds = dict.fromkeys(each.test.kind for each in ran)
    return format_junit(target, [_junit_case(each) for each in ran], kinds)


def _junit_case(ran: TestRun) -> JunitCase:
    failure = ran.outcome.failure
    return JunitCase(
        suite=ran.test.kind,
        name=ran.test.name,
        state=ran.outcome.verdict,
        message=escape_unprintable(ran.outcome.why) if failure is None else failure.summary(),
        details="" if failure is None else failure.text(),
        seconds=ran.seconds,
    )


FORMS: Final[dict[str, Callable[..., str]]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
}
