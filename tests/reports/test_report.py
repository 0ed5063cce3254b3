import json

import msgspec
import pytest

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.verdict import Evidence, Verdict
from accord.protocol.violation import Violation
from accord.types import REVISION_IDS
from accord_tools.reports.badge import BADGE_COLOURS, as_badge
from accord_tools.reports.clauses import anchor
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.report import (
    Coverage,
    Setting,
    ViolationGroups,
    build_report,
    merge_revisions,
)
from accord_tools.reports.text import as_text
from accord_tools.reports.tool_calls import ToolCounts
from accord_tools.reports.wording import summary
from reports.sample_reports import hostile_report

NEW = REVISION_IDS[2]


def verdict(name, level="MUST", id_="tools.call.content-array"):
    return Verdict(id_, level, "server", (NEW,), name, "", [])


def report_of(*verdicts, decidable=("tools.call.content-array",)):
    return build_report(verdicts, target="x", revision=NEW, judged_by=NEW, decidable=decidable)


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [
        ([verdict("pass")], 100),
        ([verdict("fail")], 0),
        ([verdict("warn")], 50),
        ([verdict("pass"), verdict("not-exercised"), verdict("not-applicable")], 100),
        ([verdict("pass"), verdict("fail", "SHOULD")], 75),
        ([verdict("fail"), verdict("pass", "MAY")], 25),
        ([verdict("pass", "MUST NOT"), verdict("warn", "FACT")], 87.5),
        ([verdict("pass")] * 50 + [verdict("fail")], 79),
        ([verdict("pass")] * 50 + [verdict("fail", "MUST NOT")], 79),
        ([verdict("pass")] * 50 + [verdict("warn")], 99),
        ([verdict("pass")] * 5000 + [verdict("fail", "FACT")], 99.9),
        ([verdict("not-exercised")], None),
        ([], None),
    ],
)
def test_the_score_weighs_levels_and_verdicts_and_is_rounded_down(verdicts, score):
    assert report_of(*verdicts).score == score


def test_coverage_counts_what_this_kind_of_check_can_decide():
    report = report_of(
        verdict("pass"),
        verdict("warn", id_="tools.item.title"),
        verdict("not-exercised"),
        verdict("not-exercised", id_="auth.token.short-lived"),
        verdict("not-applicable"),
    )
    assert report.coverage == Coverage(applicable=3, exercised=2)


def test_a_warning_is_not_a_failure():
    assert not report_of(verdict("warn"), verdict("pass")).has_failed
    assert report_of(verdict("fail"), verdict("pass")).has_failed


def breach(why="sends nonsense", *, id_="ping.response.empty", severity="fail", number=1):
    return Violation(id_, "server", why, severity=severity, number=number, evidence="{}")


def test_identical_violations_are_grouped_with_their_count_and_first_records():
    groups = ViolationGroups()
    for number in range(1, 101):
        groups.add(breach(number=number))
    [group] = groups.failures_first()
    assert (group.count, group.numbers) == (100, [1, 2, 3, 4, 5])
    assert group.violation.evidence == "{}"


def test_failures_come_before_warnings_and_both_in_their_order():
    groups = ViolationGroups()
    groups.add(breach("a", severity="warn"))
    groups.add(breach("b", id_="ping.response.prompt"))
    groups.add(breach("c", id_="meta.prefix.reserved", severity="warn"))
    groups.add(breach("d"))
    assert [group.violation.why for group in groups.failures_first()] == ["b", "d", "a", "c"]


def test_a_violation_with_new_words_each_time_does_not_fill_the_memory():
    groups = ViolationGroups()
    for number in range(1, 100_001):
        groups.add(breach(f"sends {number}", number=number))
    shown = groups.failures_first()
    assert len(shown) == 11
    assert sum(group.count for group in shown) == 100_000
    assert shown[-1].violation.why == "breaks it in further ways, not listed one by one"


def test_a_violation_without_severity_or_record_is_a_failure_without_record_numbers():
    groups = ViolationGroups()
    groups.add(Violation("ping.response.empty", "server", "sends nonsense"))
    [group] = groups.failures_first()
    assert (group.severity, group.numbers, group.count) == ("fail", [], 1)


def found(verdicts, *, level="MUST", id_="tools.call.content-array"):
    return {
        revision: [Verdict(id_, level, "server", (revision,), name, f"is {name}", [])]
        for revision, name in verdicts.items()
    }


OLD = REVISION_IDS[1]


@pytest.mark.parametrize(
    ("old", "new", "verdict", "message"),
    [
        ("pass", "pass", "pass", "is pass"),
        ("pass", "fail", "fail", f"is fail (in {NEW})"),
        ("warn", "fail", "fail", f"is fail (in {NEW})"),
        ("fail", "fail", "fail", "is fail"),
        ("warn", "not-applicable", "warn", f"is warn (in {OLD})"),
        ("not-exercised", "pass", "pass", "is pass"),
        ("not-applicable", "not-exercised", "not-exercised", "is not-exercised"),
    ],
)
def test_the_worst_verdict_of_several_revisions_counts(old, new, verdict, message):
    report = merge_revisions(found({NEW: new, OLD: old}), target="x", party="server")
    [result] = report.results
    assert (result.verdict, result.message) == (verdict, message)
    assert result.by_revision == {OLD: old, NEW: new}
    assert result.revisions == report.setting.revisions == (OLD, NEW)
    assert report.setting.party == "server"
    assert len(report.violations) == (verdict in ("fail", "warn"))


def test_a_check_is_repeated_under_the_newest_revision_that_shows_the_verdict():
    setting = Setting(command="accord check server x", command_end=" -- y")
    report = merge_revisions(
        found({NEW: "pass", OLD: "fail"}), target="x", party="server", setting=setting
    )
    assert report.results[0].repeat == (
        f"accord check server x --only tools.call.content-array --revision {OLD} -- y"
    )


def test_a_result_has_the_clause_and_its_page_in_the_specification():
    [result] = report_of(verdict("pass")).results
    assert result.clause == catalogue()[result.id].text
    assert result.anchor in catalogue()[result.id].source
    assert result.anchor.startswith(NEW)
    assert result.by_revision == {NEW: "pass"}
    assert result.repeat is None


def test_the_evidence_of_a_violation_is_the_last_message():
    shown = [
        Evidence("falls silent", "server"),
        Evidence("message", "client", 1, "{}"),
        Evidence("message", "server", 2, "[]"),
    ]
    wrong = Verdict("ping.response.empty", "MUST", "server", (NEW,), "warn", "errs", shown)
    mute = Verdict("ping.response.prompt", "MUST", "server", (NEW,), "fail", "mute", shown[:1])
    report = merge_revisions({NEW: [wrong, mute]}, target="x", party="server")
    assert [(each.severity, each.violation.evidence) for each in report.violations] == [
        ("fail", None),
        ("warn", "[]"),
    ]


def test_every_format_counts_requirements_and_not_repetitions():
    report = hostile_report()
    assert sum(each.count for each in report.violations) == 5
    told = "1 requirement failed, 2 warned"
    for form in (as_text, as_markdown, as_html, as_badge):
        assert told in form(report)
    counts = json.loads(as_json(report))["counts"]
    assert (counts["fail"], counts["warn"]) == (1, 2)
    assert told in summary(report)


@pytest.mark.parametrize(
    ("id_", "revision", "place"),
    [
        ("cancellation.races", OLD, f"{OLD}/basic/utilities/cancellation"),
        ("cancellation.races", NEW, f"{NEW}/basic/utilities/cancellation"),
        ("cancellation.races", REVISION_IDS[4], "2026-07-28/basic/patterns/cancellation"),
        ("tools.server.validates-inputs", NEW, f"{NEW}/server/tools"),
        ("tools.call.content-array", NEW, "2025-06-18: Tools/Protocol Messages"),
    ],
)
def test_an_anchor_names_a_page_of_the_revision_that_was_judged(id_, revision, place):
    found = anchor(catalogue()[id_], revision)
    assert found == place or (place.startswith(f"{revision}:") and found.startswith(revision))


@pytest.mark.parametrize("revision", REVISION_IDS)
def test_no_anchor_names_a_later_revision_than_the_one_that_was_judged(revision):
    rows = [row for row in catalogue().values() if row.holds_in(revision)]
    found = {row.id: anchor(row, revision) for row in rows}
    later = {id_: place for id_, place in found.items() if place and place[:4].isdigit()}
    assert {id_: place for id_, place in later.items() if place[:10] > revision} == {}


def test_a_page_that_a_revision_does_not_have_is_not_named():
    row = Requirement(
        id="tools.x",
        area="tools",
        text="x",
        mend="Do x.",
        level="MUST",
        party="server",
        check="wire",
        revisions=(OLD, REVISION_IDS[4]),
        source=("2026-07-28/client/elicitation", "2026-07-28/server/discover"),
    )
    assert anchor(row, OLD) is None
    assert anchor(row, REVISION_IDS[4]) == "2026-07-28/client/elicitation"


def test_a_violation_in_an_active_check_is_shown_with_its_request_and_answer():
    shown = [
        Evidence("errs", "server"),
        Evidence("message", "client", 1, '{"id": 1}'),
        Evidence("message", "server", 2, '{"id": 1, "error": {}}'),
    ]
    wrong = Verdict("ping.response.empty", "MUST", "server", (NEW,), "fail", "errs", shown)
    report = merge_revisions({NEW: [wrong]}, target="x", party="server")
    for text in (as_text(report), as_markdown(report)):
        assert text.index('client: {"id": 1}') < text.index('server: {"id": 1, "error": {}}')


def test_every_form_says_that_a_failed_must_caps_the_score():
    report = report_of(*[verdict("pass")] * 50, verdict("fail"))
    for form in (as_text, as_markdown, as_html, as_badge):
        assert "capped at 79 because a MUST failed" in form(report)
    assert json.loads(as_json(report))["score_capped"] is True
    low = report_of(verdict("pass"), verdict("fail"))
    assert "capped at" not in summary(low)


def test_the_head_says_how_much_was_tested_and_how_many_tools_were_called():
    tools = (ToolCounts(name="add"), ToolCounts(name="get", calls=2, refused=2))
    report = msgspec.structs.replace(
        report_of(verdict("pass"), verdict("not-exercised")), setting=Setting(tools=tools, calls=9)
    )
    head = "the 1 of 2 rules tested (50 %); 1 of 2 tools were called; no call of get succeeded"
    assert head in as_text(report).splitlines()[1]
    assert head in as_html(report)
    assert "1 of 2 tools were called" in as_markdown(report)
    assert "1 of 2 tools were called" in as_badge(report)
    assert "1 of 2 tools called" in summary(report)


def test_a_clean_score_over_little_coverage_is_grey():
    little = report_of(verdict("pass"), verdict("not-exercised"))
    enough = report_of(verdict("pass"))
    assert 'class="ring-little"' in as_html(little)
    assert 'class="ring-pass"' in as_html(enough)
    assert BADGE_COLOURS["not-exercised"] in as_badge(little)
    assert BADGE_COLOURS["pass"] in as_badge(enough)
