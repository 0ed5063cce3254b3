"""A fleet's report as SARIF 2.1.0: one run per server, which points to its entry in the fleet file.

GitHub takes at most 20 runs in one file, and demands that each has an id of its own; larger fleets
are one run.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import catalogue
from accord.types import JsonObject
from accord_tools.fleet.results import (
    CatalogFinding,
    FleetRun,
    FleetView,
    RequirementBreach,
    ServerResult,
)
from accord_tools.reports.report import Report
from accord_tools.reports.sarif import escape_sarif, format_sarif, sarif_run

_MOST_RUNS: Final = 20
_LEVELS: Final = {"fail": "error", "warn": "warning", "info": "note"}


def as_sarif(view: FleetView) -> str:
    """Return the report for tools that show findings in source code, in ASCII."""
    runs = [_server_run(result, view) for result in view.run.results]
    if view.run.findings:
        runs.append(_fleet_run(view.run))
    return format_sarif(runs if len(runs) <= _MOST_RUNS else [_merge(runs, view.run)])


def read_report(view: FleetView, name: str) -> Report | None:
    """Return the report of a server's check; None without one, or if it cannot be read."""
    documents = view.documents.get(name)
    if documents is None or not documents.report:
        return None
    try:
        return msgspec.json.decode(documents.report, type=Report)
    except ValueError:
        return None


def _server_run(result: ServerResult, view: FleetView) -> JsonObject:
    artifact, report = _artifact(view.run), read_report(view, result.name)
    if report is None:
        run = _run_of_breaches(result, view.run)
    else:
        setting = msgspec.structs.replace(report.setting, artifact=artifact)
        run = sarif_run(
            msgspec.structs.replace(report, setting=setting, target=result.name),
            line=result.line or 1,
        )
        _suppress(run["results"], result)
    if result.state in ("unreachable", "timed-out"):
        run["invocations"] = [{"executionSuccessful": False, "exitCodeDescription": result.state}]
        run["results"].append(_unreachable(result, view.run))
        _add_rules(run, [_rule("fleet.unreachable", "A server of the fleet can be checked.")])
    _add_findings(run, result.findings, view.run, result.line)
    run["automationDetails"] = {"id": f"accord/fleet/{_identity(result.name)}/"}
    return run


def _run_of_breaches(result: ServerResult, run: FleetRun) -> JsonObject:
    made, place = _empty_run(run), _location(run, result.line, result.name)
    texts = {id: row.text for id, row in catalogue().items()}
    ids = dict.fromkeys(each.requirement for each in result.breaches)
    _add_rules(made, [_rule(id, texts.get(id, id)) for id in ids])
    made["results"] += [
        _result(each.requirement, each.verdict, escape_sarif(each.message), place, key=result.name)
        for each in result.breaches
    ]
    _suppress(made["results"], result)
    return made


def _empty_run(run: FleetRun) -> JsonObject:
    version = escape_unprintable(run.accord)
    return {
        "tool": {"driver": {"name": "accord", "version": version, "rules": []}},
        "automationDetails": {"id": "accord/fleet/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [],
        "properties": {"ruleSet": escape_unprintable(run.rules.version)},
    }


def _fleet_run(run: FleetRun) -> JsonObject:
    made = _empty_run(run)
    _add_findings(made, run.findings, run, None)
    return made


def _suppress(results: Iterable[JsonObject], result: ServerResult) -> None:
    """Mark what the fleet file accepts, and what the set of rules does not contain."""
    breaches = {each.requirement: each for each in result.breaches}
    for each in results:
        breach: RequirementBreach | None = breaches.get(each["ruleId"])
        if breach is not None and not breach.counts:
            why = breach.accepted or "the rule is newer than the set of rules"
            each["suppressions"] = [{"kind": "external", "justification": escape_unprintable(why)}]


def _unreachable(result: ServerResult, run: FleetRun) -> JsonObject:
    said = "; ".join(result.reasons) or result.state
    place = _location(run, result.line, result.name)
    text = escape_sarif(f"{result.name}: {said}")
    return _result("fleet.unreachable", "fail", text, place, result.name)


def _add_findings(
    made: JsonObject, findings: Sequence[CatalogFinding], run: FleetRun, line: int | None
) -> None:
    sources = {each.id: each.source for each in findings}
    _add_rules(
        made, [_rule(id, f"{id} ({source})" if source else id) for id, source in sources.items()]
    )
    for each in findings:
        about = ", ".join(part for part in (each.server, each.subject) if part)
        text = escape_sarif(f"{about}: {each.text}" if about else each.text)
        key = f"{each.server}\n{each.subject}"
        found = _result(each.id, each.severity, text, _location(run, line, about or "fleet"), key)
        if each.accepted:
            why = escape_unprintable(each.accepted)
            found["suppressions"] = [{"kind": "external", "justification": why}]
        made["results"].append(found)


def _rule(id: str, text: str) -> JsonObject:
    shown = {"text": escape_sarif(text)}
    return {
        "id": escape_unprintable(id),
        "shortDescription": shown,
        "fullDescription": shown,
        "properties": {"tags": ["mcp", "fleet"], "precision": "very-high"},
    }


def _add_rules(made: JsonObject, rules: Iterable[JsonObject]) -> None:
    known = made["tool"]["driver"]["rules"]
    ids = {each["id"] for each in known}
    known += [each for each in rules if each["id"] not in ids]


def _result(id: str, severity: str, text: str, place: JsonObject, key: str) -> JsonObject:
    digest = sha256(f"{key}\n{id}".encode(errors="backslashreplace")).hexdigest()
    return {
        "ruleId": escape_unprintable(id),
        "level": _LEVELS[severity],
        "kind": "fail",
        "message": {"text": text},
        "locations": [place],
        "partialFingerprints": {"accordRequirement/v1": digest},
    }


def _location(run: FleetRun, line: int | None, name: str) -> JsonObject:
    uri = quote(_artifact(run).encode(errors="backslashreplace"))
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": line or 1},
        },
        "logicalLocations": [{"fullyQualifiedName": escape_unprintable(name), "kind": "module"}],
    }


def _artifact(run: FleetRun) -> str:
    """Return the fleet file as such tools name it: relative to the current folder."""
    path = Path(run.file or "accord-fleet.toml")
    if path.is_absolute():
        path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path(path.name)
    return path.as_posix()


def _identity(name: str) -> str:
    """Return a server's name for the id of a run, in which a slash separates."""
    digest = sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in name)
    return name if plain == name.replace("_", "-") else f"{plain[:60]}-{digest}"


def _merge(runs: Iterable[JsonObject], run: FleetRun) -> JsonObject:
    """Return one run for all servers."""
    made = _empty_run(run)
    rules: dict[str, JsonObject] = {}
    for each in runs:
        for rule in each["tool"]["driver"]["rules"]:
            rules.setdefault(rule["id"], rule)
        made["results"] += each["results"]
    # Places in the lists of rules were those of the single runs.
    places = {id: place for place, id in enumerate(rules)}
    made["results"] = list(_renumber(made["results"], places))
    made["tool"]["driver"]["rules"] = list(rules.values())
    return made


def _renumber(results: Iterable[dict[str, Any]], places: dict[str, int]) -> Iterator[JsonObject]:
    for each in results:
        yield {**each, "ruleIndex": places[each["ruleId"]]}
