"""A fleet's report for other programs: JSON and JUnit.

Members of the JSON may be added, but are never removed or renamed.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import catalogue
from accord_tools.fleet.rendering.wording import (
    STATE_WORDS,
    fleet_title,
    summarize,
)
from accord_tools.fleet.results import (
    FleetView,
    RequirementBreach,
    ServerResult,
)
from accord_tools.reports.machine_readable import JunitCase, State, format_junit
from accord_tools.reports.report import EXERCISED

# -- JSON


def as_json(view: FleetView) -> str:
    """Return everything except reports and catalogs, as JSON in ASCII."""
    members = {
        "summary": msgspec.to_builtins(summarize(view)),
        "run": msgspec.to_builtins(view.run),
        "comparison": msgspec.to_builtins(view.comparison),
        "trends": msgspec.to_builtins(view.trends),
        "rules": list(rule_ids(view)),
    }
    return json.dumps(_readable(members), indent=2) + "\n"


def rule_ids(view: FleetView) -> tuple[str, ...]:
    """Return the ids of the run's set of rules; empty if the set is not known here."""
    from accord_tools.fleet.definition import FleetError
    from accord_tools.fleet.rule_set import find_rule_set

    if view.rules:
        return view.rules
    try:
        found = find_rule_set(view.run.rules.version)
    except FleetError:
        return ()
    return tuple(sorted(found.ids)) if found.stamp.digest == view.run.rules.digest else ()


def _readable(value: Any) -> Any:
    """Return a value in which every text can be encoded: half a surrogate pair is spelled out."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(each) for each in value]
    return value


# -- JUnit XML: a suite per server, a case per requirement and per test
# What a server may break according to the fleet file is a warning here, as it is for the exit code.


_TEST_STATES: Final[dict[str, State]] = {"pass": "pass", "skip": "skip", "no-time": "skip"}


def as_junit(view: FleetView) -> str:
    """Return the report for continuous integration."""
    cases: list[JunitCase] = []
    suites: list[str] = []
    for result, suite in zip(view.run.results, _suite_names(view), strict=True):
        suites.append(suite)
        cases += _cases(result, suite)
    return format_junit(
        fleet_title(view.run),
        cases,
        suites,
        seconds=view.run.seconds,
        rules=view.run.rules.version,
    )


def _suite_names(view: FleetView) -> list[str]:
    """Return the names of the servers, escaped; two that look the same then are numbered."""
    names: list[str] = []
    for place, result in enumerate(view.run.results):
        shown = escape_unprintable(result.name)
        names.append(f"{shown} ({place})" if shown in names else shown)
    return names


def _cases(result: ServerResult, suite: str) -> Iterator[JunitCase]:
    yield JunitCase(
        suite=suite,
        name="as expected",
        state={"ok": "pass", "skipped": "skip"}.get(result.state, "fail"),  # type: ignore[arg-type]
        message=escape_unprintable("; ".join(result.reasons)) or STATE_WORDS[result.state],
        details="\n".join(escape_unprintable(line) for line in _story(result)),
        type=result.state,
        seconds=result.seconds,
    )
    breaches = {each.requirement: each for each in result.breaches}
    for id, verdict in result.verdicts.items():
        if (breach := breaches.pop(id, None)) is not None:
            yield _breach_case(result, suite, breach)
            continue
        state: State = "pass" if verdict == "pass" else "skip"
        yield JunitCase(
            suite=suite,
            name=escape_unprintable(id),
            state=_state(result, verdict) if verdict in EXERCISED else state,
            message=verdict,
        )
    for breach in breaches.values():
        yield _breach_case(result, suite, breach)
    failures = {each.name: each for each in result.tests.failures}
    for name in dict.fromkeys([*result.tests.names, *failures]):
        failed = failures.get(name)
        outcome = result.tests.names.get(name, "fail")
        yield JunitCase(
            suite=suite,
            name=f"test: {escape_unprintable(name)}",
            state=_state(result, "fail") if failed else _TEST_STATES.get(outcome, "fail"),
            message=escape_unprintable(failed.summary) if failed else outcome.replace("-", " "),
            details=escape_unprintable(f"again: {failed.repeat}") if failed else "",
            type=escape_unprintable(failed.kind) if failed else None,
            seconds=failed.seconds if failed else None,
        )


def _story(result: ServerResult) -> list[str]:
    """Return how the stages ended, and what the server wrote to stderr."""
    lines = [
        f"{each.name}: {each.state}, {each.seconds:.1f} s{f', {each.text}' if each.text else ''}"
        for each in result.stages
    ]
    lines += [f"left behind: {each}" for each in result.left_processes]
    return [*lines, *(f"stderr: {line}" for line in result.stderr)]


def _state(result: ServerResult, verdict: str) -> State:
    if verdict == "fail":
        return "warn" if result.is_as_expected else "fail"
    return "warn" if verdict == "warn" else "pass"


def _breach_case(result: ServerResult, suite: str, breach: RequirementBreach) -> JunitCase:
    state, message = _state(result, breach.verdict), breach.message
    if breach.accepted:
        state, message = "warn", f"{message} (accepted: {breach.accepted})"
    elif breach.is_pending:
        state, message = "warn", f"{message} (the rule is newer than the set of rules)"
    row = catalogue().get(breach.requirement)
    lines = [row.text, f"mend: {row.mend}"] if row else []
    lines += [f"revisions: {', '.join(breach.revisions)}"] if breach.revisions else []
    return JunitCase(
        suite=suite,
        name=escape_unprintable(breach.requirement),
        state=state,
        message=escape_unprintable(message),
        details="\n".join(escape_unprintable(line) for line in lines),
        type=escape_unprintable(breach.level),
    )
