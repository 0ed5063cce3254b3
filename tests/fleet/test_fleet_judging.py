"""What a server is expected to be, and what follows when it is not."""

from datetime import date

import pytest

from accord_tools.fleet.definition import AcceptedBreach, FleetServer, ServerLimits
from accord_tools.fleet.judging import judge_server
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    CatalogSummary,
    FailedTest,
    ServerResult,
    ServerTiming,
    StageResult,
    TestCounts,
)
from accord_tools.fleet.rule_set import RuleSet, find_rule_set
from accord_tools.reports.report import Coverage, Report, RequirementResult, Setting
from support.tables import cases

TODAY = date(2026, 11, 17)
REVISION = "2025-06-18"
BROKEN = "tools.list.result"
RULES = find_rule_set("latest")
IDS = sorted(RULES.ids)


def report(**verdicts: str) -> Report:
    """Return a report: by place among all ids, its verdict."""
    results = [
        RequirementResult(
            id=IDS[int(place.lstrip("r"))],
            level="MUST",
            party="server",
            revisions=(REVISION,),
            verdict=verdict,
            message="seen",
            evidence=[],
            by_revision={REVISION: verdict},
        )
        for place, verdict in verdicts.items()
    ]
    return Report(
        target="x",
        revision=REVISION,
        judged_by=REVISION,
        score=None,
        coverage=Coverage(0, 0),
        results=tuple(results),
        setting=Setting(revisions=(REVISION,)),
    )


def judge(
    found: Report | None = None,
    *,
    rules: RuleSet = RULES,
    changes=(),
    expect=None,
    accept=(),
    **facts,
):
    server = FleetServer(
        name="desk",
        entry={},
        owner="team",
        tags=("a",),
        expect=expect or ServerLimits(),
        accept=accept,
    )
    return judge_server(
        server,
        ServerResult(**{"name": "desk", "state": "ok", **facts}),
        found,
        rules,
        today=TODAY,
        lock_changes=changes,
    )


def test_a_server_that_breaks_nothing_is_as_expected():
    result = judge(report(r0="pass", r1="not-applicable"))
    assert (result.state, result.reasons, result.score, result.exercised) == ("ok", (), 100.0, 1)
    assert (result.owner, result.tags, result.revision) == ("team", ("a",), REVISION)
    assert result.verdicts == {IDS[0]: "pass", IDS[1]: "not-applicable"}


def test_a_failed_requirement_is_not_expected():
    result = judge(report(r0="fail", r1="warn", r2="pass"))
    assert result.state == "failed"
    assert result.reasons == (f"1 requirement failed, expected none: {IDS[0]}",)
    assert (result.failures, result.warnings) == (1, 1)
    assert [(each.requirement, each.verdict) for each in result.breaches] == [
        (IDS[0], "fail"),
        (IDS[1], "warn"),
    ]


@cases(
    ("limits", "facts", "reason"),
    [
        ({"warnings": 0}, {}, f"1 requirement warned, expected none: {IDS[1]}"),
        ({"score": 99}, {}, "the score is 75, expected at least 99"),
        ({"exercised": 3}, {}, "2 of 3 requirements were put to the test, expected at least 3"),
        (
            {"coverage": 70},
            {},
            "2 of 3 requirements were put to the test (67%), expected at least 70%",
        ),
        (
            {"start": 1.0},
            {"timing": ServerTiming(start=1.5)},
            "the first answer took 1.5 s, expected at most 1 s",
        ),
        (
            {"tokens": 10},
            {"catalog": CatalogSummary(digest="a", tokens=11)},
            "the list of tools costs about 11 tokens, expected at most 10",
        ),
        (
            {"tests": 1},
            {
                "tests": TestCounts(
                    failed=2,
                    failures=tuple(FailedTest(name=n, kind="tool", summary="") for n in "ab"),
                )
            },
            "2 tests failed, expected at most 1: a, b",
        ),
        (
            {},
            {"stages": (StageResult(name="test", state="failed", text="no memory"),)},
            "the stage test failed: no memory",
        ),
    ],
)
def test_each_limit_that_is_not_kept_is_a_reason(limits, facts, reason):
    untried = next(i for i, id in enumerate(IDS) if i > 1 and not _is_for_humans(id))
    found = report(r0="pass", r1="warn", **{f"r{untried}": "not-exercised"})
    result = judge(found, expect=ServerLimits(**limits), **facts)
    assert result.state == "failed"
    assert result.reasons == (reason,)


def _is_for_humans(id):
    from accord.protocol.catalogue import catalogue

    return catalogue()[id].check == "human"


def test_a_known_number_of_failures_is_expected_and_fewer_are_worth_a_remark():
    limits = ServerLimits(failures=2)
    assert judge(report(r0="fail", r1="fail"), expect=limits).state == "ok"
    better = judge(report(r0="fail", r1="pass"), expect=limits)
    assert better.state == "ok"
    assert better.remarks == ("better than expected: lower expect.failures to 1",)


def test_tests_that_did_not_run_are_not_better_than_expected():
    limits = ServerLimits(tests=2)
    assert judge(report(r0="pass"), expect=limits).remarks == ()
    ran = judge(report(r0="pass"), expect=limits, tests=TestCounts(passed=3))
    assert ran.remarks == ("better than expected: lower expect.tests to 0",)


def test_an_accepted_breach_does_not_count_until_its_day():
    def accept(until, id=IDS[0]):
        return (AcceptedBreach(id=id, reason="the vendor mends it", until=until),)

    kept = judge(report(r0="fail"), accept=accept(TODAY))
    assert (kept.state, kept.failures, kept.accepted) == ("ok", 0, 1)
    assert kept.breaches[0].accepted == "the vendor mends it (until 2026-11-17)"
    assert kept.score == 0.0  # the score tells what the server does
    ended = judge(report(r0="fail"), accept=accept(date(2026, 11, 16)))
    assert (ended.state, ended.failures) == ("failed", 1)
    assert ended.remarks == (
        f"{IDS[0]} was accepted until 2026-11-16, and counts again: the vendor mends it",
    )
    area = IDS[0].partition(".")[0]
    assert judge(report(r0="fail"), accept=accept(TODAY, f"{area}.*")).state == "ok"


def test_an_acceptance_that_is_not_needed_is_remarked_on():
    accept = (AcceptedBreach(id=IDS[0], reason="old", until=TODAY),)
    assert judge(report(r0="pass"), accept=accept).remarks == (
        f"{IDS[0]} is accepted, but nothing breaks it: remove the acceptance",
    )
    # Without a check it cannot be known.
    assert judge(None, accept=accept, state="unreachable").remarks == ()


def test_an_acceptance_of_what_was_not_tried_is_kept_silently():
    accept = (AcceptedBreach(id=IDS[0], reason="old", until=TODAY),)
    assert judge(report(r0="not-applicable"), accept=accept).remarks == ()
    assert judge(report(r1="pass"), accept=accept).remarks == ()


def test_findings_are_accepted_by_id_and_entry():
    findings = tuple(
        CatalogFinding(id="safety.invisible", severity="warn", text="x", subject=each)
        for each in ("tool a", "tool b")
    )
    accept = (AcceptedBreach(id="safety.invisible", reason="art", until=TODAY, subject="tool a"),)
    result = judge(report(r0="pass"), accept=accept, findings=findings)
    assert [each.accepted for each in result.findings] == ["art (until 2026-11-17)", ""]


def test_a_rule_that_is_newer_than_the_set_does_not_count():
    older = RuleSet("older", frozenset(IDS[1:]))
    result = judge(report(r0="fail", r1="pass"), rules=older)
    assert (result.state, result.failures, result.score, result.exercised) == ("ok", 0, 100.0, 1)
    assert result.breaches[0].is_pending


def test_a_catalog_that_differs_from_the_lock_is_not_expected():
    changes = (
        CatalogChange(kind="breaking", subject="tool add", what="removed"),
        CatalogChange(kind="text", subject="tool sub", what="description changed"),
    )
    assert judge(report(r0="pass"), changes=changes).reasons == (
        (
            "differs from the lock file in 2 places, 1 of them breaking: tool add, tool sub;"
            " if that is intended, --update-locks accepts it"
        ),
    )


@pytest.mark.parametrize("state", ["unreachable", "timed-out", "skipped"])
def test_a_server_that_was_not_checked_keeps_its_state_and_reasons(state):
    result = judge(None, state=state, reasons=("gone",), expect=ServerLimits(score=95))
    assert (result.state, result.reasons) == (state, ("gone",))


def test_the_newest_version_of_the_rules_is_the_latest_set():
    assert RULES.version == "2026-11"
    assert find_rule_set("2026-11").stamp == RULES.stamp


def test_a_file_of_ids_is_a_set_of_rules(tmp_path):
    file = tmp_path / "ours.txt"
    file.write_text(f"# ours\n{IDS[0]}\n{IDS[3]}  # why\n\n")
    assert find_rule_set("ours.txt", tmp_path).ids == {IDS[0], IDS[3]}


def test_an_unknown_set_or_id_is_refused(tmp_path):
    from accord_tools.fleet.definition import FleetError

    with pytest.raises(FleetError, match="'2020-01' is not a set of rules; known: latest, 2026-11"):
        find_rule_set("2020-01", tmp_path)
    (tmp_path / "bad.txt").write_text(f"{IDS[0]}\ntools.nope\n")
    with pytest.raises(FleetError, match=r"bad\.txt:2: there is no requirement 'tools.nope'"):
        find_rule_set("bad.txt", tmp_path)
