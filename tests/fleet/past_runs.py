"""Runs of fleets as they might be, for tests of the history."""

from collections.abc import Mapping
from typing import Any

import msgspec

from accord_tools.fleet.results import (
    CatalogSummary,
    FleetRun,
    FleetView,
    RequirementBreach,
    RunOrigin,
    ServerDocuments,
    ServerResult,
    ServerTiming,
    TestCounts,
)
from accord_tools.fleet.rule_set import RuleSet, find_rule_set
from accord_tools.reports.tool_calls import ToolCounts
from fleet.views import server
from reports.sample_reports import server_report

SMALL = RuleSet("small", frozenset(f"tools.rule-{number}" for number in range(8)))


def rule(number: int) -> str:
    """Return an id of the small set of rules."""
    return f"tools.rule-{number}"


def breach(id: str, verdict: str = "fail", **more: Any) -> RequirementBreach:
    return RequirementBreach(
        **{"requirement": id, "verdict": verdict, "level": "MUST", "message": "seen", **more}
    )


def result(name: str = "tickets", state: str = "ok", **more: Any) -> ServerResult:
    """Return a result; breaches follow from verdicts unless they are given."""
    given = {"verdicts": {rule(0): "pass", rule(1): "pass"}, **more}
    bad = {id: verdict for id, verdict in given["verdicts"].items() if verdict in ("fail", "warn")}
    given.setdefault("breaches", tuple(breach(id, verdict) for id, verdict in bad.items()))
    return ServerResult(name=name, state=state, **given)


def run(*results: ServerResult, rules: RuleSet = SMALL, **more: Any) -> FleetRun:
    given = {
        "fleet": "desk",
        "file": "accord-fleet.toml",
        "started": "2026-11-16T08:02:11+00:00",
        "accord": "1.0",
        "rules": rules.stamp,
        **more,
    }
    return FleetRun(results=results, **given)


def view(
    *results: ServerResult, documents: Mapping[str, ServerDocuments] | None = None, **more: Any
) -> FleetView:
    return FleetView(run=run(*results, **more), documents=documents or {})


def catalog(*tools: str) -> dict[str, Any]:
    """Return a catalog with tools of these names."""
    shapes = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
    return {"tools": shapes, "resources": [], "prompts": []}


def summary(*tools: str) -> CatalogSummary:
    entries = {f"tool {name}": f"digest-of-{name}" for name in tools}
    return CatalogSummary(
        digest="catalog-" + "-".join(tools), entries=entries, tools=len(tools), tokens=70
    )


def full_view(servers: int, number: int, *, with_reports: bool = True) -> FleetView:
    """Return a run of many servers, three of which fail requirements; times differ with it."""
    names = [f"server_{place:02}" for place in range(servers)]
    tools = [f"tool_{place}" for place in range(12)]
    found = [
        server(
            name,
            failures=3 if place < 3 else 0,
            seconds=4.2 + number * 0.0137,
            timing=ServerTiming(start=0.31 + number * 0.00123, call_95=0.0123 + number * 1e-5),
            tests=TestCounts(passed=36, names={f"{tool}: valid": "pass" for tool in tools}),
            tool_calls=tuple(ToolCounts(name=tool, calls=40, succeeded=30) for tool in tools),
            catalog=summary(*tools),
            cache_key=f"{name:0>64}",
            load_lag=0.013 + number * 0.0001,
        )
        for place, name in enumerate(names)
    ]
    documents = {}
    if with_reports:
        report = msgspec.json.encode(server_report(3))
        documents = dict.fromkeys(names, ServerDocuments(report=report, catalog=catalog(*tools)))
    return view(
        *found,
        documents=documents,
        rules=find_rule_set("latest"),
        started=f"2026-{1 + number // 28:02}-{1 + number % 28:02}T08:02:11+00:00",
        origin=RunOrigin(git_commit="c" * 40, git_branch="main", host="runner"),
    )
