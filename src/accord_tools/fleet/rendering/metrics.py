"""A fleet's report as OpenMetrics text, for Prometheus and its kin."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from accord.cli.terminal import escape_unprintable
from accord_tools.fleet.rendering.wording import parse_date, summarize
from accord_tools.fleet.results import FleetView, ServerResult


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
