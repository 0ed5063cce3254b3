"""Runs of fleets as they might be, for tests of the history."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from accord_tools.fleet.results import (
    CatalogFinding,
    CatalogSummary,
    FailedTest,
    FleetRun,
    FleetView,
    RequirementBreach,
    RunOrigin,
    ServerDocuments,
    ServerResult,
    ServerTiming,
    StageResult,
    TestCounts,
)
from accord_tools.fleet.rule_set import RuleSet, find_rule_set
from accord_tools.reports.tool_calls import ToolCounts

SMALL = RuleSet("small", frozenset(f"tools.rule-{number}" for number in range(8)))
STAGES = ("resolve", "start", "surface", "lint", "check", "test", "measure", "stop")


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


def full_result(name: str, number: int, *, failing: Iterable[str] = ()) -> ServerResult:
    """Return a result as large as a real one; times differ with the number."""
    ids = sorted(find_rule_set("latest").ids)
    bad = frozenset(failing)
    verdicts = {
        id: "fail" if id in bad else "pass" if position % 3 == 0 else "not-applicable"
        for position, id in enumerate(ids)
    }
    tools = [f"{name}_{tool}" for tool in range(12)]
    return ServerResult(
        name=name,
        state="failed" if bad else "ok",
        owner="team-a",
        tags=("internal", "python"),
        reasons=tuple(f"{len(bad)} requirements fail, 0 may" for _ in range(bool(bad))),
        target=f"python servers/{name}.py --port 0",
        transport="stdio",
        stages=tuple(
            StageResult(name=stage, state="passed", seconds=0.01 * place + number * 0.0001234)
            for place, stage in enumerate(STAGES)
        ),
        revision="2026-07-28",
        revisions=("2025-06-18", "2025-11-25", "2026-07-28"),
        score=97.5 if bad else 100.0,
        exercised=213,
        applicable=300,
        failures=len(bad),
        breaches=tuple(
            breach(id, message=f"the answer of {name} has no member 'content'", evidence="e" * 16)
            for id in sorted(bad)
        ),
        verdicts=verdicts,
        tests=TestCounts(
            passed=36,
            failed=1,
            no_time=2,
            names={
                f"{tool}: {kind}": "pass" for tool in tools for kind in ("valid", "odd", "text")
            },
            failures=(
                FailedTest(name=f"{tools[0]}: odd", kind="contract", summary="said nothing"),
            ),
        ),
        tool_calls=tuple(
            ToolCounts(name=tool, calls=40, succeeded=30, refused=10) for tool in tools
        ),
        catalog=CatalogSummary(
            digest=f"{name:0>64}",
            entries={f"tool {tool}": f"{tool:0>64}" for tool in tools},
            tools=len(tools),
            tokens=2400,
        ),
        findings=tuple(
            CatalogFinding(
                id="surface.description-short",
                severity="info",
                subject=f"tool {tool}",
                text=f"the description of {tool} has 12 characters; say what it does and when",
                server=name,
            )
            for tool in tools
        ),
        timing=ServerTiming(
            start=0.31 + number * 0.00123,
            ping_median=0.0021 + number * 1e-5,
            ping_95=0.0035 + number * 1e-5,
            call_median=0.0072 + number * 1e-5,
            call_95=0.0123 + number * 1e-5,
            tool=tools[0],
        ),
        seconds=4.2 + number * 0.0137,
        server_name=name,
        server_version="1.4.2",
        cache_key=f"{name:0>64}",
        load_lag=0.013 + number * 0.0001,
    )


def full_documents(name: str, number: int) -> ServerDocuments:
    """Return a report with all requirements, and a catalog."""
    from accord.protocol.catalogue import catalogue

    results = [
        {
            "id": row.id,
            "level": "MUST",
            "party": "server",
            "revisions": ["2025-06-18", "2026-07-28"],
            "verdict": "pass" if place % 3 else "not-applicable",
            "message": "held" if place % 3 else "no message of the server put this to the test",
            "evidence": [],
            "by_revision": {"2025-06-18": "pass", "2026-07-28": "pass"},
            "clause": row.text,
            "mend": f"Mend {row.id} in the handler.",
            "also": [],
            "anchor": row.id,
            "repeat": None,
        }
        for place, row in enumerate(catalogue().values())
        if place < 640
    ]
    report = {"target": name, "seconds": 3.1 + number * 0.01, "results": results}
    tools = [f"{name}_{tool}" for tool in range(12)]
    return ServerDocuments(report=msgspec.json.encode(report), catalog=catalog(*tools))


def full_view(servers: int, number: int, *, with_reports: bool = True) -> FleetView:
    """Return a run of many servers, three of which fail a requirement."""
    names = [f"server_{place:02}" for place in range(servers)]
    ids = sorted(find_rule_set("latest").ids)
    found = [
        full_result(name, number, failing=ids[:3] if place < 3 else ())
        for place, name in enumerate(names)
    ]
    documents = {name: full_documents(name, number) for name in names} if with_reports else {}
    return view(
        *found,
        documents=documents,
        rules=find_rule_set("latest"),
        started=f"2026-{1 + number // 28:02}-{1 + number % 28:02}T08:02:11+00:00",
        origin=RunOrigin(git_commit="c" * 40, git_branch="main", host="runner"),
        seconds=150.3,
        jobs=4,
    )
