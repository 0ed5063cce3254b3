"""Reports as SARIF 2.1.0, for tools that show findings in source code.

A violation is a result, a requirement that was exercised a rule. Violations have no line of their
own, so all results point to the top of one file: the target, or the file that the caller names.
"""

import json
import re
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from accord.check.rendering.wording import area_of, escape_unprintable, page_of
from accord.check.report import SCORE_RULE, Report, RequirementResult
from accord.types import JsonObject

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"fail": "error", "warn": "warning"}
_EXERCISED: Final = ("fail", "warn", "pass")
# Viewers want a path even if the target is not a file; it need not exist.
_NO_FILE: Final = "mcp-server"
# Enough messages to understand an alert, few enough for a list.
_MESSAGES: Final = 3


def as_sarif(report: Report) -> str:
    """Return the report as a SARIF log with one run, in ASCII."""
    exercised = [result for result in report.results if result.verdict in _EXERCISED]
    places = {result.id: place for place, result in enumerate(exercised)}
    run = {
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
            _result(report, result, places[result.id])
            for result in exercised
            if result.verdict in _LEVELS
        ],
        "properties": {
            "target": escape_unprintable(report.target),
            "revisions": list(report.setting.revisions),
            "score": report.score,
            "scoreRule": SCORE_RULE,
            "applicable": report.coverage.applicable,
            "exercised": report.coverage.exercised,
        },
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(result: RequirementResult) -> JsonObject:
    level = "error" if result.level in ("MUST", "MUST NOT") else "warning"
    source = "" if result.anchor is None else f"\n\nSource: {result.anchor}."
    help_text = f"{result.clause}\n\n{result.level}, binds: {result.party}.{source}"
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


def _escape(text: str) -> str:
    """Return a text that viewers show as it is: `[text](url)` in a message is a link (3.11.6)."""
    shown = escape_unprintable(text)
    # JSON has brackets too, but none before a parenthesis, so it stays readable.
    return re.sub(r"([\[\]\\])", r"\\\1", shown) if "](" in shown else shown


def _result(report: Report, result: RequirementResult, place: int) -> JsonObject:
    said = [_escape(result.message)]
    shown = [each for each in result.evidence if each.message is not None][-_MESSAGES:]
    said += [f"{each.party}: {_escape(each.message or '')}" for each in shown]
    if result.repeat is not None:
        said.append(f"again: {_escape(result.repeat)}")
    # The same violation of the same target keeps its alert if the message changes.
    print_ = sha256(f"{report.target}\n{result.id}".encode(errors="backslashreplace")).hexdigest()
    return {
        "ruleId": result.id,
        "ruleIndex": place,
        "level": _LEVELS[result.verdict],
        "kind": "fail",
        "message": {"text": "\n".join(said)},
        "locations": [_location(report)],
        "partialFingerprints": {"accordRequirement/v1": print_},
        "properties": {"revisions": dict(result.by_revision), "party": result.party},
    }


def _location(report: Report) -> JsonObject:
    artifact = report.setting.artifact or _NO_FILE
    uri = quote(artifact.encode(errors="backslashreplace"))
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 1},
        },
        "logicalLocations": [
            {"fullyQualifiedName": escape_unprintable(report.target), "kind": "module"}
        ],
    }
