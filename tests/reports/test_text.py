import pytest

from accord.protocol.violation import Violation
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.report import SCORE_RULE, ViolationGroups, build_report
from accord_tools.reports.text import as_text
from accord_tools.reports.wording import summary
from reports.sample_reports import NEW, OLD, hostile_report, server_report, spotless_report, verdict


@pytest.fixture
def report():
    return hostile_report()


@pytest.fixture
def spotless():
    return spotless_report()


def test_text_shows_violations_first_then_areas_coverage_and_score(report):
    text = as_text(report)
    places = [
        text.index(each)
        for each in (
            f"revision {NEW}\n1 requirement failed, 2 warned in the 4 of 5 rules tested (80 %)\n",
            "FAIL tools.call.content-array (MUST, server) 3 times: records 3, 4, 9\n",
            "     clause:  The result of tools/call has",
            "     why:     server sends x\\x1b[2J",
            "     message: x\\x1b[2J",
            "WARN tools.structured-content.also-text (SHOULD, server) record 7\n",
            "WARN jsonrpc.request.answered (MUST, client) at the end of the recording\n",
            "area     pass  fail  warn  not-exercised  not-applicable\n",
            "jsonrpc     1     0     1              0               0\n",
            "tools       0     1     1              1               0\n",
            "all         1     1     2              1               1\n",
            "coverage: 4 of 5 rules tested (80 %)\n",
            "rules: 2026-11\n",
            f"score: 50 of 100 ({SCORE_RULE})\n",
            "result: failed (1 requirement failed, 2 warned)\n",
        )
    ]
    assert places == sorted(places)


def test_text_without_violations_says_so(spotless):
    text = as_text(spotless)
    head = f"session.jsonl: revision not named (judged by {NEW})\n"
    assert f"{head}no failures in the 1 of 1 rules tested (100 %)\n\nno violations\n" in text
    assert "result: passed (0 requirements failed, 0 warned)" in text


def test_quiet_text_is_the_violations_and_one_line(report, spotless):
    text = as_text(report, quiet=True)
    assert text.startswith("FAIL tools.call.content-array")
    assert text.endswith(f"\n{summary(report)}\n")
    assert "coverage:" not in text
    assert as_text(spotless, quiet=True) == f"no violations\n{summary(spotless)}\n"


def test_text_is_wrapped_to_a_width(report):
    lines = as_text(report, width=60).split("\narea ")[0].splitlines()
    assert max(len(each) for each in lines if each.startswith("     ")) <= 60


def test_text_is_painted_by_the_given_painter(report):
    text = as_text(report, paint=lambda style, text: f"<{style}>{text}</>")
    assert "<bold red>FAIL</> <bold>tools.call.content-array</>" in text
    assert "result: <bold red>failed</>" in text


def test_a_report_with_warnings_alone_has_passed_with_warnings(spotless):
    groups = ViolationGroups()
    groups.add(Violation("tools.item.title", "server", "omits it", severity="warn", number=1))
    report = build_report(
        [verdict("tools.item.title", "warn")],
        target="x",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        violations=groups.failures_first(),
    )
    assert "result: passed with warnings (0 requirements failed, 1 warned)" in as_text(report)


def test_many_repetitions_name_only_the_first_records():
    groups = ViolationGroups()
    for number in range(1, 9):
        groups.add(Violation("no.such.row", "server", "x", severity="fail", number=number))
    report = build_report(
        [],
        target="x",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        violations=groups.failures_first(),
    )
    text = as_text(report)
    assert "FAIL no.such.row (unknown, server) 8 times: records 1, 2, 3, 4, 5, ...\n" in text
    assert "clause:  not in the catalogue\n" in text
    assert "score: none (" in text


def test_a_long_message_is_cut(report):
    groups = ViolationGroups()
    groups.add(
        Violation("ping.response.empty", "server", "x", severity="fail", evidence="a" * 1000)
    )
    report = build_report(
        [],
        target="x",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        violations=groups.failures_first(),
    )
    assert f"message: {'a' * 200} ...\n" in as_text(report)


def test_text_of_a_server_names_all_revisions_and_how_to_repeat_a_check():
    text = as_text(server_report(1), width=60)
    assert text.startswith(f"my server.py: revisions {OLD}, {NEW}\n")
    [again] = [each for each in text.splitlines() if each.startswith("     again:   ")]
    assert again.startswith("     again:   accord check server 'my server.py' --only ")
    assert again.endswith(f" --revision {NEW}")
    assert "of the recording" not in text


def test_markdown_shows_the_outcome_and_escapes_a_recording(report):
    text = as_markdown(report)
    assert "- **result: failed (1 requirement failed, 2 warned)**" in text
    assert "- **fail** `tools.call.content-array` (MUST, server) 3 times: records 3, 4, 9" in text
    [why] = [each for each in text.splitlines() if each.startswith("  - why: server sends x")]
    assert "\\<b\\>\\|\\`@&#8203;all" in why
    [message] = [each for each in text.splitlines() if each.startswith("  - message: ")]
    assert message.startswith("  - message: `` x")
    assert "| tools | 0 | 1 | 1 | 1 | 0 |" in text
    assert text.endswith("</details>\n")


def test_markdown_of_a_server_names_revisions_transport_and_how_to_repeat_a_check():
    text = as_markdown(server_report(1))
    assert f"- revisions {OLD}, {NEW}, over stdio\n" in text
    assert "  - again: ` accord check server 'my server.py' --only " in text
