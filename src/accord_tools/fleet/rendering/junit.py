"""A fleet's report as JUnit XML: a suite per server, a case per requirement and per test.

What a server may break according to the fleet file is a warning here, as it is for the exit code.
"""

from collections.abc import Iterator
from typing import Final

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import catalogue
from accord_tools.check.rendering.machine_readable import JunitCase, State, format_junit
from accord_tools.fleet.rendering.wording import STATE_WORDS, fleet_title, was_exercised
from accord_tools.fleet.results import FleetView, RequirementBreach, ServerResult

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
            state=_state(result, verdict) if was_exercised(verdict) else state,
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
