"""Reports as SARIF 2.1.0, for tools that show findings in source code.

A violation is a result, a requirement that was exercised a rule. Violations of a recording point to
its line. Others have no line of their own: they point to the top of one file, the target or one
that the caller names. The value in question is a logical location, by its JSON pointer.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from accord.cli.terminal import escape_unprintable
from accord.types import JsonObject
from accord_tools.reports.clauses import page_of
from accord_tools.reports.report import EXERCISED, SCORE_RULE, Report, RequirementResult
from accord_tools.reports.wording import area_of

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"fail": "error", "warn": "warning"}
# Viewers want a path even if the target is not a file; it need not exist.
_NO_FILE: Final = "mcp-server"
# Enough messages to understand an alert, few enough for a list.
_MESSAGES: Final = 3


def as_sarif(report: Report) -> str:
    """Return the report as a SARIF log with one run, in ASCII."""
    return format_sarif([sarif_run(report)])


def format_sarif(runs: Sequence[JsonObject]) -> str:
    """Return a SARIF log, in ASCII."""
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": list(runs)}, indent=2) + "\n"


def sarif_run(report: Report, *, line: int = 1) -> JsonObject:
    """Return a report as the run of a SARIF log.

    Args:
        report: the report.
        line: of the artifact, where violations are shown that have no line of their own.
    """
    exercised = [result for result in report.results if result.verdict in EXERCISED]
    places = {result.id: place for place, result in enumerate(exercised)}
    return {
        "tool": {
            "driver": {
                "name": "accord",
                "version": report.version,
                "semanticVersion": report.version,
                "rules": [_rule(result) for result in exercised],
            }
        },
        "automationDetails": {"id": f"accord/{report.setting.party}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(report, result, places[result.id], line)
            for result in exercised
            if result.verdict in _LEVELS
        ],
        "properties": {
            "target": escape_unprintable(report.target),
            "revisions": list(report.setting.revisions),
            "ruleSet": report.rules,
            "score": report.score,
            "scoreRule": SCORE_RULE,
            "applicable": report.coverage.applicable,
            "exercised": report.coverage.exercised,
        },
    }


def _rule(result: RequirementResult) -> JsonObject:
    level = "error" if result.level in ("MUST", "MUST NOT") else "warning"
    source = "" if result.anchor is None else f"\n\nSource: {result.anchor}."
    mend = "" if result.mend is None else f"\n\nTo mend it: {result.mend}"
    help_text = f"{result.clause}{mend}\n\n{result.level}, binds: {result.party}.{source}"
    rule: JsonObject = {
        "id": result.id,
        "name": _name(result.id),
        "shortDescription": {"text": result.clause},
        "fullDescription": {"text": f"{result.level}: {result.clause}"},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": _LEVELS.get(result.verdict, level)},
        "properties": {
            "tags": ["mcp", area_of(result.id), result.level],
            "precision": "very-high",
            "problem.severity": _LEVELS.get(result.verdict, level),
        },
    }
    if (page := page_of(result.anchor)) is not None:
        rule["helpUri"] = page
    return rule


def _name(id: str) -> str:
    return "".join(part.capitalize() for part in id.replace(".", "-").split("-"))


def escape_sarif(text: str) -> str:
    """Return a text that viewers show as it is: `[text](url)` in a message is a link (3.11.6)."""
    shown = escape_unprintable(text)
    # JSON has brackets too, but none before a parenthesis, so it stays readable.
    return re.sub(r"([\[\]\\])", r"\\\1", shown) if "](" in shown else shown


def _result(report: Report, result: RequirementResult, place: int, line: int) -> JsonObject:
    said = [escape_sarif(result.message)]
    shown = [each for each in result.evidence if each.message is not None][-_MESSAGES:]
    said += [f"{each.party}: {escape_sarif(each.message or '')}" for each in shown]
    if result.also:
        said.append(f"also: {', '.join(result.also)}")
    if result.mend is not None:
        said.append(f"mend: {escape_sarif(result.mend)}")
    if result.repeat is not None:
        said.append(f"again: {escape_sarif(result.repeat)}")
    # The same violation of the same target keeps its alert if the message changes.
    print_ = sha256(f"{report.target}\n{result.id}".encode(errors="backslashreplace")).hexdigest()
    return {
        "ruleId": result.id,
        "ruleIndex": place,
        "level": _LEVELS[result.verdict],
        "kind": "fail",
        "message": {"text": "\n".join(said)},
        "locations": [_location(report, result, line)],
        "partialFingerprints": {"accordRequirement/v1": print_},
        "properties": {"revisions": dict(result.by_revision), "party": result.party},
    }


def _location(report: Report, result: RequirementResult, line: int) -> JsonObject:
    artifact = report.setting.artifact or _NO_FILE
    numbers = [each.number for each in result.evidence if each.number is not None]
    pointers = [each.pointer for each in result.evidence if each.pointer is not None]
    # A recording has one record per line.
    is_recording = report.setting.artifact is not None and report.setting.party == "both"
    members = [
        {"fullyQualifiedName": escape_unprintable(each), "kind": "member"} for each in pointers[:1]
    ]
    uri = quote(artifact.encode(errors="backslashreplace"))
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": numbers[0] if is_recording and numbers else line},
        },
        "logicalLocations": [
            {"fullyQualifiedName": escape_unprintable(report.target), "kind": "module"},
            *members,
        ],
    }
