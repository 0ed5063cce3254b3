"""The plan of a check: which tools it will call, which not, and why."""

import json
from collections.abc import Iterable, Iterator

from accord.check.probing.tool_calls import CallPlan
from accord.check.rendering.wording import escape_unprintable, plural


def as_text(plan: CallPlan) -> str:
    """Return the plan as text."""
    return "\n".join(_lines(plan))


def _lines(plan: CallPlan) -> Iterator[str]:
    if plan.called:
        most = plural(plan.calls, "time")
        yield f"will call, each at most {most} (--calls): {_join(plan.called)}"
    else:
        yield f"will call no tools{' except in your cases' if plan.cases else ''}"
    by_reason: dict[str, list[str]] = {}
    for name, reason in plan.not_called.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"will not call: {_join(names)} ({escape_unprintable(reason)})"
    if plan.cases:
        yield f"your cases call: {_join(plan.cases)}"


def _join(names: Iterable[str]) -> str:
    return ", ".join(escape_unprintable(name) for name in names)


def as_json(plan: CallPlan, target: str) -> str:
    """Return the plan as JSON, in ASCII."""
    shown = {
        "target": target,
        "calls": plan.calls,
        "called": list(plan.called),
        "not_called": dict(plan.not_called),
        "cases": dict(plan.cases),
    }
    return json.dumps(shown, indent=2) + "\n"
