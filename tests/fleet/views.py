"""Views of fleets for tests: of any size, and one with hostile texts in every field."""

import msgspec

from accord.protocol.catalogue import catalogue
from accord.types import REVISION_IDS
from accord_tools.fleet.definition import ServerLimits
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    CatalogSummary,
    FailedTest,
    FleetRun,
    FleetView,
    RequirementBreach,
    RuleSetStamp,
    RunComparison,
    RunDifference,
    RunOrigin,
    ServerDocuments,
    ServerResult,
    ServerTiming,
    StageResult,
    TestCounts,
    TrendPoint,
)
from accord_tools.fleet.rule_set import find_rule_set
from reports.sample_reports import server_report

RULES = find_rule_set("latest")
IDS = sorted(RULES.ids)
STARTED = "2026-11-17T08:02:11Z"
EVIL = (
    "</script></pre><img src=x onerror=\"alert('ran')\">'|`$x$`@all [a](http://evil.example)"
    " ]]> ${style} www.evil.example #12 &lt;b&gt; -- "
    "\x1b[2J\u202e\u200b\x00\r\n\ud800=cmd|'/C calc'!A0"
)


def breach(place, verdict="fail", **members):
    row = catalogue()[IDS[place % len(IDS)]]
    given = {
        "requirement": row.id,
        "verdict": verdict,
        "level": row.level,
        "message": f"answers with breach number {place}",
        "revisions": (REVISION_IDS[2], REVISION_IDS[3]),
    }
    return RequirementBreach(**(given | members))


def verdicts(breaches, *, asked=300):
    shown = {}
    for place, id in enumerate(IDS[:asked]):
        shown[id] = ("pass", "pass", "pass", "not-exercised", "not-applicable")[place % 5]
    return shown | {each.requirement: each.verdict for each in breaches}


def server(name, *, failures=0, warnings=0, state=None, **members):
    """Return the result of a server that could be checked."""
    step = sum(name.encode())
    breaches = [breach(7 + (step + 3 * place) % 40) for place in range(failures)]
    breaches += [breach(90 + (step + place) % 30, "warn") for place in range(warnings)]
    stages = [
        StageResult(name=stage, state="passed", seconds=0.1 + (step % 7) / 10)
        for stage in ("resolve", "start", "surface", "lint", "check", "test", "measure", "stop")
    ]
    given = {
        "name": name,
        "state": state or ("failed" if failures else "ok"),
        "owner": ("team-a", "team-b", "platform")[step % 3],
        "tags": (("internal", "billing"), ("public",), ())[step % 3],
        "reasons": (f"{failures} requirements fail, 0 may",) if failures else (),
        "target": f"python {name}.py",
        "transport": "stdio",
        "stages": tuple(stages),
        "revision": REVISION_IDS[-1],
        "revisions": REVISION_IDS,
        "score": 100 - 1.5 * failures - 0.5 * warnings,
        "exercised": 180 + step % 60,
        "applicable": 240 + step % 60,
        "failures": failures,
        "warnings": warnings,
        "breaches": tuple(breaches),
        "verdicts": verdicts(breaches),
        "tests": TestCounts(passed=20 + step % 9, names={"add adds": "pass", "add twice": "skip"}),
        "catalog": CatalogSummary(digest="ab12", tools=step % 40, prompts=2, tokens=37 * step),
        "timing": ServerTiming(
            start=0.2 + step % 9 / 4,
            ping_median=0.001,
            ping_95=0.004,
            call_median=0.02,
            call_95=0.05,
            tool="add",
        ),
        "seconds": 9.5,
        "server_name": name,
        "server_version": f"1.{step % 10}.0",
    }
    return ServerResult(**(given | members))


def unreachable(name, **members):
    given = {
        "state": "unreachable",
        "owner": "team-b",
        "reasons": ("the server ended with exit code 1 before its first answer",),
        "stages": (
            StageResult(name="resolve", state="passed", seconds=0.01),
            StageResult(name="start", state="failed", seconds=0.4, text="exit code 1"),
            StageResult(name="check", state="skipped", text="the server did not start"),
        ),
        "target": "npx -y @example/broken-server",
        "transport": "stdio",
        "stderr": ("Error: Cannot find module 'zod'", "    at Module._load (node:internal:1)"),
        "seconds": 0.4,
    }
    return ServerResult(name=name, **(given | members))


def failing_server(name):
    return server(
        name,
        failures=4,
        warnings=2,
        tests=TestCounts(
            passed=38,
            failed=1,
            failures=(
                FailedTest(
                    name="create refuses an empty title",
                    kind="case",
                    summary="expected an error, got a result",
                    repeat=f"accord test cases/{name}.accord.toml --only 'create refuses'",
                ),
            ),
            names={"create refuses an empty title": "fail", "list lists": "pass"},
        ),
        changes=(
            CatalogChange(
                kind="breaking",
                subject="tool create",
                what="inputSchema.required gained title",
                before='{"required": ["body"], "type": "object"}',
                after='{"required": ["body", "title"], "type": "object"}',
            ),
            CatalogChange(
                kind="text",
                subject="tool list",
                what="description changed",
                before='"Lists the tickets that are open."',
                after='"Lists all tickets."',
            ),
        ),
        changed_since="last run",
        findings=(
            CatalogFinding(
                id="surface.description-short",
                severity="warn",
                subject="tool add",
                text='"Adds." has 5 characters; say what it adds and when to use it',
                server=name,
            ),
            CatalogFinding(
                id="safety.instruction",
                severity="info",
                subject="tool list",
                text='the description says "do not tell the user"',
                server=name,
            ),
        ),
        left_processes=("sleep (pid 71)",),
        stderr=("starting", "ready"),
        flaky=(IDS[50],),
        line=12,
    )


def trend(failures, *, runs=50, broken_at=(), rules_at=()):
    points, rules = [], 0
    for run in range(runs):
        rules += run in rules_at
        points.append(
            TrendPoint(
                run=run + 1,
                started=f"2026-{9 + run // 30:02}-{run % 28 + 1:02}T08:00:00Z",
                rules=f"rules-{rules}",
                state="unreachable" if run in broken_at else "ok",
                failures=0 if run in broken_at else failures(run),
                warnings=2,
                exercised=180 + run // 5,
                applicable=240,
                score=97.5,
                start=0.3,
            )
        )
    return tuple(points)


def run_of(results, **members):
    given = {
        "fleet": "desk servers",
        "file": "accord-fleet.toml",
        "started": STARTED,
        "accord": "0.9.0",
        "rules": RULES.stamp,
        "results": tuple(results),
        "id": 57,
        "seconds": 143.2,
        "jobs": 4,
        "origin": RunOrigin(git_commit="4f1c2a9d77e0b1", git_branch="main", is_dirty=True),
    }
    return FleetRun(**(given | members))


def desk_view():
    """Return a fleet of 30 servers as a team might have it: 26 as expected."""
    words = "mail search files clock notes wiki build deploy chat maps news data logs shop pay"
    results = [server(name, warnings=(len(name) % 3)) for name in words.split()]
    results += [server(f"{name}-eu") for name in words.split()[:9]]
    results[3] = server("clock", reused_from="2026-11-16T14:02:00Z")
    results[5] = server(
        "wiki", breaches=(breach(11, accepted="vendor promised a fix"),), accepted=1
    )
    results[8] = server(
        "chat",
        failures=2,
        warnings=1,
        state="ok",
        reasons=(),
        expect=ServerLimits(failures=3, tests=4),
        tests=TestCounts(passed=60, failed=4, skipped=9),
    )
    results.insert(2, failing_server("tickets"))
    results.insert(9, server("people-and-places-with-a-long-name", failures=1, warnings=3))
    results.insert(14, unreachable("broken"))
    results.append(
        ServerResult(
            name="slow",
            state="timed-out",
            reasons=("the time of the server, 120 s, was over before 413 of 413 tests began",),
            owner="platform",
            tests=TestCounts(no_time=413),
        )
    )
    results.append(
        ServerResult(name="secret", state="skipped", reasons=("SEARCH_TOKEN is not set",))
    )
    results.append(server("big", catalog=CatalogSummary(digest="ff", tools=10_000, tokens=912_345)))
    trends = {
        each.name: trend(lambda run, step=step: (run // 9 + step) % 4, rules_at=(30,))
        for step, each in enumerate(results)
        if each.state == "ok"
    }
    trends["tickets"] = trend(lambda run: 0 if run < 40 else run % 5, rules_at=(12, 30))
    trends["broken"] = trend(lambda run: 1, broken_at=(20, 21, 47, 48, 49), rules_at=(30,))
    comparison = RunComparison(
        against="run 56 of 2026-11-16 08:02",
        differences=(
            RunDifference(
                kind="new-failure",
                server="tickets",
                subject=IDS[12],
                text="passed before, fails now",
            ),
            RunDifference(
                kind="surface-breaking",
                server="tickets",
                subject="tool create",
                text="title became required",
            ),
            RunDifference(
                kind="surface-changed",
                server="tickets",
                subject="tool list",
                text="tool list: description changed",
            ),
            RunDifference(kind="unreachable", server="broken", text="was reachable before"),
            RunDifference(
                kind="new-warning",
                server="mail",
                subject=IDS[95],
                text="passed before, warns now",
                is_flaky=True,
            ),
            RunDifference(kind="fixed", server="notes", subject=IDS[3], text="failed before"),
            RunDifference(kind="appeared", server="big", text="is new in the fleet"),
        ),
        new_rules=(IDS[-1],),
    )
    findings = (
        CatalogFinding(
            id="safety.collision",
            severity="warn",
            subject="tool search",
            text="search and search-eu both offer a tool named search; a host shows only one",
        ),
    )
    report = msgspec.json.encode(server_report(3))
    return FleetView(
        run=run_of(results, findings=findings, notes=("the entry 'old' is disabled",)),
        comparison=comparison,
        trends=trends,
        documents={"tickets": ServerDocuments(report=report)},
        rules=tuple(IDS),
    )


def long_view():
    """Return a fleet of one server whose reason is long."""
    return FleetView(run=run_of([unreachable("long", reasons=("the reason is long " * 100,))]))


def large_view(servers=100, runs=50):
    """Return a large fleet in which a third of the servers is in bad shape."""
    results = []
    for place in range(servers):
        name = f"server-{place:03}-of-some-team"
        if place % 3:
            results.append(server(name, warnings=place % 4))
            continue
        findings = tuple(
            CatalogFinding(
                id=f"surface.rule-{number % 12}",
                severity="warn",
                subject=f"tool number-{number}",
                text="the description does not say what the tool returns; add a sentence " * 2,
                server=name,
            )
            for number in range(40)
        )
        changes = tuple(
            CatalogChange(
                kind="text",
                subject=f"tool number-{number}",
                what="description changed",
                before='"The text before, which is rather long for a description of a tool."',
                after='"The text after, which is rather long for a description of a tool."',
            )
            for number in range(40)
        )
        results.append(
            server(
                name,
                failures=30,
                warnings=20,
                findings=findings,
                changes=changes,
                stderr=tuple(f"warning: line {number} of the log" * 2 for number in range(50)),
            )
        )
    trends = {each.name: trend(lambda run: run % 7, runs=runs) for each in results}
    differences = tuple(
        RunDifference(kind="new-failure", server=each.name, subject=IDS[9], text="passed before")
        for each in results
    )
    return FleetView(
        run=run_of(results),
        comparison=RunComparison(against="run 56", differences=differences),
        trends=trends,
    )


def hostile_view():
    """Return a fleet in which every text tries to break out of its medium."""
    first = ServerResult(
        name=f"a{EVIL}",
        state="failed",
        owner=EVIL,
        tags=(EVIL, "=1+1"),
        reasons=(EVIL,),
        remarks=(EVIL,),
        target=EVIL,
        transport=EVIL,
        stages=(StageResult(name="start", state="failed", seconds=1, text=EVIL),),
        revision=REVISION_IDS[-1],
        revisions=(REVISION_IDS[-1],),
        score=50,
        exercised=2,
        applicable=3,
        failures=1,
        warnings=1,
        breaches=(
            breach(7, message=EVIL, evidence=EVIL),
            breach(9, "warn", message=EVIL, accepted=EVIL),
            RequirementBreach(requirement=EVIL, verdict="fail", level=EVIL, message=EVIL),
        ),
        verdicts={IDS[7]: "fail", IDS[9]: "warn", IDS[1]: "pass", EVIL: "fail"},
        tests=TestCounts(
            failed=1,
            failures=(FailedTest(name=EVIL, kind=EVIL, summary=EVIL, repeat=EVIL),),
            names={EVIL: "fail", f"{EVIL}2": "skip"},
        ),
        catalog=CatalogSummary(digest=EVIL, entries={EVIL: EVIL}, tools=1, tokens=3),
        findings=(
            CatalogFinding(
                id=EVIL,
                severity="warn",
                subject=EVIL,
                text=EVIL,
                server=f"a{EVIL}",
                source=EVIL,
                accepted=EVIL,
            ),
            CatalogFinding(id="safety.x", severity="warn", text=EVIL, server=f"a{EVIL}"),
        ),
        changes=(
            CatalogChange(kind="breaking", subject=EVIL, what=EVIL, before=EVIL, after=None),
            CatalogChange(kind="text", subject=EVIL, what=EVIL, before='"x"', after=f'"{EVIL}"'),
        ),
        changed_since=EVIL,
        timing=ServerTiming(start=0.1, call_median=0.1, tool=EVIL),
        server_name=EVIL,
        server_version=EVIL,
        stderr=(EVIL, EVIL),
        left_processes=(EVIL,),
        cache_key=EVIL,
        not_cached=EVIL,
        flaky=(EVIL,),
        repeated={EVIL: "fail"},
    )
    second = ServerResult(
        name=f"b{EVIL}", state="unreachable", reasons=(EVIL,), stderr=(EVIL,), reused_from=EVIL
    )
    third = ServerResult(name="=1+1", state="skipped", reasons=(EVIL,), owner="@x")
    comparison = RunComparison(
        against=EVIL,
        differences=(
            RunDifference(kind="new-failure", server=f"a{EVIL}", subject=EVIL, text=EVIL),
            RunDifference(kind="fixed", server=EVIL, text=EVIL),
            RunDifference(kind="slower", server=EVIL, text=EVIL, is_flaky=True),
        ),
        new_rules=(EVIL,),
        dropped_rules=(EVIL,),
    )
    point = TrendPoint(run=1, started=EVIL, rules=EVIL, state="ok", failures=1)
    run = run_of(
        [first, second, third],
        fleet=EVIL,
        file=EVIL,
        accord=EVIL,
        rules=RuleSetStamp(version=EVIL, digest=EVIL),
        file_digest=EVIL,
        findings=(CatalogFinding(id="safety.collision", severity="warn", subject=EVIL, text=EVIL),),
        origin=RunOrigin(git_commit=EVIL, git_branch=EVIL, ci_url=f"https://x/{EVIL}", host=EVIL),
        notes=(EVIL,),
    )
    return FleetView(
        run=run,
        comparison=comparison,
        trends={f"a{EVIL}": (point, msgspec.structs.replace(point, rules="other"))},
    )
