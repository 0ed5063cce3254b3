"""A fleet's report for other programs: JSON, one JSON line per verdict, and CSV.

Members of the JSON and columns of the CSV may be added, but are never removed or renamed.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord_tools.fleet.outcome import is_warning
from accord_tools.fleet.rendering.wording import (
    change_text,
    coverage_percent,
    differences_by_server,
    summarize,
)
from accord_tools.fleet.results import FleetRun, FleetView, ServerResult

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
