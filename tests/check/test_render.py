import json
from xml.etree import ElementTree as ET

import pytest

from accord.check.render import as_json, as_junit, as_markdown, as_text, harmless, summary
from accord.check.report import SCORE_RULE, Findings, build
from accord.protocol.monitor import Evidence, Verdict
from accord.protocol.violation import Violation
from accord.types import REVISION_IDS

NEW = REVISION_IDS[2]
NASTY = 'x\x1b[2J\x9b31m\u202e\x00\n\ud800"<b>|`@all'


def verdict(id_, name, message="", evidence=()):
    return Verdict(id_, "MUST", "server", (NEW,), name, message, list(evidence))


@pytest.fixture
def report():
    findings = Findings()
    for number in (3, 4, 9):
        findings.add(
            Violation(
                "tools.call.content-array",
                "server",
                f"sends {NASTY}",
                severity="fail",
                number=number,
                evidence=NASTY,
            )
        )
    findings.add(
        Violation("tools.call.is-error-flag", "server", "omits isError", severity="warn", number=7)
    )
    findings.add(
        Violation("jsonrpc.request.answered", "client", "leaves a question", severity="warn")
    )
    return build(
        [
            verdict("jsonrpc.request.answered", "warn", "leaves a question"),
            verdict("jsonrpc.request.id-not-null", "pass", "held"),
            verdict(
                "tools.call.content-array",
                "fail",
                f"sends {NASTY}",
                [Evidence(f"sends {NASTY}", "server", 3, NASTY)],
            ),
            verdict(
                "tools.call.is-error-flag",
                "warn",
                "omits isError",
                [Evidence("omits isError", "server")],
            ),
            verdict("tools.item.title", "not-exercised", "no message put this to the test"),
            verdict("roots.item.name", "not-applicable"),
        ],
        target=f"{NASTY}.jsonl",
        revision=NEW,
        judged_by=NEW,
        decidable={"tools.item.title"},
        findings=findings.sorted(),
    )


@pytest.fixture
def spotless():
    return build(
        [verdict("ping.response.empty", "pass", "held")],
        target="session.jsonl",
        revision=None,
        judged_by=NEW,
        decidable=(),
    )


def is_harmless(text):
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize("render", [as_text, as_json, as_junit, as_markdown, summary])
def test_nothing_from_a_recording_reaches_the_reader_raw(report, render):
    assert is_harmless(render(report))


def test_what_could_steer_a_terminal_is_spelled_out():
    assert harmless("a\x1b[0m\u202eb\n\ud800") == "a\\x1b[0m\\u202eb\\n\\ud800"
    assert harmless("grüß dich, 世界") == "grüß dich, 世界"


def test_text_shows_breaches_first_then_areas_coverage_and_score(report):
    text = as_text(report)
    places = [
        text.index(each)
        for each in (
            f"revision {NEW}\n",
            "FAIL tools.call.content-array (MUST, server) 3 times: records 3, 4, 9\n",
            "     clause:  The result of tools/call has",
            "     why:     server sends x\\x1b[2J",
            "     message: x\\x1b[2J",
            "WARN tools.call.is-error-flag (MUST, server) record 7\n",
            "WARN jsonrpc.request.answered (MUST, client) at the end of the recording\n",
            "area     pass  fail  warn  not-exercised  not-applicable\n",
            "jsonrpc     1     0     1              0               0\n",
            "tools       0     1     1              1               0\n",
            "all         1     1     2              1               1\n",
            "coverage: 5 applicable, 4 exercised\n",
            f"score: 50 of 100 ({SCORE_RULE})\n",
            "result: failed (3 failures, 2 warnings)\n",
        )
    ]
    assert places == sorted(places)


def test_text_without_breaches_says_so(spotless):
    text = as_text(spotless)
    assert f"session.jsonl: revision not named (judged by {NEW})\n\nno violations\n" in text
    assert "result: passed (0 failures, 0 warnings)" in text


def test_quiet_text_is_the_breaches_and_one_line(report, spotless):
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
    findings = Findings()
    findings.add(Violation("tools.item.title", "server", "omits it", severity="warn", number=1))
    report = build(
        [verdict("tools.item.title", "warn")],
        target="x",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        findings=findings.sorted(),
    )
    assert "result: passed with warnings (0 failures, 1 warning)" in as_text(report)


def test_many_repetitions_name_only_the_first_records():
    findings = Findings()
    for number in range(1, 9):
        findings.add(Violation("no.such.row", "server", "x", severity="fail", number=number))
    report = build(
        [], target="x", revision=NEW, judged_by=NEW, decidable=(), findings=findings.sorted()
    )
    text = as_text(report)
    assert "FAIL no.such.row (unknown, server) 8 times: records 1, 2, 3, 4, 5, ...\n" in text
    assert "clause:  not in the catalogue\n" in text
    assert "score: none (" in text


def test_a_long_message_is_cut(report):
    findings = Findings()
    findings.add(
        Violation("ping.response.empty", "server", "x", severity="fail", evidence="a" * 1000)
    )
    report = build(
        [], target="x", revision=NEW, judged_by=NEW, decidable=(), findings=findings.sorted()
    )
    assert f"message: {'a' * 200} ...\n" in as_text(report)


def test_json_has_exactly_the_agreed_members(report):
    shown = json.loads(as_json(report))
    assert list(shown) == ["target", "revision", "score", "coverage", "results"]
    assert shown["target"] == f"{NASTY}.jsonl"
    assert (shown["revision"], shown["score"]) == (NEW, 50)
    assert shown["coverage"] == {"applicable": 5, "exercised": 4}
    for each in shown["results"]:
        assert list(each) == [
            "id",
            "level",
            "party",
            "revisions",
            "verdict",
            "message",
            "evidence",
        ]
    assert shown["results"][2]["evidence"] == [
        {"why": f"sends {NASTY}", "party": "server", "number": 3, "message": NASTY}
    ]


def test_json_says_null_where_nothing_is_known():
    report = build([], target="x", revision=None, judged_by=NEW, decidable=())
    shown = json.loads(as_json(report))
    assert (shown["revision"], shown["score"]) == (None, None)


def test_junit_has_a_suite_per_area_and_a_case_per_requirement(report):
    root = ET.fromstring(as_junit(report))
    assert root.tag == "testsuites"
    assert root.attrib | {"name": ""} == {
        "name": "",
        "tests": "6",
        "failures": "1",
        "errors": "0",
        "skipped": "2",
    }
    assert [suite.get("name") for suite in root] == ["jsonrpc", "tools", "roots"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert list(cases["jsonrpc.request.id-not-null"]) == []
    failure = cases["tools.call.content-array"].find("failure")
    assert failure.get("type") == "MUST"
    assert "record 3: server sends x\\x1b[2J" in failure.text
    assert "warning: omits isError" in cases["tools.call.is-error-flag"].find("system-out").text
    assert (
        cases["tools.item.title"].find("skipped").get("message")
        == "not-exercised: no message put this to the test"
    )
    assert cases["roots.item.name"].find("skipped").get("message") == "not-applicable"


def test_markdown_shows_the_outcome_and_cannot_be_steered_by_a_recording(report):
    text = as_markdown(report)
    assert "- **result: failed (3 failures, 2 warnings)**" in text
    assert "- **fail** `tools.call.content-array` (MUST, server) 3 times: records 3, 4, 9" in text
    [why] = [each for each in text.splitlines() if each.startswith("  - why: server sends x")]
    assert "\\<b\\>\\|\\`@&#8203;all" in why
    [message] = [each for each in text.splitlines() if each.startswith("  - message: ")]
    assert message.startswith("  - message: `` x")
    assert "| tools | 0 | 1 | 1 | 1 | 0 |" in text
    assert text.endswith("</details>\n")


def test_the_summary_is_one_line(report):
    assert summary(report).count("\n") == 0
    assert "1 requirement failed, 2 warned, 4 of 5 applicable exercised, score 50 of 100" in (
        summary(report)
    )
