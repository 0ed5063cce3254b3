"""A fleet's report for other programs: JSON, a JSON line per verdict, CSV, JUnit, OpenMetrics.

Members of the JSON and columns of the CSV may be added, but are never removed or renamed.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import catalogue
from accord_tools.fleet.rendering.wording import (
    STATE_WORDS,
    change_text,
    coverage_percent,
    differences_by_server,
    fleet_title,
    parse_date,
    summarize,
    was_exercised,
)
from accord_tools.fleet.results import (
    FleetRun,
    FleetView,
    RequirementBreach,
    ServerResult,
    is_warning,
)
from accord_tools.reports.machine_readable import JunitCase, State, format_junit

# -- JSON, JSON lines and CSV


# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
# Where a semicolon separates cells, one within a text begins a cell too.
_AFTER_SEMICOLON: Final = re.compile(r";(?=[\s\"]*[=+@-])")


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


# -- one line per verdict


def as_ndjson(view: FleetView) -> str:
    """Return one JSON object per line and verdict, in ASCII."""
    lines = [
        json.dumps(_readable(members))
        for result in view.run.results
        for members in _verdicts(result, view.run)
    ]
    return "".join(f"{line}\n" for line in lines)


def _verdicts(result: ServerResult, run: FleetRun) -> Iterator[dict[str, Any]]:
    breaches = {each.requirement: each for each in result.breaches}
    for id, verdict in result.verdicts.items():
        members: dict[str, Any] = {
            "fleet": run.fleet,
            "run": run.id,
            "started": run.started,
            "server": result.name,
            "server_version": result.server_version,
            "reused_from": result.reused_from,
            "requirement": id,
            "verdict": verdict,
        }
        if (breach := breaches.get(id)) is not None:
            members |= {
                "level": breach.level,
                "message": breach.message,
                "revisions": breach.revisions,
                "accepted": breach.accepted,
                "pending": breach.is_pending,
            }
        yield members


# -- CSV


def as_csv(view: FleetView) -> str:
    """Return one row per server; no cell is a formula."""
    differences = differences_by_server(view)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    rows = [_row(result, view, differences) for result in view.run.results]
    writer.writerow(_row_names())
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return file.getvalue()


def _row_names() -> list[str]:
    return [*_FACTS, *_COUNTS, *_END]


_FACTS: Final = ("server", "state", "owner", "tags", "target", "transport", "revision")
_COUNTS: Final = (
    *("failures", "warnings", "accepted", "exercised", "applicable", "coverage_percent", "score"),
    *(
        "tests_passed",
        "tests_failed",
        "tests_skipped",
        "tests_no_time",
        "start_seconds",
        "call_median_seconds",
    ),
    *("call_95_seconds", "seconds", "tools", "resources", "templates", "prompts", "tokens"),
)
_END: Final = (
    *("findings", "server_name", "server_version", "surface", "change", "reused_from"),
    *("reasons", "run", "started"),
)


def _row(
    result: ServerResult, view: FleetView, differences: dict[str, list[Any]]
) -> dict[str, object]:
    catalog, timing, tests = result.catalog, result.timing, result.tests
    own: dict[str, object] = {
        "tags": " ".join(result.tags),
        "coverage_percent": coverage_percent(result),
        "tests_passed": tests.passed,
        "tests_failed": tests.failed,
        "tests_skipped": tests.skipped,
        "tests_no_time": tests.no_time,
        "start_seconds": timing.start,
        "call_median_seconds": timing.call_median,
        "call_95_seconds": timing.call_95,
        "server": result.name,
        "surface": catalog.digest if catalog else None,
        "findings": sum(map(is_warning, result.findings)),
        "reasons": "; ".join(result.reasons),
        "run": view.run.id,
        "started": view.run.started,
        "change": change_text(differences.get(result.name, ())) if view.comparison else None,
    }
    for name in ("tools", "resources", "templates", "prompts", "tokens"):
        own[name] = getattr(catalog, name) if catalog else None
    return {name: own[name] if name in own else getattr(result, name) for name in _row_names()}


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = _AFTER_SEMICOLON.sub(";'", escape_unprintable(value))
    return f"'{shown}" if value.lstrip(" ").startswith(_FORMULA) else shown


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


# -- OpenMetrics text, for Prometheus and its kin


class _Metric(NamedTuple):
    """A gauge: what it says, and its unit."""

    help: str
    unit: str = ""


_OF_SERVERS: Final = {
    "up": _Metric("1 if the server could be checked, 0 if it was unreachable or timed out"),
    "as_expected": _Metric("1 if the server is within its limits"),
    "failures": _Metric("requirements that fail and count"),
    "warnings": _Metric("requirements that warn and count"),
    "coverage_ratio": _Metric("share of the applicable requirements put to the test", "ratio"),
    "score": _Metric("score from 0 to 100"),
    "tests_failed": _Metric("tests that fail"),
    "start_seconds": _Metric("time until the first answer", "seconds"),
    "tools": _Metric("tools that the server offers"),
    "tokens": _Metric("tokens that the list of tools costs a model, about"),
    "checked_timestamp_seconds": _Metric("when the result was made", "seconds"),
}
_OF_FLEETS: Final = {
    "servers": _Metric("servers in the fleet"),
    "regressions": _Metric("regressions against the run that this one is compared with"),
    "run_duration_seconds": _Metric("duration of the run", "seconds"),
    "last_run_timestamp_seconds": _Metric("when the run began", "seconds"),
}


def as_openmetrics(view: FleetView) -> str:
    """Return the numbers of a run; values that are not known are left out."""
    fleet = {"fleet": view.run.fleet}
    lines: list[str] = []
    found = [(result.name, _values(result, view)) for result in view.run.results]
    for name, metric in _OF_SERVERS.items():
        lines += _head(name, metric)
        lines += [
            _sample(name, {**fleet, "server": server}, value)
            for server, values in found
            if (value := values.get(name)) is not None
        ]
    whole = _whole(view)
    for name, metric in _OF_FLEETS.items():
        lines += _head(name, metric)
        if (value := whole[name]) is not None:
            lines.append(_sample(name, fleet, value))
    return "\n".join([*lines, "# EOF"]) + "\n"


def _values(result: ServerResult, view: FleetView) -> dict[str, float | None]:
    made = parse_date(result.reused_from or view.run.started)
    values: dict[str, float | None] = {
        "up": result.state in ("ok", "failed"),
        "as_expected": result.state == "ok",
    }
    if result.state == "skipped":
        return {}
    if result.applicable:
        values |= {
            "failures": result.failures,
            "warnings": result.warnings,
            "coverage_ratio": result.exercised / result.applicable,
            "score": result.score,
        }
    if result.tests.passed or result.tests.failed:
        values["tests_failed"] = result.tests.failed
    if result.catalog is not None:
        values |= {"tools": result.catalog.tools, "tokens": result.catalog.tokens}
    values["start_seconds"] = result.timing.start
    values["checked_timestamp_seconds"] = None if made is None else made.timestamp()
    return values


def _whole(view: FleetView) -> dict[str, float | None]:
    started = parse_date(view.run.started)
    return {
        "servers": len(view.run.results),
        "regressions": summarize(view).regressions,
        "run_duration_seconds": view.run.seconds,
        "last_run_timestamp_seconds": None if started is None else started.timestamp(),
    }


def _head(name: str, metric: _Metric) -> Iterator[str]:
    yield f"# TYPE accord_fleet_{name} gauge"
    if metric.unit:
        yield f"# UNIT accord_fleet_{name} {metric.unit}"
    yield f"# HELP accord_fleet_{name} {metric.help}"


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"accord_fleet_{name}{{{shown}}} {float(value):.15g}"


def _escape(text: str) -> str:
    # Unprintable characters are spelled out first, and their backslashes escaped with the others.
    return escape_unprintable(text).replace("\\", "\\\\").replace('"', '\\"')
