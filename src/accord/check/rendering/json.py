"""Reports as JSON: members may be added, but are never removed or renamed."""

import json

import msgspec

from accord.check.report import SCORE_RULE, VERDICTS, Report


def as_json(report: Report) -> str:
    """Return the report as JSON, in ASCII."""
    setting = report.setting
    members = {
        "target": report.target,
        "party": setting.party,
        "transport": setting.transport,
        "revision": report.revision,
        "revisions": setting.revisions,
        "at": setting.at,
        "seconds": setting.seconds,
        "accord": report.version,
        "counts": {name: report.count(name) for name in VERDICTS},
        "coverage": msgspec.to_builtins(report.coverage),
        "calls": setting.calls,
        "called": dict(setting.called),
        "not_called": dict(setting.not_called),
        "notes": list(setting.notes),
        "score": report.score,
        "score_rule": SCORE_RULE,
        "results": msgspec.to_builtins(report.results),
    }
    return json.dumps(members, indent=2) + "\n"
